"""The live end of `rebalances`: each step once, whatever is told again, and handed over to an audit without a gap."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from counterpoise.pipeline.follow import tail as module
from counterpoise.pipeline.follow.tail import Tail
from tests.pipeline.conftest import rows_of
from tests.pipeline.follow.conftest import live_files


def step(offset: int, *, group: str = "g", partition: int = 3, day: int = 1, **more: Any) -> dict[str, Any]:
    """A row of `rebalances`."""
    about = {"cluster": "c", "group_id": group, "log_partition": partition, "log_offset": offset, "n_partitions": 2}
    return {**about, "log_ts": datetime(2026, 11, day, 12, tzinfo=UTC), **more}


def told(out: Path) -> list[tuple[int, int | None]]:
    """Offset and generation of every row."""
    return sorted((row["log_offset"], row["generation"]) for row in rows_of(out, "rebalances"))


def test_a_batch_that_is_done_again_adds_nothing(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    for _ in range(2):
        tail.add([step(1), step(2)], [step(5)])
    assert told(tmp_path) == [(1, None), (2, None), (5, None)]


def test_an_unfinished_step_goes_when_its_group_goes_on(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.add([], [step(5, generation=1), step(6, group="h", generation=1, day=2)])
    tail.add([step(5, generation=2)], [step(9, generation=1)])
    assert told(tmp_path) == [(5, 2), (6, 1), (9, 1)]
    tail.add([step(6, group="h", generation=2)], [])
    assert told(tmp_path) == [(5, 2), (6, 2), (9, 1)]


def test_an_unfinished_step_that_is_none_any_more_leaves_no_file(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.add([], [step(5, day=2)])
    tail.add([step(7, day=3)], [])
    assert told(tmp_path) == [(7, None)]
    assert [file.parent.name for file in live_files(tmp_path)] == ["date=2026-11-03"]


def test_a_full_file_is_closed_and_open_steps_move_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL", 5)
    tail = Tail(tmp_path)
    tail.add([step(1), step(2)], [step(3, group="h")])
    tail.add([step(4)], [])
    tail.add([step(1), step(4)], [])
    assert told(tmp_path) == [(1, None), (2, None), (3, None), (4, None)]
    assert len(live_files(tmp_path)) == 2
    assert tail.weight == 9


def test_an_audit_takes_over_what_it_has_and_leaves_the_rest(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.add([step(1), step(2), step(1, partition=4)], [step(9, group="h")])
    with tail.handed_over({"c": {"3": 2, "4": 2}}, tmp_path / "staged") as moves:
        for file in live_files(tmp_path):
            file.unlink()
        for staged, place in moves:
            staged.replace(place)
    assert told(tmp_path) == [(2, None), (9, None)]
    tail.add([step(9, group="h", generation=7)], [])
    assert told(tmp_path) == [(2, None), (9, 7)]
    assert tail.weight == 6


def test_an_audit_may_be_ahead_of_the_stream(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    with tail.handed_over({"c": {"3": 7}}, tmp_path / "staged") as moves:
        assert moves == []
    tail.add([step(6), step(7)], [step(5, group="h")])
    assert told(tmp_path) == [(7, None)]


def test_an_audit_that_fails_leaves_the_live_end_as_it_was(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    tail.add([step(1)], [step(2, group="h")])
    with pytest.raises(OSError, match="full"), tail.handed_over({"c": {"3": 9}}, tmp_path / "staged"):
        raise OSError("full")
    tail.add([step(3)], [])
    assert told(tmp_path) == [(1, None), (2, None), (3, None)]


def test_what_an_earlier_run_left_can_be_cleared(tmp_path: Path) -> None:
    Tail(tmp_path).add([step(1)], [])
    Tail(tmp_path).clear()
    assert told(tmp_path) == []
