"""Many files changed as one: killed at any point, either nothing has happened or all of it will."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.incremental.journal import Journal


def state(out: Path) -> dict[str, str]:
    """The files that readers see."""
    return {str(file.relative_to(out)): file.read_text() for file in sorted(out.glob("tables/**/*.parquet"))}


def prepared(out: Path) -> tuple[Journal, list[tuple[Path, Path]], list[Path]]:
    """Two files there, two staged: one goes, one is replaced, one comes."""
    tables = out / "tables" / "t"
    tables.mkdir(parents=True)
    (tables / "a.parquet").write_text("old a")
    (tables / "b.parquet").write_text("old b")
    journal = Journal(out)
    journal.staged.mkdir(parents=True)
    (journal.staged / "1").write_text("new b")
    (journal.staged / "2").write_text("new c")
    moves = [(journal.staged / "1", tables / "b.parquet"), (journal.staged / "2", tables / "day" / "c.parquet")]
    return journal, moves, [tables / "a.parquet", tables / "b.parquet"]


AFTER = {"tables/t/b.parquet": "new b", "tables/t/day/c.parquet": "new c"}
BEFORE = {"tables/t/a.parquet": "old a", "tables/t/b.parquet": "old b"}


def test_a_commit_is_done_whole(tmp_path: Path) -> None:
    journal, moves, gone = prepared(tmp_path)
    journal.commit(moves, gone)
    assert state(tmp_path) == AFTER


@pytest.mark.parametrize("steps", range(8))
def test_killed_at_any_step_it_is_done_or_undone_when_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    journal, moves, gone = prepared(tmp_path)
    left = [steps]

    def counted(real):
        def call(*args, **options):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(*args, **options)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Path, "replace", counted(Path.replace))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        journal.commit(moves, gone)
    with Journal(tmp_path).open():
        assert state(tmp_path) == (BEFORE if steps == 0 else AFTER)
        assert list(journal.staged.iterdir()) == []


PROGRAM = """
import sys, time
from pathlib import Path
from counterpoise.pipeline.incremental.journal import Journal

real, left = Path.replace, int(sys.argv[2])
def replace(self, target):
    global left
    if "tables" in target.parts:
        if not left:
            time.sleep(600)
        left -= 1
    return real(self, target)
Path.replace = replace

journal = Journal(Path(sys.argv[1]))
with journal.open():
    for at in range(60):
        (journal.staged / str(at)).write_text(f"new {at}")
    moves = [(journal.staged / str(at), journal.out / "tables" / "t" / f"day={at % 7}" / f"{at}.parquet") for at in range(60)]
    journal.commit(moves, [journal.out / "tables" / "t"])
"""


@pytest.mark.parametrize("moved", [1, 20, 59])
def test_a_process_that_is_killed_while_files_move_is_followed_by_one_that_finishes(tmp_path: Path, moved: int) -> None:
    old = tmp_path / "tables" / "t" / "day=0" / "old.parquet"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), str(moved)])
    while child.poll() is None and len(set(state(tmp_path)) - {"tables/t/day=0/old.parquet"}) < moved:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert len(state(tmp_path)) == moved
    with Journal(tmp_path).open():
        assert state(tmp_path) == {f"tables/t/day={at % 7}/{at}.parquet": f"new {at}" for at in range(60)}
        assert list((tmp_path / ".since").glob("journal*")) == []


def test_two_audits_do_not_write_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path).open(), pytest.raises(CaptureError, match="another audit is writing there"), Journal(tmp_path).open():
        pass
