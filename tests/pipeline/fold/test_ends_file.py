"""Samples that are added to a file piece by piece are the samples of a capture read as a whole, with the same lives of logs."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.fold import ends_file
from counterpoise.pipeline.fold.ends_file import EndsFile, with_samples
from counterpoise.pipeline.fold.log_ends import LogEnds, mapped_log_ends
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.source.capture import CaptureFiles
from tests.work import lines_of

START = datetime(2026, 11, 22, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_start", pa.int64()),
        ("log_end", pa.int64()),
        ("sampled_at", pa.timestamp("us", tz="UTC")),
    ]
)


def micros(instant: int) -> int:
    return int(START.timestamp()) * 1_000_000 + instant * 15_000_000


def samples(seed: int, instants: range) -> pa.Table:
    """Topics of several logs: one that never shrinks, one that is made anew, with more logs or fewer, and one that comes late.

    One log has a number that no broker gives; it is kept like the others, and no commit asks for it.
    """
    rng = np.random.default_rng(seed)
    rows = []
    ends = {("still", one): 5 * one + 5 for one in range(-1, 2)} | {("anew", one): 100 for one in range(4)}
    for instant in instants:
        if instant == 9:
            ends |= {("late", 0): 7, ("late", 1): 0}
        if instant in (5, 12, 13):
            for at in range(rng.integers(1, 7)):
                ends["anew", at] = int(rng.integers(0, 60))
            ends.pop(("anew", 3), None)
        for (topic, partition), end in ends.items():
            if rng.random() < 0.85:
                moment = START + timedelta(seconds=15 * instant)
                rows.append(dict(zip(SCHEMA.names, (topic, partition, end // 2, end, moment), strict=True)))
            ends[topic, partition] = end + int(rng.integers(0, 9))
    return pa.Table.from_pylist(rows, SCHEMA)


def read_lives(files: Sequence[str]) -> LogEnds:
    """The samples in some files, all in memory at once: the plain way to find their lives."""
    names = ["topic", "partition", "log_start", "log_end", "sampled_at"]
    parts = [pq.read_table(file, columns=names, use_threads=False) for file in files]
    table = pa.concat_tables([part.set_column(4, "us", _micros(part["sampled_at"])) for part in parts]).drop_null()
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("us", "ascending")]).combine_chunks()
    return _lives(table)


def _micros(stamps: pa.ChunkedArray) -> pa.ChunkedArray:
    return stamps.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def _lives(table: pa.Table) -> LogEnds:
    topic = pa.array(table["topic"].to_pylist(), pa.string()).dictionary_encode() if len(table) else None
    code: Any = np.zeros(0, np.int32) if topic is None else topic.indices.to_numpy()
    partition, time = table["partition"].to_numpy(), table["us"].to_numpy()
    start, end = table["log_start"].to_numpy(), table["log_end"].to_numpy()
    n = len(time)
    same_log = np.zeros(n, np.bool_)
    same_log[1:] = (code[1:] == code[:-1]) & (partition[1:] == partition[:-1])
    shrunk = np.zeros(n, np.bool_)
    shrunk[1:] = same_log[1:] & (end[1:] < end[:-1])
    # A topic is made anew as a whole, at the instant at which any of its logs has shrunk.
    fallen = set(zip(code[shrunk].tolist(), time[shrunk].tolist(), strict=True))
    anew = np.zeros(n, np.int64)
    if fallen:
        anew[:] = [pair in fallen for pair in zip(code.tolist(), time.tolist(), strict=True)]
    firsts = np.flatnonzero(~same_log)
    log_of = np.cumsum(~same_log) - 1
    total = np.cumsum(anew)
    life = total - (total[firsts] - anew[firsts])[log_of] if n else total
    most = np.zeros(int(code.max()) + 1 if n else 0, np.int64)
    np.maximum.at(most, code, life)
    goes_on = np.zeros(n, np.bool_)
    goes_on[:-1] = same_log[1:] & (life[1:] == life[:-1])
    begins = np.concatenate(([True], ~goes_on[:-1])) if n else goes_on
    bounds = [*firsts.tolist(), n]
    names = [] if topic is None else topic.dictionary.to_pylist()
    log = {(names[code[first]], int(partition[first])): (first, last) for first, last in pairwise(bounds)}
    return LogEnds(
        log=log,
        instants=np.unique(time),
        time=np.append(time, 0),
        start=start,
        end=np.append(end, 0),
        life_first=np.flatnonzero(begins),
        life_after=np.flatnonzero(~goes_on) + 1,
        is_newest=(life == most[code])[begins] if n else begins,
    )


def put(table: pa.Table, place: Path, order: Any = None) -> str:
    pq.write_table(table if order is None else table.take(order), place, row_group_size=23)
    return str(place)


def contents(lives: LogEnds) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """All that is known of each sample of each log; of a life where in its log it begins."""
    found = {}
    for log, (first, after) in sorted(lives.log.items()):
        rows = np.arange(first, after)
        life, follows = lives.life(rows), lives.has_next(rows)
        columns = [lives.time[rows], lives.start[rows], lives.end[rows], lives.life_first[life] - first, lives.is_newest[life]]
        columns += [follows, *(np.where(follows, column[rows + 1], -1) for column in (lives.time, lives.end))]
        found[log] = list(zip(*(column.tolist() for column in columns), strict=True))
    return found


def added(before: EndsFile, files: list[str], after: int | None, folder: Path) -> EndsFile:
    return with_samples(before, NewSamples(files, after), str(folder / f"{uuid4().hex}.bin"))


def again(once: pa.Table) -> tuple[pa.Table, list[int]]:
    """With rows that repeat others, here and there with a smaller end or start; and the times of those that differ."""
    rows = once.to_pylist()
    less = [{**row, "log_end": row["log_end"] - 1} for row in rows[::3] if row["log_end"] >= 1]
    less += [{**row, "log_start": row["log_start"] - 2} for row in rows[::7] if row["log_start"] >= 2]
    odd = {(row["topic"], row["partition"], row["sampled_at"]) for row in less}
    more = pa.Table.from_pylist([*rows[::2], *less, *rows[1::2], *rows[::5]], SCHEMA)
    return more, sorted(int(at.timestamp()) * 1_000_000 for *_, at in odd)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("at_once", [1 << 20, 5])
def test_samples_in_pieces_are_the_samples_of_the_whole(
    tmp_path: Path, seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time those after the last but one are read again, as if they were not settled; then they stand in the file already.

    Some are in the capture more than once, and the largest of these counts.
    """
    monkeypatch.setattr(ends_file, "_AT_ONCE", at_once)
    whole = samples(seed, range(20))
    assert {row["topic"] for row in whole.to_pylist()} == {"still", "anew", "late"}
    ends, settled = EndsFile.empty(), None
    for last in (3, 6, 7, 12, 13, 19):
        once = whole.filter(pa.compute.less_equal(whole["sampled_at"], START + timedelta(seconds=15 * last)))
        more, odd = again(once)
        file, plain = put(more, tmp_path / "capture"), put(once, tmp_path / "plain")
        full = added(ends, [file], settled, tmp_path)
        assert contents(mapped_log_ends(full)) == contents(read_lives([plain]))
        assert sorted(full.conflicting.tolist()) == odd
        assert full.lives_of_topics() == added(EndsFile.empty(), [file], None, tmp_path).lives_of_topics()
        assert full.instants.tolist() == sorted({micros(0) + 15_000_000 * one for one in range(last + 1)})
        settled = micros(last - 1)
        full.up_to(settled).save(str(tmp_path / "ends.json"))
        ends = EndsFile.load(str(tmp_path / "ends.json"))


