"""A change of an output folder, on a disk and on an S3-compatible server: all of it or none, whatever step it is killed at."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError, InvariantError
from counterpoise.pipeline.storage.files import (
    delete,
    exists,
    is_local,
    join,
    list_files,
    parquet_file,
    parquet_writer,
    read_bytes,
    write_bytes,
)
from counterpoise.pipeline.tables import manifest as manifests
from counterpoise.pipeline.tables import transaction as transactions
from counterpoise.pipeline.tables.manifest import load_manifest
from counterpoise.pipeline.tables.paths import dataset
from counterpoise.pipeline.tables.transaction import TableTransaction

TABLE = "rebalances"
DAYS = ("2026-11-20", "2026-11-21")
ODD = "eu/west: 1"
"""A cluster whose name is escaped in the folder's."""


class Killed(BaseException):
    """The process ends here; nothing of the code under test may catch it."""


@pytest.fixture(params=["local", "s3"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return join(str(tmp_path) if request.param == "local" else request.getfixturevalue("s3"), "out")


def written(work: TableTransaction, *numbers: int, day: str = DAYS[0]) -> list[str]:
    """What a task does: a file with a row for each number."""
    names = pickle.loads(pickle.dumps(work.new_files))
    files = []
    for number in numbers:
        table = pa.table({"n": [number]})
        files.append(names.table_file(TABLE, ODD, day))
        with parquet_writer(files[-1], table.schema) as writer:
            writer.write_table(table)
    return files


def shown(out: str) -> tuple[list[int], int | None]:
    """What a reader sees: the rows, and the number in the summary."""
    table, found = join(out, "tables", TABLE), load_manifest(out)
    if found is None and not exists(table):
        return [], None
    rows = dataset(table).to_table()
    assert set(rows.column("cluster").to_pylist()) <= {ODD} if rows.num_rows else True
    summary = None if found is None else found.small_files.get("summary.json")
    return sorted(rows.column("n").to_pylist()) if rows.num_rows else [], None if summary is None else json.loads(summary)["n"]


def first(work: TableTransaction) -> None:
    work.publish(written(work, 1, 2, 3), (), {"summary.json": b'{"n": 1}', "kept.json": b"{}"})


def second(work: TableTransaction) -> None:
    """Some files stay, one goes, two come."""
    (gone,) = [uri for uri in work.manifest.below("tables", TABLE) if number_in(uri) == 2]
    work.publish(written(work, 4, 5, day=DAYS[1]), [gone], {"summary.json": b'{"n": 2}'})


def number_in(uri: str) -> int:
    with parquet_file(uri) as opened:
        return int(opened.read()["n"][0].as_py())


def test_what_is_published_is_seen_at_once_and_what_goes_is_gone(out: str) -> None:
    work = TableTransaction(out)
    with work.open():
        files = written(work, 1, 2, 3)
        assert shown(out) == ([], None)
        work.publish(files, (), {"summary.json": b'{"n": 1}'})
        assert shown(out) == ([1, 2, 3], 1)
        assert work.new_files.number == 2
    with work.open():
        second(work)
    assert shown(out) == ([1, 3, 4, 5], 2)
    assert read_bytes(join(out, "summary.json")) == b'{"n": 2}'
    assert len(list_files(join(out, "tables"))) == 4
    assert manifests.manifest_numbers(out) == ([1, 2] if is_local(out) else [3, 4])
    assert not any(".new-" in file for file in list_files(out))


@contextmanager
def killed_at(step: int) -> Iterator[list[str]]:
    """The `step`-th step that changes the folder does not happen, nor anything after it. Yields those that were made."""
    made: list[str] = []

    def guard(name: str) -> Any:
        real: Callable[..., Any] = getattr(transactions, name)

        def guarded(*arguments: Any) -> Any:
            if len(made) >= step:
                raise Killed
            made.append(name)
            return real(*arguments)

        return mock.patch.object(transactions, name, guarded)

    with guard("write_bytes"), guard("move"), guard("delete"):
        yield made


@pytest.mark.parametrize("act", [first, second])
def test_a_transaction_killed_at_any_step_leaves_the_folder_as_before_or_as_after(
    out: str, act: Callable[[TableTransaction], None]
) -> None:
    before, after = (([], None), ([1, 2, 3], 1)) if act is first else (([1, 2, 3], 1), ([1, 3, 4, 5], 2))
    for step in range(30):
        place = join(out, str(step))
        if act is second:
            with (work := TableTransaction(place)).open():
                first(work)
        try:
            with killed_at(step) as made, (work := TableTransaction(place)).open():
                act(work)
            break
        except Killed:
            found = shown(place)
            assert found in (before, after), made
        with (work := TableTransaction(place)).open():
            assert shown(place) == found
            if found == before:
                act(work)
        assert shown(place) == after
        assert read_bytes(join(place, "summary.json")) == json.dumps({"n": after[1]}).encode()
        assert len(list_files(join(place, "tables"))) == len(after[0]), made
    assert step >= 4, "never cut"


def test_an_interrupt_that_comes_while_the_manifest_is_put_deletes_nothing_that_it_names(
    out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python raises it when the request has returned, so the change is made."""

    def interrupted(place: str, content: bytes) -> None:
        write_bytes(place, content)
        if f"manifest-{2 if is_local(out) else 4:010d}" in place:
            raise KeyboardInterrupt

    with (work := TableTransaction(out)).open():
        first(work)
    monkeypatch.setattr(transactions, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt), (work := TableTransaction(out)).open():
        second(work)
    assert shown(out) == ([1, 3, 4, 5], 2)
    with TableTransaction(out).open():
        assert read_bytes(join(out, "summary.json")) == b'{"n": 2}'
    assert len(list_files(join(out, "tables"))) == 4


def test_two_writers_never_write_at_once(out: str) -> None:
    one, other = TableTransaction(out), TableTransaction(out)
    with one.open():
        with pytest.raises(CaptureError, match="another audit is writing there; wait for it"), other.open():
            pass
        first(one)
    with other.open():
        second(other)
        with pytest.raises(CaptureError, match=r"another audit (has written there meanwhile|is writing there)"):
            first(one)
    assert shown(out) == ([1, 3, 4, 5], 2)


def test_a_first_run_that_was_killed_leaves_nothing_that_is_read(out: str) -> None:
    with (work := TableTransaction(out)).open():
        left = written(work, 1, 2)
        work._delete_unnamed = lambda pattern: set()  # type: ignore[method-assign]  # noqa: ARG005
    assert all(map(exists, left))
    assert shown(out) == ([], None)
    with TableTransaction(out).open():
        assert list_files(join(out, "tables")) == []


def test_only_files_of_transactions_are_swept(out: str) -> None:
    mine = [join(out, "tables", TABLE, "notes.txt"), join(out, "tables", TABLE, "cluster=a", "date=b", "mine.parquet")]
    with (work := TableTransaction(out)).open():
        first(work)
        for file in mine:
            write_bytes(file, b"mine")
    with TableTransaction(out).open():
        assert all(map(exists, mine))
    assert shown(out) == ([1, 2, 3], 1)


def test_tables_of_an_earlier_version_are_taken_over(tmp_path: Path) -> None:
    day = tmp_path / "tables" / TABLE / "cluster=a" / "date=2026-11-20"
    day.mkdir(parents=True)
    pq.write_table(pa.table({"n": [7]}), day / "old.parquet")
    (day / ".hidden.parquet").touch()
    with (work := TableTransaction(str(tmp_path))).open():
        assert work.manifest.files == {f"tables/{TABLE}/cluster=a/date=2026-11-20/old.parquet"}
        with pytest.raises(Killed), killed_at(1):
            work.publish([], work.manifest.below("tables", TABLE), {})
        work._delete_unnamed = lambda pattern: set()  # type: ignore[method-assign]  # noqa: ARG005
    assert (day / "old.parquet").exists()
    with TableTransaction(str(tmp_path)).open():
        assert not (day / "old.parquet").exists()
    assert shown(str(tmp_path)) == ([], None)


def test_a_table_without_a_file_in_the_manifest_is_empty_and_a_damaged_manifest_is_named(out: str) -> None:
    with (work := TableTransaction(out)).open():
        first(work)
        with pytest.raises(InvariantError, match="not in the manifest"):
            work.publish([], [join(out, "tables", "x.parquet")], {})
    assert dataset(join(out, "tables", "findings")).to_table().num_rows == 0
    write_bytes(work.manifest.place, b"{")
    with pytest.raises(CaptureError, match=r"manifest-0000000001\.json: not a manifest of an audit; delete"):
        load_manifest(out)


@pytest.mark.parametrize("folder", ["cluster=shop/out", "date=today"])
def test_only_the_two_folders_of_a_table_are_columns(tmp_path: Path, folder: str) -> None:
    """An audit of each day may go to a folder that is named like a partition, too."""
    with (work := TableTransaction(str(tmp_path / folder))).open():
        first(work)
    rows = dataset(join(work.out, "tables", TABLE)).to_table()
    assert set(zip(*(map(str, rows[name].to_pylist()) for name in ("cluster", "date")), strict=True)) == {(ODD, DAYS[0])}


def test_a_file_that_was_deleted_by_hand_counts_no_more_from_the_next_transaction_on(out: str) -> None:
    with (work := TableTransaction(out)).open():
        first(work)
    delete(work.manifest.below("tables", TABLE)[0])
    with (work := TableTransaction(out)).open():
        work.publish((), (), {})
    assert len(shown(out)[0]) == 2


def test_what_an_audit_that_failed_has_written_goes_with_it(out: str) -> None:
    work = TableTransaction(out)
    with pytest.raises(Killed), work.open():
        failing(work)
    assert list_files(join(out, "tables")) == []


def failing(work: TableTransaction) -> None:
    written(work, 1)
    raise Killed


def test_on_a_disk_other_engines_see_what_is_published_only(tmp_path: Path) -> None:
    """They know of no manifest and read the folder, but no hidden file."""
    out = str(tmp_path)
    with (work := TableTransaction(out)).open():
        first(work)
        written(work, 9)
        assert sorted(pq.read_table(tmp_path / "tables" / TABLE)["n"].to_pylist()) == [1, 2, 3]
        second(work)
    assert sorted(pq.read_table(tmp_path / "tables" / TABLE)["n"].to_pylist()) == [1, 3, 4, 5]
    assert is_local(out)
