"""Queues of members by hand, and against a simulation second by second."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.errors import ScenarioError
from counterpoise.simulation.backlog import backlog


def test_what_a_member_cannot_do_waits_and_others_do_not_help() -> None:
    """Partition 0 is with the first member, which does 10 a second; 1 with the second one."""
    produced = np.array([[30.0, 0.0, 0.0], [5.0, 5.0, 5.0]])
    assert backlog(produced, np.ones(3), np.zeros(2), 2, 10).tolist() == [0, 20, 10, 0]
    assert backlog(produced, np.ones(3), np.zeros(2), 1, 10).tolist() == [0, 25, 20, 15]


def test_a_backlog_begins_with_the_lag_there_is_and_intervals_may_differ() -> None:
    assert backlog(np.zeros((3, 2)), np.array([1.0, 4.0]), np.array([50.0, 0.0, 7.0]), 2, 10).tolist() == [57, 47, 7]


@pytest.mark.parametrize("members", [9, 10**15, 10**30])
def test_more_members_than_partitions_are_of_no_use_and_take_no_memory(members: int) -> None:
    produced = np.full((2, 5), 15.0)
    useful = backlog(produced, np.ones(5), np.zeros(2), 2, 10).tolist()
    assert backlog(produced, np.ones(5), np.zeros(2), members, 10).tolist() == useful


@pytest.mark.parametrize("members", [1, 3, 4])
def test_a_backlog_is_what_members_do_second_by_second(members: int) -> None:
    chance = np.random.default_rng(members)
    produced, lag = chance.integers(0, 200, (7, 40)).astype(float), chance.integers(0, 500, 7).astype(float)
    waiting, total = lag.copy(), [lag.sum()]
    for column in range(40):
        for _ in range(10):
            waiting += produced[:, column] / 10
            for member in range(members):
                left = 15.0
                for partition in range(member, 7, members):
                    done = min(left, waiting[partition])
                    waiting[partition], left = waiting[partition] - done, left - done
        total.append(waiting.sum())
    assert backlog(produced, np.full(40, 10.0), lag, members, 15) == pytest.approx(np.array(total), abs=1e-6)


@pytest.mark.parametrize(("members", "capacity"), [(0, 10.0), (2, 0.0), (2, float("nan"))])
def test_nobody_and_nothing_are_refused(members: int, capacity: float) -> None:
    with pytest.raises(ScenarioError, match=f"{members} members of {capacity:g} records/s: expected at least one"):
        backlog(np.zeros((1, 1)), np.ones(1), np.zeros(1), members, capacity)