def test_samples_on_an_object_store_are_read_from_copies_and_added_to(s3: str, tmp_path: Path) -> None:
    """As an update of twelve clusters: all are read and added to before the first is shared; a process keeps eight copies."""
    whole = [samples(seed, range(6)) for seed in range(12)]
    local = [added(EndsFile.empty(), [put(one, tmp_path / str(at))], None, tmp_path) for at, one in enumerate(whole)]
    shared = [EndsFile.load(one.share(f"{s3}/work")) for one in local]
    rows = [one.rows() for one in shared]
    assert [one.tolist() for one in rows] == [one.rows().tolist() for one in local]
    assert not any(one.flags.writeable for one in rows)
    more = [put(samples(seed, range(8)), tmp_path / f"more-{seed}") for seed in range(12)]
    longer = [added(one, [file], micros(5), tmp_path) for one, file in zip(shared, more, strict=True)]
    assert any(one.file == before.file for one, before in zip(longer, shared, strict=True))  # there is room in its copy
    for place, file in zip([one.share(f"{s3}/work") for one in longer], more, strict=True):
        assert contents(mapped_log_ends(EndsFile.load(place))) == contents(read_lives([file]))


def test_topics_that_are_all_made_anew_are_not_searched_for_in_all_logs(tmp_path: Path) -> None:
    def work(topics: int) -> int:
        rows = [
            {"topic": f"t-{topic}", "partition": 0, "log_start": 0, "log_end": end, "sampled_at": START + timedelta(seconds=at)}
            for at, end in ((0, 9), (15, 3))
            for topic in range(topics)
        ]
        new = NewSamples([put(pa.Table.from_pylist(rows, SCHEMA), tmp_path / str(topics))])
        return lines_of(lambda: with_samples(EndsFile.empty(), new, str(tmp_path / f"{uuid4().hex}.bin")))

    assert work(200) < 5 * work(50)
    few, many = ((ends_of(n), [(at, 1) for at in range(n)]) for n in (50, 200))
    assert lines_of(lambda: ends_file._with_lives(*few)) == lines_of(lambda: ends_file._with_lives(*many))


def ends_of(n: int) -> EndsFile:
    """The index of logs of two samples."""
    nothing, two = np.zeros(0, np.int64), np.full(n, 2)
    logs = tuple(("t", at) for at in range(n))
    return EndsFile("", logs, 2 * np.arange(n), two, two, nothing, nothing, nothing, np.arange(2), nothing)


