"""Time without samples, as while a broker restarts, counts for nothing in any rule; what stays as it is afterwards is found."""

from __future__ import annotations

import pytest

from counterpoise.pipeline.fold.ownership import Names, NewSteps
from tests.pipeline.fold.histories import PLACES, Commit, Event, History, Sample, Step, folded

SECOND = 1_000_000
BEGINS, DOWN, UP, END = 295, 300, 420, 540
"""Seconds: when trouble begins; there is neither a sample nor a commit between the next two."""
EVERYWHERE = range(len(PLACES))


def history(trouble: str, resumes: int) -> History:
    """Three records a second in each partition, and a burst; a commit of all partitions and a sample every five seconds."""
    events: list[Event] = [owned(0, 0)]
    for second in (*range(5, DOWN, 5), *range(UP, END, 5)):
        observed = second if second < DOWN else second - UP + DOWN
        end, lag = 3 * observed + (100 if second >= BEGINS else 0), 3
        if second == BEGINS and trouble == "unowned":
            events.append(owned(second - 2, None))
        if second == resumes and trouble == "unowned":
            events.append(owned(second - 2, 0))
        troubled = BEGINS <= second < resumes
        if troubled and trouble == "falling_behind":
            lag = 100 + 2 * (observed - BEGINS)
        if not troubled or trouble == "falling_behind":
            events += [Commit((second - 1) * SECOND, "g", place, end - lag, None) for place in EVERYWHERE]
        events.append(Sample(second * SECOND, (end,) * len(PLACES), (0,) * len(PLACES)))
    return History(tuple(events), None, None)


def owned(second: int, by: int | None) -> Step:
    kind = "emptied" if by is None else "rebalance"
    return Step(second * SECOND, "g", kind, "eager", tuple(by for _ in EVERYWHERE), (), withheld=False, recreated=False)


@pytest.mark.parametrize("trouble", ["stopped", "unowned", "falling_behind"])
@pytest.mark.parametrize("resumes", [UP + 15, END], ids=["it ends", "it stays"])
def test_there_is_trouble_only_if_it_lasts_while_there_are_samples(trouble: str, resumes: int) -> None:
    """And then it began before that time."""
    rows = [row for row in folded(history(trouble, resumes)).health.values() if row["scope"] == "partition"]
    troubles = [row for row in rows if row["state"] not in ("ok", "catching_up")]
    assert [row["state"] for row in troubles] == ([trouble] * len(PLACES) if resumes == END else [])
    assert all(row["detected"].timestamp() <= UP + 60 for row in troubles)
    assert all(row["since"].timestamp() <= BEGINS for row in troubles)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_group_whose_members_left_before_the_first_sample_is_unowned(*, compacted: bool) -> None:
    """Also if compaction has left only the record that it is empty."""
    events: list[Event] = [] if compacted else [owned(0, 0)]
    events += [*(Commit(10 * SECOND, "g", place, 5, None) for place in EVERYWHERE), owned(20, None)]
    events += [Sample(second * SECOND, (3 * second,) * len(PLACES), (0,) * len(PLACES)) for second in range(100, 300, 5)]
    rows = [row for row in folded(History(tuple(events), None, None)).health.values() if row["scope"] == "partition"]
    assert {row["state"] for row in rows if row["open"]} == {"unowned"}


def test_a_deletion_alone_leaves_no_partition_unowned() -> None:
    """Kafka deletes a group of a consumer that only commits, too, when its offsets have expired."""
    deleted = Step(20 * SECOND, "g", "deleted", "eager", (None,) * len(PLACES), (), withheld=False, recreated=False)
    events: list[Event] = [deleted]
    for second in range(30, 600, 5):
        if second < 200:
            events += [Commit((second - 1) * SECOND, "g", place, 3 * second - 3, None) for place in EVERYWHERE]
        events.append(Sample(second * SECOND, (3 * second,) * len(PLACES), (0,) * len(PLACES)))
    rows = [row for row in folded(History(tuple(events), None, None)).health.values() if row["scope"] == "partition"]
    assert {row["state"] for row in rows if row["open"]} == {"stopped"}


def test_a_streams_group_without_members_leaves_no_partition_unowned() -> None:
    """Who owns its partitions is never known: its members are assigned tasks."""
    row = {"kind": "emptied", "log_offset": 1, "assignment": []}
    for group_type, unowned in (("streams", []), ("classic", [(0, 7)])):
        steps = NewSteps(Names())
        steps.add("g", row | {"group_type": group_type}, 7)
        assert steps.unowned == unowned
