"""The time up to which a capture is complete: exact if the ends of the offsets topic are sampled, else by the newest records."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.capture.folder import CaptureFolder
from counterpoise.pipeline.capture.sampler import Sample, sample_batch
from counterpoise.pipeline.capture.series import STATE_KEY
from counterpoise.pipeline.fold.ends_file import EndsFile, with_samples
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.incremental import positions
from counterpoise.pipeline.incremental.positions import check_same_capture, files_of, recreated, watermark_of
from counterpoise.pipeline.incremental.saved import ClusterState, SavedState
from counterpoise.pipeline.incremental.since_last import Update
from counterpoise.pipeline.source import parquet_rows
from counterpoise.pipeline.source.capture import CaptureFiles, read_capture
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.storage.files import file_infos, parquet_footers
from counterpoise.wire.consumer_protocol import Partition

SECOND = 1_000_000
TWO = [(OFFSETS_TOPIC, 0), (OFFSETS_TOPIC, 1)]
WITH_ENDS = {second: dict(zip(TWO, (second, second // 2), strict=True)) for second in (100, 200, 300)}
WITHOUT = {second: {("t", 0): second} for second in WITH_ENDS}


def sampled(samples: Mapping[int, Mapping[Partition, int]], folder: Path) -> EndsFile:
    """What the sampler writes at some seconds, as an update reads it."""
    file = folder / "log_offsets.parquet"
    taken = [Sample(at, {}, dict.fromkeys(ends, 0), dict(ends), []) for at, ends in samples.items()]
    pq.write_table(pa.Table.from_batches(map(sample_batch, taken)), file)
    return with_samples(EndsFile.empty(), NewSamples([str(file)]), str(folder / "ends.bin"))


@pytest.mark.parametrize(
    ("samples", "read", "newest", "before", "expected"),
    [
        pytest.param(WITH_ENDS, {0: 200, 1: 100}, 900, None, 200, id="up to the last sample whose records have been read"),
        pytest.param(WITH_ENDS, {0: 200, 1: 99}, 900, None, 100, id="each log partition counts"),
        pytest.param(WITH_ENDS, {0: 99, 1: 99}, 900, None, None, id="nothing as long as records of all samples are missing"),
        pytest.param(WITH_ENDS, {0: 300, 1: 150}, 10, None, 200, id="without a newer record the last sample itself is newer"),
        pytest.param(WITHOUT, {0: 9, 1: 9}, 290, None, 200, id="without ends of the topic records are a minute newer"),
        pytest.param(WITHOUT, {0: 9, 1: 9}, 259, None, 100, id="not by less than a minute"),
        pytest.param(WITH_ENDS, {-1: 9}, 290, None, 200, id="of polls too: their offsets are not those of the topic"),
        pytest.param({}, {0: 9, 1: 9}, 290, None, 230, id="without samples a minute before the newest record"),
        pytest.param({}, {}, None, None, None, id="without records nothing"),
        pytest.param(WITH_ENDS, {0: 99, 1: 99}, 900, 150, 150, id="never less than before"),
        pytest.param({}, {0: 9, 1: 9}, 290, 250, 250, id="never less than before, without samples"),
    ],
)
def test_the_watermark_is_the_newest_sample_whose_earlier_records_are_all_read(
    tmp_path: Path,
    samples: Mapping[int, Mapping[Partition, int]],
    read: Mapping[int, int],
    newest: int | None,
    before: int | None,
    expected: int | None,
) -> None:
    ends = sampled(samples, tmp_path) if samples else EndsFile.empty()
    newest, before, expected = (None if one is None else one * SECOND for one in (newest, before, expected))
    assert watermark_of(ends, read, newest, before) == expected


def test_offsets_of_markers_that_were_read_are_not_forgotten_by_an_update_that_brings_samples_only(tmp_path: Path) -> None:
    """The last record of a log partition is at offset 8, the end of its transaction at 9; then all groups rest for hours."""
    capture = SimpleNamespace(place=str(tmp_path), records=None, notes=(), faults=(), files=CaptureFiles())
    transaction: Any = SimpleNamespace(captures={"c": capture}, scope=AuditScope(), transaction=None)
    file = tmp_path / "1.parquet"
    pq.write_table(pa.table({}).replace_schema_metadata({STATE_KEY: json.dumps({OFFSETS_TOPIC: {"0": 10, "1": 5}})}), file)
    state = ClusterState()
    for files, last in (((str(file),), [(0, 8, 700)]), ((), [])):
        update = Update(transaction, {}, SavedState({}, {"c": state}, [], {}))
        clusters = {"c": SimpleNamespace(record_files=files, ends=EndsFile.empty())}
        engine: Any = SimpleNamespace(
            scanned=[{"cluster": "c", "last": last, "times": None}], clusters=clusters, topic_names=dict
        )
        engine.last_record_time, engine.tasks = lambda _: 700, {"c": SimpleNamespace(buckets=8)}
        update._set_positions("c", engine)
        state = update.clusters["c"]
        assert (state.positions, state.read) == ({0: 9}, {0: 10, 1: 5})
    # Hours later retention has dropped all that was audited: the next record follows the marker, so nothing is missing.
    scanned = {"before_begin": [], "skipped": False, "last": [(0, 10, 900)], "flushes": [(900, [(0, 10, 10)])]}
    check_same_capture("c", state, False, [scanned], 900, 0)
    scanned["flushes"] = [(900, [(0, 11, 11)])]
    with pytest.raises(CaptureError, match="log partition 0: offsets 10 to 10"):
        check_same_capture("c", state, False, [scanned], 900, 0)


@pytest.mark.parametrize(("partition", "words"), [(5, None), (7, "log partition 7 ends before offset 0")])
def test_a_log_partition_whose_audited_records_retention_has_deleted_is_not_missed(
    tmp_path: Path, partition: int, words: str | None
) -> None:
    """Partition 5 was quiet for two days. A record of partition 7 that is a day old must still be there."""
    days = {5: 10, 7: 11, 8: 12}
    folder = CaptureFolder(tmp_path)
    with folder.held():
        for number, day in days.items():
            folder.records.append(in_batches([(number, 0, day * 86_400_000, 0, b"k", None)]), {})
        folder.update_about(topic=OFFSETS_TOPIC)
        folder.merge_and_drop(10.5 * 86_400)
    capture = read_capture(tmp_path)
    assert (len(capture.files.records), capture.deleted_before) == (2, 10.5 * 86_400)
    places = {number: (0, day * 86_400 * SECOND) for number, day in days.items()}
    last = ClusterState(positions=dict.fromkeys(days, 1), stamps={number: time for number, (_, time) in places.items()})
    last.read, last.end = last.positions, max(last.stamps.values())
    job: Any = SimpleNamespace(captures={"c": capture}, scope=AuditScope(), transaction=None)
    held = [[number, *place] for number, place in places.items() if number != partition]
    scanned = {"cluster": "c", "before_begin": held, "last": held, "skipped": True, "early": False, "flushes": [], "times": None}
    engine: Any = SimpleNamespace(topic_names=dict, scanned=[scanned], groups={}, last_record_time=lambda _: None)
    engine.clusters, engine.tasks = (
        {"c": SimpleNamespace(record_files=(), ends=EndsFile.empty())},
        {"c": SimpleNamespace(buckets=8)},
    )
    update = Update(job, {}, SavedState({}, {"c": last}, [], {}))
    with nullcontext() if words is None else pytest.raises(CaptureError, match=words):
        update.add_scanned(engine)


def test_requests_for_the_files_of_a_capture_are_not_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store each takes some milliseconds; an update of a capture of thousands of files made several for each."""
    for name in ("a", "b", "c"):
        for kind in ("records", "ends"):
            (tmp_path / name / kind).mkdir(parents=True)
            sampled(WITH_ENDS, tmp_path / name / kind)
    records, ends = (tuple(map(str, sorted(tmp_path.glob(f"*/{kind}/*.parquet")))) for kind in ("records", "ends"))
    asked: list[str] = []

    def listed(place: str) -> Any:
        asked.append(place)
        return file_infos(place)

    def footers(files: Sequence[str]) -> Any:
        asked.append("footers")
        return parquet_footers(files)

    monkeypatch.setattr(positions, "file_infos", listed)
    monkeypatch.setattr(parquet_rows, "parquet_footers", footers)
    single = files_of(CaptureFiles(records=records, ends=ends))
    assert list(single) == [*records, *ends]
    asked.clear()
    (tmp_path / "whole").mkdir()
    for number, file in enumerate(records):
        Path(file).rename(tmp_path / "whole" / f"{number}.parquet")
    moved = tuple(str(tmp_path / "whole" / f"{number}.parquet") for number in range(3))
    monkeypatch.setattr(positions, "is_local", lambda _: False)
    assert list(files_of(CaptureFiles(records=moved)).values()) == [single[file] for file in records]
    NewSamples(moved)
    assert asked == [str(tmp_path / "whole"), "footers"]


