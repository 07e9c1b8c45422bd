"""An object store that answers 503, is slow, or loses a request or an answer: nothing changes, or there is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow as pa
import pytest
from click.testing import CliRunner

from counterpoise.cli.app import app
from counterpoise.errors import CaptureError, StorageError
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.capture.folder import CaptureFolder
from counterpoise.pipeline.capture.recorder import Recorder
from counterpoise.pipeline.capture.recording import Schedule, Status
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.storage import files, writer_lock
from counterpoise.pipeline.storage.files import (
    delete,
    join,
    list_files,
    parquet_file,
    parquet_footers,
    parquet_writer,
    read_bytes,
    write_bytes,
)
from counterpoise.pipeline.storage.writer_lock import WriterLock
from counterpoise.pipeline.tables.manifest import load_manifest
from counterpoise.pipeline.tables.transaction import TableTransaction
from tests.faulty_store import Fault, FaultyStore, Kind
from tests.pipeline.capture.test_object_series import opened, rows, seen
from tests.pipeline.tables.test_transaction import shown, written

KINDS: list[Kind] = ["busy", "slow", "request lost", "answer lost"]
REFUSED = "out: another audit is writing there"
WRITES = [
    *(("-000000$", 0), ("PUT .*/manifest-", 0), ("PUT .*/part-", 0), ("-000001$", 0), ("PUT .*/manifest-", 1), ("-000002$", 0)),
    *(("PUT .*/summary", 0), ("DELETE .*/part-", 0), ("DELETE .*/manifest-", 0)),
]
"""The requests of a transaction that change the store, and how many like it come first: its lock, manifests, table files."""
TABLE = pa.table({"n": list(range(50_000))})


@pytest.fixture
def place(s3: str, store: FaultyStore) -> str:
    """A bucket behind the proxy."""
    assert store.endpoint
    return s3


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is tried once: what eight attempts would wait for in seconds."""
    monkeypatch.setattr(files, "_RETRIES", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_succeeds_at_the_third_attempt_is_as_one_that_succeeds_at_once(
    place: str, store: FaultyStore, kind: Kind
) -> None:
    """Each kind of request is hit: what is written, listed, read and deleted is what it would be."""
    store.faults = [Fault(kind, f"^{method} /[^/]+/", 2) for method in ("PUT", "GET", "HEAD", "DELETE")]
    store.faults.append(Fault(kind, r"list-type", 2))
    write_bytes(join(place, "a", "small"), b"content")
    with parquet_writer(join(place, "a", "table.parquet"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert [name.rpartition("/")[2] for name in list_files(place)] == ["small", "table.parquet"]
    with parquet_file(join(place, "a", "table.parquet")) as opened_file:
        assert opened_file.read() == TABLE
    assert [one.num_rows for one in parquet_footers([join(place, "a", "table.parquet")])] == [50_000]
    assert read_bytes(join(place, "a", "small")) == b"content"
    delete(join(place, "a", "small"))
    assert [name.rpartition("/")[2] for name in list_files(place)] == ["table.parquet"]
    # A slow request is not repeated, and some are made once.
    assert [fault.request for fault in store.faults if fault.times > (kind == "slow")] == []


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_takes_seconds_is_waited_for(place: str, store: FaultyStore) -> None:
    """Longer than the three seconds after which the library takes a request for lost."""
    write_bytes(join(place, "a"), b"content")
    store.slow_s, store.faults = 3.5, [Fault("slow", "", 1)]
    assert (read_bytes(join(place, "a")), len(store.hit)) == (b"content", 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["busy", "request lost", "answer lost"])
def test_a_request_that_never_succeeds_is_one_line_and_the_next_one_is_not_disturbed(
    place: str, store: FaultyStore, kind: Kind
) -> None:
    file = join(place, "manifest.json")
    write_bytes(file, b"before")
    for act in (lambda: write_bytes(file, b"after"), lambda: read_bytes(file), lambda: list_files(place), lambda: delete(file)):
        store.faults = [Fault(kind, "", 1)]
        with pytest.raises(StorageError, match=rf"^{place}[^\n]*; check the address, the network and the credentials$"):
            act()
    write_bytes(file, b"at last")
    assert read_bytes(file) == b"at last"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind", "folder", "code"),
    [("busy", "{}/a", 3), ("denied", "{}/a", 2), ("slow", "{}/a", 2), ("slow", "s3://no-such-bucket/a", 2)],
)
def test_what_the_store_cannot_do_now_is_exit_code_3_and_what_it_never_will_is_2(
    place: str, store: FaultyStore, kind: Kind, folder: str, code: int
) -> None:
    """It answers 503, it refuses this user, and nothing of that name is there."""
    store.faults = [Fault(kind, "", 99)]
    done = CliRunner().invoke(app, ["audit", folder.format(place), "--out", f"{place}/out"])
    assert (done.exit_code, done.stderr.count("\n")) == (code, 1), done.stderr


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["busy", "request lost", "answer lost"])
def test_a_lock_outlives_a_renewal_that_fails_and_is_free_after_its_release(place: str, store: FaultyStore, kind: Kind) -> None:
    """Whichever request of the renewal it is; and a lock that could not be acquired holds nobody up."""
    holder, other = WriterLock(place, REFUSED), WriterLock(place, REFUSED)
    for step in range(2):
        store.faults = [Fault(kind, "^PUT", 1)]
        with pytest.raises(StorageError):
            other.acquire()
        holder.acquire()
        for request in ("^PUT", "list-type", "^DELETE"):
            store.faults = [Fault(kind, request, 1)]
            with pytest.raises(StorageError):
                holder.check()
            holder.check()
            with pytest.raises(CaptureError, match=REFUSED):
                other.acquire()
        holder.release()
        assert list_files(place) == [], step


@pytest.mark.usefixtures("impatient")
def test_a_lock_whose_release_is_lost_refuses_for_a_minute_only(
    place: str, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other = WriterLock(place, REFUSED), WriterLock(place, REFUSED)
    holder.acquire()
    store.faults = [Fault("request lost", "", 9)]
    holder.release()
    store.faults = []
    with pytest.raises(CaptureError, match=REFUSED):
        other.acquire()
    assert writer_lock.DEAD_S == 60.0
    monkeypatch.setattr(writer_lock, "DEAD_S", -3600.0)  # as if an hour had passed
    other.acquire()
    other.release()


@pytest.mark.usefixtures("impatient")
def test_an_answer_lost_at_any_step_of_a_transaction_leaves_it_whole_and_the_next_one_completes_it(
    place: str, store: FaultyStore
) -> None:
    """The request took effect, its writer fails. Readers find what was before or what is after, never a file that is gone."""
    out = join(place, "out")
    change(out, 0)
    for step, (request, skip) in enumerate(WRITES, 1):
        store.faults = [Fault("answer lost", request, 1, skip)]
        with pytest.raises((StorageError, OSError)):
            change(out, step)
        store.faults = []
        found = shown(out)
        assert found in (([step - 1], step - 1), ([step], step)), request
        change(out, None if found[1] == step else step)
        assert shown(out) == ([step], step), request
        manifest = load_manifest(out)
        assert manifest is not None
        assert {name.removeprefix(f"{out}/") for name in list_files(join(out, "tables"))} == manifest.files, request
        assert json.loads(read_bytes(join(out, "summary.json"))) == {"n": step}
    assert len(store.hit) == len(WRITES)


def change(out: str, number: int | None) -> None:
    """A transaction that replaces the only row by this one; None: by which the last one is completed."""
    with (work := TableTransaction(out)).open():
        if number is not None:
            publish(work, number)


def publish(work: TableTransaction, number: int, first: Callable[[], None] = lambda: None) -> None:
    first()
    work.publish(written(work, number), work.manifest.below("tables"), {"summary.json": json.dumps({"n": number}).encode()})


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_manifest_that_arrives_after_its_writer_lost_the_lock_changes_nothing(
    place: str, store: FaultyStore, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """It is on its way while another writer begins, and arrives before or after that of the other one."""
    out = join(place, "out")
    change(out, 0)
    late, other = TableTransaction(out), TableTransaction(out)
    with ExitStack() as stack:

        def take_over() -> None:
            monkeypatch.setattr(writer_lock, "DEAD_S", -3600.0)  # as if an hour had passed
            stack.enter_context(other.open())
            if not before:
                publish(other, 2)

        store.slowly = take_over
        with pytest.raises(CaptureError, match="this one did not renew its lock for a minute"), late.open():
            publish(late, 1, lambda: store.faults.append(Fault("slow", "PUT .*/manifest-", 1)))
        if before:
            assert shown(out) == ([0], 0)
            publish(other, 2)
    assert shown(out) == ([2], 2)
    manifest = load_manifest(out)
    assert manifest is not None
    assert {name.removeprefix(f"{out}/") for name in list_files(join(out, "tables"))} == manifest.files


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["busy", "request lost", "answer lost"])
def test_a_file_of_a_capture_whose_request_fails_is_there_once(place: str, store: FaultyStore, kind: Kind) -> None:
    """A recording that follows tries again with more records; a reader may have seen those whose answer was lost."""
    table = opened(place)
    table.append(rows(1), {"next": 2})
    store.faults = [Fault(kind, "^PUT", 1)]
    pending = rows(2)
    try:
        table.append(pending, {"next": 3})
    except StorageError:
        assert seen(place) == [1]
        table.append([*pending, *rows(3)], {"next": 4})
    else:
        assert seen(place) == [1, 2]
        table.append(rows(3), {"next": 4})
    assert (seen(place), opened(place).state, len(store.hit)) == ([1, 2, 3], {"next": 4}, 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["busy", "request lost"])
def test_a_recording_waits_for_a_store_that_answers_no_request_at_all(place: str, store: FaultyStore, kind: Kind) -> None:
    """Neither a file can be written nor the folder be listed; when the store is back, the records are written once."""
    folder, troubles = CaptureFolder(join(place, "history")), list[str]()

    def report(status: Status) -> None:
        troubles.append(status.trouble)
        store.faults = []

    recorder = Recorder(Settings({"bootstrap.servers": "nowhere:1"}), place, Schedule(), report)
    recorder._folder = folder
    recorder._pending = list(in_batches([(0, 7, 1000, 0, b"key", b"value")]))
    with folder.held():
        store.faults = [Fault(kind, "", 999)]
        recorder._write(patient=True)
        assert folder.records.state == recorder._position
    assert [line.startswith("cannot write (AWS Error") for line in troubles] == [True]
    assert read_capture(join(place, "history")).n_records == 1
