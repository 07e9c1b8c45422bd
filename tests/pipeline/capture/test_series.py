"""A growing Parquet folder: whole at every moment, whatever step the writer is killed at; merged, and old files dropped."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import CaptureError, StorageError
from counterpoise.pipeline.capture import disk_series
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.capture.disk_series import DiskSeries
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, Missing, missing_of
from counterpoise.pipeline.capture.object_series import ObjectSeries
from counterpoise.pipeline.capture.series import LONG_SPAN_S, MERGE_AT, Series

SCHEMA = pa.schema([("n", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])


class Killed(BaseException):
    """The process ends here; nothing of the code under test may catch it."""


def opened(folder: Path) -> Series:
    (folder / "store").mkdir(exist_ok=True)
    return DiskSeries(folder / "t.parquet", folder / "store", SCHEMA, "timestamp")


def rows(*numbers: int, at: float = 1e9) -> list[pa.RecordBatch]:
    moment = datetime.fromtimestamp(at, UTC)
    return [pa.RecordBatch.from_pydict({"n": list(numbers), "timestamp": [moment] * len(numbers)}, SCHEMA)]


def visible(folder: Path) -> list[int]:
    link = folder / "t.parquet"
    return sorted(pq.read_table(link)["n"].to_pylist()) if link.exists() else []


@contextmanager
def killed_at(step: int) -> Iterator[list[str]]:
    """The `step`-th step that changes the disk does not happen, nor anything after it. Yields the steps that were made."""
    made: list[str] = []

    def guard(owner: Any, name: str) -> Any:
        real: Callable[..., Any] = getattr(owner, name)

        def guarded(*arguments: Any, **named: Any) -> Any:
            if len(made) >= step:
                raise Killed
            made.append(name)
            return real(*arguments, **named)

        return mock.patch.object(owner, name, guarded)

    with (
        guard(os, "link"),
        guard(os, "fsync"),
        guard(os, "utime"),
        guard(Path, "rename"),
        guard(Path, "replace"),
        guard(Path, "symlink_to"),
        guard(Path, "mkdir"),
        guard(shutil, "rmtree"),
        guard(pq.ParquetWriter, "write_table"),
    ):
        yield made


@pytest.mark.parametrize("kind", ["disk", "object store"])
def test_files_on_both_sides_of_one_that_is_not_merged_stay_apart(tmp_path: Path, kind: str) -> None:
    """The file in between has records of more than a day, as after an outage."""
    (tmp_path / "t").mkdir()
    series = opened(tmp_path) if kind == "disk" else ObjectSeries(str(tmp_path / "t"), SCHEMA, "timestamp", lambda: None)
    for at in range(1, 4 * MERGE_AT):
        outage = rows(-at, at=1e9 + 2 * LONG_SPAN_S) if at == MERGE_AT // 2 else []
        series.append([*rows(at), *outage], {"next": at + 1})
        series.merge()
        again = opened(tmp_path) if kind == "disk" else ObjectSeries(str(tmp_path / "t"), SCHEMA, "timestamp", lambda: None)
        assert again.state == {"next": at + 1}
        found = [n for batch in again.batches(["n"]) for n in batch["n"].to_pylist()]
        assert [n for n in found if n > 0] == list(range(1, at + 1))
    assert len(series.pieces) < 2 * MERGE_AT


def test_killed_at_any_step_an_append_is_there_or_not_and_a_merge_changes_nothing(tmp_path: Path) -> None:
    """Every step of the first append, of a later one and of a merge in turn; then the writer goes on where it is."""
    acts: list[tuple[str, int, Callable[[Series, int], object]]] = [
        ("first append", 0, lambda s, n: s.append(rows(n), {"next": n + 1})),
        ("append", 3, lambda s, n: s.append(rows(n), {"next": n + 1})),
        ("merge", MERGE_AT, lambda s, _: s.merge()),
    ]
    for name, already, act in acts:
        for step in range(200):
            folder = tmp_path / f"{name}-{step}"
            folder.mkdir()
            start = opened(folder)
            for n in range(already):
                start.append(rows(n), {"next": n + 1})
            try:
                with killed_at(step) as made:
                    act(start, already)
                break
            except Killed:
                assert visible(folder) in (list(range(already)), list(range(already + 1)))
                again = opened(folder)
                assert again.state.get("next", 0) == len(visible(folder)), (name, made)
                again.append(rows(again.state.get("next", 0)), {"next": again.state.get("next", 0) + 1})
                while again.merge():
                    pass
                assert visible(folder) == list(range(again.state["next"]))
                assert not list((folder / "store").glob("tmp-*"))
        assert step > 3, f"{name} was never cut"


def test_many_small_files_become_few(tmp_path: Path) -> None:
    """Three hundred appends leave at most fifteen files a level; nothing lost, nothing double, order kept."""
    table = opened(tmp_path)
    for n in range(300):
        table.append(rows(n), {"next": n + 1})
        table.merge()
        if n % 50 == 0:
            assert visible(tmp_path) == list(range(n + 1))
    assert len(table.pieces) <= 3 * (MERGE_AT - 1)
    assert max(piece.level for piece in table.pieces) == 2
    assert visible(tmp_path) == list(range(300))
    assert opened(tmp_path).state == {"next": 300}
    assert set(table._spans) <= set(table.pieces), "the files that were replaced are remembered: memory grows for months"


def test_a_reader_that_has_listed_the_old_files_can_still_read_them(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for n in range(MERGE_AT):
        table.append(rows(n), {})
    before = sorted((tmp_path / "t.parquet").resolve().glob("*.parquet"))
    assert table.merge() == MERGE_AT
    assert [pq.read_table(file)["n"].to_pylist() for file in before] == [[n] for n in range(MERGE_AT)]
    table.free()
    assert not any(file.exists() for file in before)


def test_retention_drops_files_that_are_old_as_a_whole_and_keeps_the_position(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for n, at in enumerate((100.0, 200.0, 300.0)):
        table.append(rows(n, at=at), {"next": n + 1})
    assert table.drop_before(200.0) == 1
    assert visible(tmp_path) == [1, 2]
    assert table.drop_before(1e12) == 1
    assert visible(tmp_path) == [2]
    assert opened(tmp_path).state == {"next": 3}


def test_files_of_a_long_time_are_left_alone(tmp_path: Path) -> None:
    """A merge must not weld months together, or retention could never drop them."""
    table = opened(tmp_path)
    for n in range(MERGE_AT):
        table.append([*rows(n, at=0.0), *rows(n, at=200_000.0)], {})
    assert table.merge() == 0


@pytest.mark.parametrize(("minutes", "left"), [(5, 6), (80, 6), (1_000, 6 * MERGE_AT)])
def test_a_merged_file_has_records_of_a_day_at_most(tmp_path: Path, minutes: int, left: int) -> None:
    """Else retention would keep them for weeks. `minutes`: the time from the first to the last record of each append."""
    table = opened(tmp_path)
    for n in range(6 * MERGE_AT):
        table.append([*rows(n, at=60.0 * minutes * n), *rows(n, at=60.0 * minutes * (n + 1))], {})
        table.merge()
    assert len(table.pieces) == left
    assert max(last - first for first, last in map(table._times, table.pieces)) <= 86_400


def test_a_full_disk_costs_nothing(tmp_path: Path) -> None:
    """An append that fails leaves no trace and can be tried again; so can a merge."""
    table = opened(tmp_path)
    for n in range(MERGE_AT):
        table.append(rows(n), {"next": n + 1})
    with mock.patch.object(os, "fsync", side_effect=OSError(28, "No space left on device")):
        with pytest.raises(OSError, match="No space"):
            table.append(rows(99), {"next": 100})
        with pytest.raises(OSError, match="No space"):
            table.merge()
    assert visible(tmp_path) == list(range(MERGE_AT))
    assert table.merge() == MERGE_AT
    assert visible(tmp_path) == list(range(MERGE_AT))
    assert opened(tmp_path).state == {"next": MERGE_AT}


@contextmanager
def failing_sync(where: Path, *, stale: bool = False) -> Iterator[None]:
    """The folder `where` cannot be synced; `stale`: from then on the link cannot be read either."""
    real = disk_series._sync

    def sync(folder: Path) -> None:
        if folder == where:
            if stale:
                patch.setattr(Path, "readlink", mock.Mock(side_effect=OSError(116, "Stale file handle")))
            raise OSError(5, "Input/output error")
        real(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_series, "_sync", sync)
        yield


@pytest.mark.parametrize("stale", [False, True])
def test_an_error_after_the_link_was_replaced_costs_nothing(tmp_path: Path, stale: bool) -> None:
    table = opened(tmp_path)
    for n in range(MERGE_AT):
        table.append(rows(n), {"next": n + 1})
    with failing_sync(tmp_path, stale=stale):
        with pytest.raises(OSError, match="Stale" if stale else "Input/output error"):
            table.merge()
        with suppress(OSError):  # after an error a recording frees space
            table.free()
    assert visible(tmp_path) == list(range(MERGE_AT))
    assert table.merge() == 0
    table.append(rows(MERGE_AT), {"next": MERGE_AT + 1})
    assert visible(tmp_path) == list(range(MERGE_AT + 1))
    again = opened(tmp_path)
    assert (again.pieces, again.state, len(again.pieces)) == (table.pieces, {"next": MERGE_AT + 1}, 2)


def test_an_append_that_is_there_in_spite_of_an_error_is_not_made_twice(tmp_path: Path) -> None:
    """The first one fails when the link is there, the second when its file is."""
    table = opened(tmp_path)
    for n, where in enumerate([tmp_path, tmp_path / "store" / "t-00000000"]):
        with failing_sync(where), pytest.raises(OSError, match="Input/output error"):
            table.append(rows(n), {"next": n + 1})
        table.append(rows(n), {"next": n + 1})
        assert (visible(tmp_path), len(table.pieces), table.state) == (list(range(n + 1)), n + 1, {"next": n + 1})


def test_a_link_to_a_generation_that_is_missing_is_refused_and_nothing_is_deleted(tmp_path: Path) -> None:
    opened(tmp_path).append(rows(0), {"next": 1})
    (tmp_path / "t.parquet").unlink()
    (tmp_path / "t.parquet").symlink_to("store/t-00000001")
    with pytest.raises(
        CaptureError, match=r"links to store/t-00000001, which is missing; link it to the newest t-\* in .*/store"
    ):
        opened(tmp_path)
    (tmp_path / "t.parquet").unlink()
    (tmp_path / "t.parquet").symlink_to("store/t-00000000")
    assert opened(tmp_path).state == {"next": 1}


def test_replaced_generations_go_after_their_time(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for n in range(2 * MERGE_AT):
        table.append(rows(n), {})
        table.merge()
    kept = [folder for folder in (tmp_path / "store").iterdir() if folder.is_dir()]
    assert len(kept) == 3
    for folder in kept:
        os.utime(folder, (time.time() - 7_200,) * 2)
    opened(tmp_path)
    assert [folder for folder in (tmp_path / "store").iterdir() if folder.is_dir()] == [(tmp_path / "t.parquet").resolve()]


def test_one_writer_and_only_our_folders(tmp_path: Path) -> None:
    first = CaptureFolder(tmp_path / "a")
    with pytest.raises(CaptureError, match="another capture is writing there") as raised:
        CaptureFolder(tmp_path / "a")
    assert exit_code_of(raised.value) == 2
    first.close()
    CaptureFolder(tmp_path / "a").close()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "consumer_offsets.parquet").write_bytes(b"mine")
    with pytest.raises(CaptureError, match="was not written by `counterpoise capture"):
        CaptureFolder(tmp_path / "b")
    for name, target in (("d", tmp_path / "b" / "consumer_offsets.parquet"), ("e", "nowhere-1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "consumer_offsets.parquet").symlink_to(target)
        with pytest.raises(CaptureError, match="was not written by `counterpoise capture") as raised:
            CaptureFolder(tmp_path / name)
        assert exit_code_of(raised.value) == 2
    (tmp_path / "a" / "capture.json").write_text("{")
    with pytest.raises(CaptureError, match="damaged"):
        CaptureFolder(tmp_path / "a")
    CaptureFolder(tmp_path / "c").close()


@pytest.mark.parametrize(("at", "words"), [(40, r"damaged \(.*; record it again"), (None, "not a whole Parquet file")])
def test_a_damaged_file_is_named_and_no_full_disk(tmp_path: Path, at: int | None, words: str) -> None:
    """A page or the footer is damaged. An error of the disk itself is still one for which a recording waits."""
    folder = CaptureFolder(tmp_path)
    with folder.held():
        for n in range(MERGE_AT):
            folder.records.append(in_batches([(0, n, 1000 + n, 0, b"k" * 200, b"v" * 300)]), {"next": n + 1})
    file = sorted((tmp_path / "consumer_offsets.parquet").resolve().glob("*.parquet"))[3]
    whole = bytearray(file.read_bytes())
    whole[at or len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")] ^= (
        255  # the footer's length is before the last magic word
    )
    file.write_bytes(whole)
    folder = CaptureFolder(tmp_path)
    with pytest.raises(CaptureError, match=f"{file.name}: {words}") as raised, folder.held():
        folder.merge_and_drop(None)
    assert (type(raised.value), exit_code_of(raised.value)) == (CaptureError, 2)


def test_a_recording_waits_for_a_disk_that_cannot_be_read(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.append(rows(0), {})
    error = OSError(5, "Error reading bytes from file. Detail: [errno 5] Input/output error")
    with (
        mock.patch.object(pq.ParquetFile, "iter_batches", side_effect=error),
        pytest.raises(StorageError, match=r"-0\.parquet: Input/output error; check the path") as raised,
    ):
        list(table.batches(None))
    assert (isinstance(raised.value, CANNOT_WRITE), exit_code_of(raised.value)) == (True, 3)


def test_what_a_recording_misses_is_reported(tmp_path: Path) -> None:
    """Compacted history, gaps, hidden tails, one that did not catch up; nothing where nothing is missing."""
    file = tmp_path / "capture.json"
    assert missing_of(tmp_path) == Missing()
    for about, words in (
        ({"missing_before": 0, "gaps": [], "hidden": []}, []),
        ({"gaps": []}, ["had not yet caught up"]),
        ({"missing_before": 7, "hidden": ["p 3"]}, ["complete=false: 7 offsets", "p 3"]),
        ({"missing_before": 0, "gaps": [[3, 10, 12]]}, ["log partition 3: offsets 10 to 11: some or all of these were gone"]),
        ({"missing_before": 0, "gaps": [[3, 10, 12], [4, 1, 2]]}, ["offsets 10 to 11, and 1 more: some or all"]),
        ({"missing_before": 0, "deleted_before": 1.7e9}, ["records from before 2023-11-14 22:13 UTC were deleted (--keep-days)"]),
        ({"source": "poll", "deleted_before": 1.7e9}, ["made from polls", "since may be shown without members"]),
        ({"missing_before": 0, "deleted_before": 1e300}, ["cannot be read"]),
        ([], ["cannot be read"]),
        ({"gaps": [[math.inf, 10, 12]]}, ["cannot be read"]),
    ):
        file.write_text(json.dumps(about))
        notes = missing_of(tmp_path).notes
        assert len(notes) == len(words)
        assert all(word in line for word, line in zip(words, notes, strict=True))