@pytest.mark.parametrize("local", [True, False])
def test_what_is_beside_the_files_of_a_capture_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, local: bool
) -> None:
    """The folder of a capture may hold the output of its audits, or anything else; a name in it need not be UTF-8."""
    files = CaptureFiles(records=(str(tmp_path / "records.parquet"),), ends=(str(tmp_path / "ends.parquet"),))
    for name in (*files.records, *files.ends, os.fsdecode(b"\xff")):
        (tmp_path / name).touch()
    monkeypatch.setattr(positions, "is_local", lambda _: local)
    assert list(files_of(files)) == [*files.records, *files.ends]


@pytest.mark.parametrize(("new_id", "expected"), [("a", False), ("b", True)], ids=["the same topic", "another one"])
def test_a_topic_that_was_deleted_for_a_while_is_compared_by_its_last_id(tmp_path: Path, new_id: str, expected: bool) -> None:
    """Its log does not show it if the new one is longer at the first sample."""
    last, file = ClusterState(topics={"t": "a"}, lives={"t": 0}), tmp_path / "topics.json"
    for ids in ({}, {"t": new_id}):
        file.write_text(json.dumps({name: {"partitions": 1, "topic_id": one} for name, one in ids.items()}))
        capture = SimpleNamespace(place=str(tmp_path), records=None, notes=(), faults=(), files=CaptureFiles(topics=str(file)))
        job: Any = SimpleNamespace(captures={"c": capture}, scope=AuditScope(), transaction=None)
        before, last = last, Update(job, {}, SavedState({}, {"c": last}, [], {})).clusters["c"]
        last.lives = {"t": 0}
    assert recreated(before, last) == expected
