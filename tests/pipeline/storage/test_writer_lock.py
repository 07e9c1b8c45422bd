"""One writer at a time, on a local disk and on an S3-compatible server; one that died holds nobody up."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import CaptureError
from counterpoise.pipeline.storage import writer_lock
from counterpoise.pipeline.storage.files import delete, exists, file_infos, join, list_files, write_bytes
from counterpoise.pipeline.storage.writer_lock import WriterLock

REFUSED = "out: another audit is writing there"


@pytest.fixture(params=["local", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return join(str(tmp_path) if request.param == "local" else request.getfixturevalue("s3"), "lock")


def test_a_second_writer_is_refused_until_the_first_one_ends(folder: str) -> None:
    first, second = WriterLock(folder, REFUSED), WriterLock(folder, REFUSED)
    with first.held():
        first.check()
        with pytest.raises(CaptureError, match=REFUSED):
            second.acquire()
        first.check()
    with second.held(), pytest.raises(CaptureError, match=REFUSED):
        first.acquire()


def test_of_two_that_put_their_objects_at_once_neither_is_accepted(s3: str) -> None:
    """Whatever the order of their steps: the one that puts last lists both."""
    both = [WriterLock(join(s3, "lock"), REFUSED) for _ in range(2)]
    for one in both:
        write_bytes(one._object, b"")
    assert [one._alone() for one in both] == [False, False]
    delete(both[0]._object)
    assert both[1]._alone()


def test_a_writer_that_died_is_succeeded_and_stops_if_it_lives_after_all(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, heir = WriterLock(join(s3, "lock"), REFUSED), WriterLock(join(s3, "lock"), REFUSED)
    dead.acquire()
    dead._done.set()  # its thread no longer says that it lives
    monkeypatch.setattr(writer_lock, "DEAD_S", 3600.0)
    with pytest.raises(CaptureError, match=REFUSED):
        heir.acquire()
    monkeypatch.setattr(writer_lock, "DEAD_S", -3600.0)  # as if an hour had passed
    heir.acquire()
    dead._done.clear()
    with pytest.raises(CaptureError, match="did not renew its lock for a minute") as lost:
        dead.check()
    assert exit_code_of(lost.value) == 3
    heir.check()
    heir.release()
    with pytest.raises(CaptureError, match="did not renew its lock for a minute"):
        dead.check()
    assert list_files(join(s3, "lock")) == []


def test_a_writer_that_is_busy_is_kept_alive_by_a_thread(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the store advances by the refresh interval with each object that the thread puts, and by nothing else."""
    interval, late = writer_lock._REFRESH_S, 0.0
    holder, other = WriterLock(join(s3, "lock"), REFUSED), WriterLock(join(s3, "lock"), REFUSED)

    def infos(folder: str) -> dict[str, SimpleNamespace]:
        names = {name: info.base_name for name, info in file_infos(folder).items()}
        put = {name: int(base.rpartition("-")[2]) * interval for name, base in names.items() if holder._name in base}
        now = max(put.values(), default=0.0) + late
        return {name: SimpleNamespace(base_name=base, mtime_ns=1e9 * put.get(name, now)) for name, base in names.items()}

    monkeypatch.setattr(writer_lock, "file_infos", infos)
    monkeypatch.setattr(writer_lock, "_REFRESH_S", 0.01)
    holder.acquire()
    until = time.monotonic() + 60.0
    while holder._number * interval <= 2 * writer_lock.DEAD_S:
        assert time.monotonic() < until
        with pytest.raises(CaptureError, match=REFUSED):
            other.acquire()
    holder.check()
    holder._done.set()
    with holder._guard:
        late = writer_lock.DEAD_S + 1
        other.acquire()
    other.release()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match=r"file/lock: Not a directory; check the path and its permissions"):
        WriterLock(str(tmp_path / "file" / "lock"), REFUSED).acquire()
    assert not exists(str(tmp_path / "file" / "lock"))


def test_a_file_system_without_locks_is_not_taken_for_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(CaptureError, match=r"lock: no lock .No locks available.; give a folder whose file system has locks"):
        WriterLock(str(tmp_path / "lock"), REFUSED).acquire()
