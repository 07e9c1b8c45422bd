"""Audits in processes of their own: what they store is handed over, and whatever ends which of the two, nothing is half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpoise.errors import CaptureError, SourceError
from counterpoise.pipeline.follow.apart import NICE, Apart
from counterpoise.pipeline.follow.audits import Job
from counterpoise.pipeline.follow.tail import Tail
from counterpoise.pipeline.incremental.journal import Journal
from counterpoise.pipeline.incremental.saved import Saved, load
from tests.pipeline.follow.test_tail import step, told

STATE = Saved(1, {}, {}, {}).text()
PROGRAM = f"""
import os, signal, subprocess, sys, time
from pathlib import Path
from counterpoise.errors import CaptureError
from counterpoise.pipeline.follow.apart_child import serve
from counterpoise.pipeline.incremental.journal import Journal

STATE = {STATE!r}

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def store(task, handover, at=None):
    journal = Journal(Path(task["out"]))
    (journal.staged / "state.json").write_text(STATE)
    with handover({{"c": {{"3": 2}}}}, journal.staged) as live:
        if at == "asked":
            die()
        if at == "decided":
            journal._apply = die
        if at == "full":
            raise OSError(28, "No space left on device")
        gone = list((journal.out / "tables").rglob("live-*.parquet"))
        journal.commit([*live, (journal.staged / "state.json", journal.root / "state.json")], gone)
    if at == "stored":
        die()
    (journal.out / "about").write_text(f"{{os.nice(0)}} {{task['scratch']}}")

def told_to_end(task, handover):
    os.kill(os.getpid(), signal.SIGTERM)
    store(task, handover)

def wrong(task, handover):
    raise CaptureError("the capture: no good; record it again")

def broken(task, handover):
    raise RuntimeError("a bug")

def sleep(task, handover):
    other = subprocess.Popen(["sleep", "600"])
    (Path(task["out"]) / "pids").write_text(f"{{os.getpid()}} {{other.pid}}")
    time.sleep(600)

what, _, at = sys.argv[1].partition("-")
serve(int(sys.argv[-1]), (lambda task, handover: store(task, handover, at)) if at else globals()[what])
"""


@contextmanager
def opened(out: Path) -> Iterator[Journal]:
    journal = Journal(out)
    with journal.open():
        yield journal


def apart(out: Path, what: str) -> Apart:
    return Apart(Job(out / "capture", out), [sys.executable, "-c", PROGRAM, what])


def filled(out: Path) -> Tail:
    """Steps at offsets 1 and 5 of log partition 3; the audit has what lies before 2."""
    tail = Tail(out)
    tail.add([step(1), step(5)], [])
    return tail


@pytest.mark.parametrize("beside", [False, True])
def test_what_an_audit_stores_is_handed_over(tmp_path: Path, beside: bool) -> None:
    with opened(tmp_path) as journal:
        tail = filled(tmp_path)
        apart(tmp_path, "store").run(journal, tail.handed_over, beside=beside)
        assert told(tmp_path) == [(5, None)]
        tail.add([step(1), step(7)], [])
        assert told(tmp_path) == [(5, None), (7, None)]
    assert load(tmp_path / ".since" / "state.json") is not None
    nice, _, scratch = (tmp_path / "about").read_text().partition(" ")
    assert int(nice) == os.nice(0) + (NICE if beside else 0)
    assert Path(scratch) == (tmp_path / ".since" / "spark").absolute()


@pytest.mark.parametrize(("at", "stored"), [("asked", False), ("decided", True), ("stored", True)])
def test_an_audit_that_is_killed_is_done_or_undone(tmp_path: Path, at: str, stored: bool) -> None:
    """Its parent finishes what was decided, and holds the live rows that fit."""
    with opened(tmp_path) as journal:
        tail = filled(tmp_path)
        with pytest.raises(SourceError, match=r"the process of the audit has ended \(SIGKILL\); start again, nothing is lost"):
            apart(tmp_path, f"store-{at}").run(journal, tail.handed_over, beside=True)
        assert (journal.root / "state.json").exists() == stored
        assert told(tmp_path) == ([(5, None)] if stored else [(1, None), (5, None)])
        tail.add([step(1), step(7)], [])
        assert told(tmp_path) == ([(5, None), (7, None)] if stored else [(1, None), (5, None), (7, None)])


def test_an_audit_that_fails_says_what_it_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as journal:
        tail = filled(tmp_path)
        with pytest.raises(CaptureError, match=r"^the capture: no good; record it again$"):
            apart(tmp_path, "wrong").run(journal, tail.handed_over, beside=True)
        with pytest.raises(SourceError, match=r"capture: the audit has failed \(a bug\)"):
            apart(tmp_path, "broken").run(journal, tail.handed_over, beside=True)
        with pytest.raises(SourceError, match="No space left on device"):
            apart(tmp_path, "store-full").run(journal, tail.handed_over, beside=True)
        assert told(tmp_path) == [(1, None), (5, None)]
    assert "RuntimeError: a bug" in capfd.readouterr().err


def test_an_audit_does_not_hear_what_a_service_manager_sends_to_all(tmp_path: Path) -> None:
    """Started by a thread, as `follower` does it: only the main thread could have a signal ignored."""
    audits, tail = apart(tmp_path, "told_to_end"), filled(tmp_path)
    with opened(tmp_path) as journal:
        thread = threading.Thread(target=audits.run, args=(journal, tail.handed_over), kwargs={"beside": True})
        thread.start()
        thread.join(60)
    assert load(tmp_path / ".since" / "state.json") is not None


def test_an_audit_that_is_given_up_ends_with_all_it_has_started(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    audits, tail = apart(tmp_path, "sleep"), filled(tmp_path)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            audits.run(journal, tail.handed_over, beside=True)
        except SourceError as error:
            failed.append(error)

    with opened(tmp_path) as journal:
        thread = threading.Thread(target=run)
        thread.start()
        pids = _pids(tmp_path)
        audits.give_up()
        thread.join(30)
        assert (len(failed), thread.is_alive()) == (1, False)
        _wait(lambda: not any(map(_lives, pids)))
        with pytest.raises(SourceError, match="given up"):
            audits.run(journal, tail.handed_over, beside=True)
    assert capfd.readouterr().err == ""


PARENT = """
import sys
from pathlib import Path
from tests.pipeline.follow.test_apart import apart, filled, opened
out = Path(sys.argv[1])
with opened(out) as journal:
    apart(out, "sleep").run(journal, filled(out).handed_over, beside=True)
"""


def test_an_audit_without_a_parent_ends_and_gives_the_folder_free(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], cwd=Path(__file__).parents[3])
    pids = _pids(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    with Journal(tmp_path).open(patience=30):
        _wait(lambda: not any(map(_lives, pids)))


def _pids(out: Path) -> list[int]:
    file = out / "pids"
    _wait(lambda: file.exists() and len(file.read_text().split()) == 2)
    return [int(one) for one in file.read_text().split()]


def _lives(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
