"""What stood still, counted from journals."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.live.__main__ import in_page, read
from benchmarks.live.figures import Received, Stopped, books, read_journals, stopped

ROOT = Path(__file__).resolve().parent.parent.parent


def steady(partition: int, member: str, begin: float, end: float, first: int = 0) -> list[Received]:
    """A record every tenth of a second."""
    return [Received(begin + at / 10, partition, first + at, member) for at in range(round((end - begin) * 10))]


def test_a_gap_counts_with_its_whole_length_and_as_kept_if_one_member_received_the_partition() -> None:
    moved = steady(0, "a", 0, 10) + steady(0, "b", 12, 20, 100)
    kept = steady(1, "a", 0, 10) + steady(1, "a", 11, 20, 100)
    found = stopped(moved + kept, 9.5, 20)
    assert [found.all, found.kept, found.longest] == pytest.approx([3.2, 1.1, 2.1])


def test_a_gap_before_the_change_does_not_count_and_one_that_lasts_to_the_end_does() -> None:
    received = steady(0, "a", 0, 1) + steady(0, "a", 4, 8, 100)
    assert stopped(received, 5, 8) == Stopped(0, 0, 0)
    assert stopped(received, 5, 10).longest == pytest.approx(2.1)


def test_the_books_count_what_came_twice_what_went_back_and_what_nobody_received() -> None:
    received = [Received(at, 0, offset, "a") for at, offset in enumerate((0, 1, 2, 1, 2, 5))]
    assert books(received) == (2, 1, 2)


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("2.0 0 1\n1.0 0 0\n3.0 0")
    found = read_journals({"a": tmp_path / "a.txt", "b": tmp_path / "never started.txt"})
    assert [(each.time, each.offset) for each in found] == [(1.0, 0), (2.0, 1)]


def test_the_page_has_the_table_of_the_stored_outcomes() -> None:
    page = (ROOT / "docs" / "benchmarks-live.md").read_text(encoding="utf-8")
    assert in_page(page, read(ROOT / "benchmarks" / "results" / "live.json")) == page
