"""The drained backlog: what it is made of, how a run is measured, what the table says, and who is relieved on a real broker."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from benchmarks import lag_drain
from benchmarks.lag_drain import KINDS, PARTITIONS, RECORDS, Drained, backlog, rebalanced

from counterpoise.model.problem import Problem
from tests.kafka_broker import Broker
from tests.strategies import problem_of


def test_a_stalled_member_has_the_whole_backlog_and_zipf_has_a_giant() -> None:
    stalled = backlog(KINDS[0], {3, 5, 8})
    assert sum(stalled) == RECORDS
    assert {partition for partition, size in enumerate(stalled) if size} == {3, 5, 8}
    zipf = backlog(KINDS[1], {3, 5, 8})
    assert (sum(zipf), len(zipf)) == (RECORDS, PARTITIONS)
    assert max(zipf) > RECORDS / 4
    assert min(zipf) > 0
    assert backlog(KINDS[1], set()) == zipf


def test_a_run_is_measured_by_what_the_members_hold_against_the_bound_of_balanced_plans() -> None:
    """Members held 8 partitions each; the newcomer took two of each, and the first member's eight hold all the lag."""
    problem: Problem = problem_of([PARTITIONS], [[0, 1, 2, 3]], 4)
    before = [set(range(8)), set(range(8, 16)), set(range(16, 24))]
    held = [set(range(6)), set(range(8, 14)), set(range(16, 22)), {6, 7, 14, 15, 22, 23}]
    members = [SimpleNamespace(owned=each) for each in held]
    sizes = [100] * 8 + [0] * 16
    lead = SimpleNamespace(joined=SimpleNamespace(problem=problem))
    run = lag_drain._report("sticky", KINDS[0], sizes, cast(Any, members), before, cast(Any, [lead]))
    assert (run.largest, run.bound, run.moves, run.read_lag) == (600, 200, 6, False)


def test_work_ends_when_every_record_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, run = threading.Event(), Drained("sticky", KINDS[0], 0.0, 1, 1, 0, read_lag=False)

    class Working:
        """Reads a quarter of the backlog at each look."""

        def __init__(self) -> None:
            self.read = 0

        @property
        def done(self) -> dict[int, int]:
            assert gate.is_set()
            self.read += RECORDS // 4
            return {0: self.read}

    lag_drain._work(cast(Any, [Working()]), gate, run)
    assert [left for _, left in run.left] == [RECORDS * 3 // 4, RECORDS // 2, RECORDS // 4, 0]
    assert run.seconds == run.left[-1][0] > 0
    monkeypatch.setattr(lag_drain, "WITHIN_S", 0.1)
    idle = cast(Any, [SimpleNamespace(done={})])
    with pytest.raises(RuntimeError, match="no empty backlog after 0 s"):
        lag_drain._work(idle, gate, run)


def test_the_table_says_what_was_left_when() -> None:
    run = Drained("lag-sticky", "zipf", 6.25, 2100, 2000, 12, read_lag=True, left=[(0.1, 8000), (2.2, 5000), (6.25, 0)])
    assert list(lag_drain.table([run]))[2] == "| zipf | `lag-sticky` | 12 | 2,100 | 2,000 | 5,000 | 0 | 0 | 0 | 6.2 s |"


@pytest.mark.kafka
def test_after_the_rebalance_lag_sticky_has_relieved_the_member_that_had_stalled_and_sticky_has_not(broker: Broker) -> None:
    """Everybody still waits for the gate: what is compared is what each member has to work off, not how fast it does."""
    stood = {}
    for strategy in ("sticky", "lag-sticky"):
        with rebalanced(broker, strategy, KINDS[0]) as (members, gate, result):
            stood[strategy] = result
            assert not gate.is_set()
            assert sum(sum(each.done.values()) for each in members) == 0
            assert sorted(len(each.owned) for each in members) == [6, 6, 6, 6]
    assert stood["lag-sticky"].read_lag
    assert stood["lag-sticky"].largest <= 1.1 * stood["lag-sticky"].bound
    assert stood["sticky"].largest > 2 * stood["sticky"].bound
    assert stood["sticky"].moves == 6