def test_files_of_samples_in_any_order_give_the_same_index(tmp_path: Path) -> None:
    whole = samples(1, range(20))
    order = np.random.default_rng(2).permutation(len(whole))
    files = [put(whole, tmp_path / "a", order[:70]), put(whole, tmp_path / "b", order[70:])]
    assert contents(mapped_log_ends(added(EndsFile.empty(), files, None, tmp_path))) == contents(read_lives(files))


def test_if_the_recording_goes_on_only_topics_that_were_recreated_in_the_window_have_an_id(tmp_path: Path) -> None:
    """The others may have got their present id later: commits with another one count."""
    ids = {"still": "1", "anew": "2", "late": "3", "unsampled": "4"}
    file = put(samples(1, range(20)), tmp_path / "a")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({name: {"partitions": 1, "topic_id": one} for name, one in ids.items()}), encoding="utf-8")
    ends, files = added(EndsFile.empty(), [file], None, tmp_path), CaptureFiles(ends=(file,), topics=str(topics))
    last = ends.instants.tolist()[-1]
    assert ends.ids_at_end(files, None) == ends.ids_at_end(files, last) == ids
    assert ends.up_to(last - 1).ids_at_end(files, last - 1) == {"anew": "2"}
    assert ends.ids_at_end(CaptureFiles(ends=(file,)), last - 1) is None


def test_what_is_not_settled_leaves_no_trace_in_what_is_kept(tmp_path: Path) -> None:
    """Samples that an audit has added and not kept, because it was killed, are written over by those of the next one."""
    whole, other = samples(3, range(20)), samples(4, range(20))
    early = whole.filter(pa.compute.less(whole["sampled_at"], START + timedelta(seconds=90)))
    kept = added(EndsFile.empty(), [put(early, tmp_path / "early")], None, tmp_path).up_to(micros(5))
    both = pa.concat_tables([early, other.filter(pa.compute.greater(other["sampled_at"], START + timedelta(seconds=75)))])
    added(kept, [put(both, tmp_path / "other")], micros(5), tmp_path)
    found = added(kept, [put(whole, tmp_path / "whole")], micros(5), tmp_path)
    assert contents(mapped_log_ends(found)) == contents(read_lives([str(tmp_path / "whole")]))


def test_new_samples_go_where_there_is_room_and_the_file_stays(tmp_path: Path) -> None:
    whole = samples(5, range(9))
    early = whole.filter(pa.compute.less(whole["sampled_at"], START + timedelta(seconds=60)))
    kept = added(EndsFile.empty(), [put(early, tmp_path / "capture")], None, tmp_path).up_to(micros(3))
    assert added(kept, [put(whole, tmp_path / "capture")], micros(3), tmp_path).file == kept.file
    assert added(kept, [put(samples(5, range(60)), tmp_path / "capture")], micros(3), tmp_path).file != kept.file


def test_what_the_capture_has_dropped_goes_when_another_file_is_made(tmp_path: Path) -> None:
    whole = samples(6, range(60))
    late = whole.filter(pa.compute.greater_equal(whole["sampled_at"], START + timedelta(seconds=150)))
    early = whole.filter(pa.compute.less_equal(whole["sampled_at"], START + timedelta(seconds=225)))
    kept = added(EndsFile.empty(), [put(early, tmp_path / "capture")], None, tmp_path).up_to(micros(15))
    assert kept.instants[0] == micros(0)
    found = added(kept, [put(late, tmp_path / "capture")], micros(15), tmp_path)
    lives, whole_lives = contents(mapped_log_ends(found)), contents(read_lives([str(tmp_path / "capture")]))
    assert lives.keys() - whole_lives.keys() == {("anew", 3)}
    for log, rows in whole_lives.items():
        # Which life is the newest follows from how many there were, and some were dropped.
        assert [row[:4] + row[5:] for row in lives[log]] == [row[:4] + row[5:] for row in rows]
    assert found.instants[0] == micros(10)


def test_row_groups_without_a_new_sample_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(samples(7, range(20)), tmp_path / "capture")
    read: list[int] = []
    real = pq.ParquetFile.iter_batches

    def counting(self: pq.ParquetFile, *args: Any, row_groups: list[int], **more: Any) -> Any:
        read.extend(row_groups)
        return real(self, *args, row_groups=row_groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counting)
    new = NewSamples([file], micros(17))
    groups = pq.read_metadata(file).num_row_groups
    assert 0 < len(set(read)) < groups / 2
    assert new.instants.tolist() == [micros(18), micros(19)]
    monkeypatch.undo()
    pq.write_table(pq.read_table(file), file, write_statistics=False)
    assert NewSamples([file], micros(17)).instants.tolist() == new.instants.tolist()


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(CaptureError, match=r": No space left on device; samples of log ends need \d+ MB there; give another"):
        added(EndsFile.empty(), [put(samples(8, range(20)), tmp_path / "capture")], None, tmp_path)
