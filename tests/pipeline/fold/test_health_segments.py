"""Retention deletes whole segments, so the time left jumps; a partition that will lose data stays in that state meanwhile."""

from __future__ import annotations

from tests.pipeline.fold.histories import PLACES, Commit, Event, History, Sample, Step, folded

SECOND = 1_000_000
EVERY, SEGMENT, END = 30, 600, 9_000
"""Seconds: between two samples, each with a commit; between two deletions; retention has not reached the member at the end."""
WRITTEN, READ, KEPT = 10, 8, 20_000
"""Records: written a second, read a second, and in the log when the recording begins."""


def history() -> History:
    """A member that is slower than its partitions are written."""
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    for second in range(EVERY, END, EVERY):
        end, start = KEPT + WRITTEN * second, second // SEGMENT * SEGMENT * WRITTEN
        events += [Commit(second * SECOND - 1, "g", place, KEPT + READ * second, None) for place, _ in enumerate(PLACES)]
        events.append(Sample(second * SECOND, (end,) * len(PLACES), (start,) * len(PLACES)))
    return History(tuple(events), None, None)


def test_losing_data_is_one_row_while_the_start_of_the_log_moves_by_segments() -> None:
    rows = [row for row in folded(history()).health.values() if row["scope"] == "partition" and row["state"] == "losing_data"]
    assert sorted((row["topic"], row["partition"]) for row in rows) == PLACES
    assert all(row["open"] for row in rows)
