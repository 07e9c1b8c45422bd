"""Time without samples, as while a broker restarts, is no time without progress; what stands still afterwards is."""

from __future__ import annotations

import pytest

from tests.pipeline.fold.histories import PLACES, Commit, Event, History, Sample, Step, folded

SECOND = 1_000_000
DOWN, UP, END = 300, 420, 520
"""Seconds: there is neither a sample nor a commit between the first two."""


def history(resumes: int) -> History:
    """Three records a second in each partition, and a commit of all of them every ten seconds: until `DOWN`, and from then on."""
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    for second in (*range(10, DOWN, 10), *range(UP, END, 10)):
        end = 3 * (second if second < DOWN else second - UP + DOWN)
        if second < DOWN or second >= resumes:
            events += [Commit((second - 1) * SECOND, "g", place, end - 3, None) for place in range(len(PLACES))]
        events.append(Sample(second * SECOND, (end,) * len(PLACES), (0,) * len(PLACES)))
    return History(tuple(events), None, None)


@pytest.mark.parametrize(("resumes", "states"), [(UP + 20, {"ok"}), (END, {"ok", "stopped"})])
def test_a_group_is_stopped_only_if_it_does_not_resume_once_it_can(resumes: int, states: set[str]) -> None:
    rows = [row for row in folded(history(resumes)).health.values() if row["scope"] == "partition"]
    assert {row["state"] for row in rows} == states
    stopped = [row for row in rows if row["state"] == "stopped"]
    assert all(row["detected"].timestamp() <= UP + 40 for row in stopped)
    assert len(stopped) == (len(PLACES) if resumes == END else 0)
