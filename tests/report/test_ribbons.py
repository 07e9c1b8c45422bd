"""Ownership over time: intervals from steps, gaps, contested partitions, the choice of what is drawn, the time axis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.report.ribbons import Axis, Holdings, Interval, Ints, pick, runs, ticks


def held(*cells: tuple[int, int, int]) -> Holdings:
    """Holdings from (step, partition, member)."""
    columns = np.array(cells, dtype=np.int64).reshape(-1, 3)
    return Holdings(columns[:, 0], columns[:, 1], columns[:, 2])


def intervals(holdings: Holdings, times: Ints, end: int) -> list[Interval]:
    """Every interval."""
    return runs(holdings, times, end).of(range(10))


TIMES = np.array([100, 200, 300], dtype=np.int64)


def test_an_owner_who_stays_makes_one_interval_until_the_end():
    assert intervals(held((0, 0, 7), (1, 0, 7), (2, 0, 7)), TIMES, 400) == [Interval(0, (7,), 100, 400, 0, 2)]


def test_a_partition_that_changes_hands_makes_two_intervals_that_touch():
    assert intervals(held((0, 0, 1), (1, 0, 2), (2, 0, 2)), TIMES, 400) == [
        Interval(0, (1,), 100, 200, 0, 0),
        Interval(0, (2,), 200, 400, 1, 2),
    ]


def test_a_cooperative_round_that_withholds_leaves_a_gap():
    assert intervals(held((0, 0, 1), (2, 0, 2)), TIMES, 400) == [
        Interval(0, (1,), 100, 200, 0, 0),
        Interval(0, (2,), 300, 400, 2, 2),
    ]


def test_the_same_owner_before_and_after_a_gap_makes_two_intervals():
    assert [span.start for span in intervals(held((0, 0, 1), (2, 0, 1)), TIMES, 400)] == [100, 300]


def test_a_deleted_group_owns_nothing_after_its_last_step():
    assert intervals(held((0, 0, 1), (0, 1, 1)), TIMES, 400) == [
        Interval(0, (1,), 100, 200, 0, 0),
        Interval(1, (1,), 100, 200, 0, 0),
    ]


def test_two_members_of_one_partition_are_both_named():
    assert intervals(held((0, 0, 5), (0, 0, 2), (1, 0, 2), (2, 0, 2)), TIMES, 400) == [
        Interval(0, (2, 5), 100, 200, 0, 0),
        Interval(0, (2,), 200, 400, 1, 2),
    ]


def test_a_member_that_is_listed_twice_is_no_contest():
    assert intervals(held((0, 0, 5), (0, 0, 5)), TIMES[:1], 400) == [Interval(0, (5,), 100, 400, 0, 0)]


def test_a_step_at_the_instant_of_the_next_is_left_out():
    times = np.array([100, 100, 300], dtype=np.int64)
    assert intervals(held((0, 0, 1), (1, 0, 2)), times, 400) == [Interval(0, (2,), 100, 300, 1, 1)]


def test_nothing_held_makes_nothing():
    assert intervals(held(), TIMES, 400) == []


CELLS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)), max_size=60)


@given(CELLS, st.randoms(use_true_random=False))
def test_intervals_say_at_every_step_what_was_held(cells, random):
    """Against a plain reading of the definition; the order of the rows does not matter."""
    rows = list(cells)
    random.shuffle(rows)
    times = np.arange(6, dtype=np.int64) * 10
    spans = intervals(held(*rows), times, 60)
    for step in range(6):
        at = [span for span in spans if span.start <= step * 10 < span.stop]
        found = {(step, span.partition, member) for span in at for member in span.members}
        assert found == {cell for cell in cells if cell[0] == step}
        assert len(at) == len({span.partition for span in at})
    for span, following in pairwise(spans):
        same = (span.partition, span.members) == (following.partition, following.members)
        assert not (same and span.stop == following.start), "an interval that goes on must not be cut"


def test_only_the_partitions_asked_for_become_intervals():
    found = runs(held((0, 0, 1), (0, 1, 1), (0, 2, 1), (1, 2, 3)), TIMES, 400)
    assert [span.partition for span in found.of([0, 2])] == [0, 2, 2]
    assert found.counts(4).tolist() == [1, 1, 2, 0]


def test_partitions_that_changed_hands_most_are_drawn():
    assert pick(np.array([1, 1, 1, 5]), rows=2, segments=100) == [0, 3]


def test_the_number_of_segments_is_bounded_but_one_partition_is_always_drawn():
    assert pick(np.array([10, 10, 10]), rows=9, segments=20) == [0, 1]
    assert pick(np.array([10, 10, 10]), rows=9, segments=1) == [0]


def test_everything_is_drawn_when_it_fits():
    assert pick(np.array([0, 1, 0]), rows=9, segments=9) == [0, 1, 2]
    assert pick(np.zeros(0, dtype=np.int64), rows=9, segments=9) == []


def test_the_axis_is_linear_and_stays_inside():
    axis = Axis(1000, 3000, 50, 150)
    assert [axis.x(at) for at in (0, 1000, 2000, 3000, 9000)] == [50, 50, 100, 150, 150]


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_ticks_are_few_round_and_inside(start, length):
    axis = Axis(start, start + length, 0, 100)
    marks = ticks(axis, most=9)
    assert len(marks) <= 10
    assert all(start <= at <= start + length and at % 1_000_000 == 0 for _, at in marks)
