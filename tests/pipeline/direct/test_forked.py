"""Work in a fork: what it gives and what it raises comes back, nothing else of it stays."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from counterpoise.errors import CounterpoiseError
from counterpoise.pipeline.direct.forked import forked


def test_what_it_gives_comes_back_from_another_process() -> None:
    told = forked(lambda: f"é{os.getpid()}" + "x" * 1_000_000)
    assert told.startswith("é")
    assert told.endswith("x")
    assert int(told.strip("éx")) != os.getpid()
    assert forked(lambda: "") == ""


def test_what_it_changes_is_gone() -> None:
    seen = [0]

    def work() -> str:
        seen[0] += 1
        return str(seen[0])

    assert [forked(work), forked(work)] == ["1", "1"]
    assert seen == [0]


def test_what_it_raises_is_told_with_its_place() -> None:
    def work() -> str:
        raise ValueError("partition -3 \udcff")

    with pytest.raises(CounterpoiseError, match=r"(?s)in work.*ValueError: partition -3"):
        forked(work)
    with pytest.raises(CounterpoiseError, match="SystemExit"):
        forked(lambda: exit(3))


def test_one_that_is_killed_is_told(tmp_path: Path) -> None:
    with pytest.raises(CounterpoiseError, match="was killed by signal 9"):
        forked(lambda: str(os.kill(os.getpid(), signal.SIGKILL)))  # type: ignore[func-returns-value]
    with pytest.raises(CounterpoiseError, match="ended with code 7; the audit was not finished"):
        forked(lambda: os._exit(7))
    place = tmp_path / "cleaned"

    class Cleans:
        def __del__(self) -> None:
            place.touch()

    kept = Cleans()
    assert forked(lambda: str(type(kept).__name__)) == "Cleans"
    assert not place.exists()  # the fork runs nothing that is its parent's to run


def test_where_the_parent_is_interrupted_nothing_goes_on(tmp_path: Path) -> None:
    begun, ended = tmp_path / "pid", tmp_path / "ended"

    def work() -> str:
        begun.write_text(str(os.getpid()))
        time.sleep(4)
        ended.touch()
        return ""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(TimeoutError):
            forked(work)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
    assert not ended.exists()


def test_files_of_the_parent_are_not_left_open() -> None:
    first = os.dup(0)
    os.close(first)
    for _ in range(20):
        forked(lambda: "x")
    then = os.dup(0)  # the lowest number that no file has
    os.close(then)
    assert then == first


def test_where_nothing_can_be_forked_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert forked(lambda: str(os.getpid())) == str(os.getpid())
