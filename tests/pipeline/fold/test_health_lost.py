"""Records that were read, but not committed, are not lost when they are deleted; those that nobody has read are."""

from __future__ import annotations

from tests.pipeline.fold.histories import PLACES, Commit, Event, History, Sample, Step, folded

SECOND = 1_000_000
DELETED, END = 217, 300
"""Seconds: when an operator deletes all records up to ten below the end of each log."""
READS, SLOW, HUNG, SHORT = range(len(PLACES))
"""What the member does with each partition: in the last one it makes no progress for less than the patience."""


def history() -> History:
    """A record a second in each partition, a sample every two seconds, a commit every twenty."""
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    for second in range(1, END):
        starts = (0 if second < DELETED else DELETED - 10,) * len(PLACES)
        if second % 20 == 0:
            read = second - 1, second // 2, min(second, 100) - 1, second - 1
            places = [place for place, _ in enumerate(PLACES) if place != SHORT or second != 220]
            events += [Commit(second * SECOND - 1, "g", place, read[place], None) for place in places]
        if second % 2 == 1:
            events.append(Sample(second * SECOND, (second,) * len(PLACES), starts))
    return History(tuple(events), None, None)


def test_records_are_lost_if_a_later_commit_is_before_the_start_of_the_log_too_or_is_overdue() -> None:
    rows = [row for row in folded(history()).health.values() if row["scope"] == "partition"]
    lost = {(row["topic"], row["partition"]): row["detected"].timestamp() for row in rows if row["state"] == "losing_data"}
    # The slow one shows it with its next commit; the hung one has shown for long enough that it does not read.
    assert lost == {PLACES[SLOW]: 221, PLACES[HUNG]: DELETED}


def test_records_are_lost_if_all_of_them_are_deleted_and_nothing_is_left_to_read() -> None:
    """A hundred records a minute, of which nothing is committed after ten minutes; an hour later all are deleted."""
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0, None, None, None), (), withheld=False, recreated=False)]
    for minute in range(1, 120):
        end = 100 * min(minute, 20)
        if minute <= 10:
            events.append(Commit((60 * minute - 1) * SECOND, "g", 0, end, None))
        events.append(Sample(60 * minute * SECOND, (end, None, None, None), (0 if minute < 80 else end, 0, 0, 0)))
    (report,) = folded(History(tuple(events), None, None)).figures.values()
    assert report["health"] == "losing_data"
    assert {state["state"]: state["lost"] for state in report["health_states"]}["losing_data"] == 1_000


def test_no_less_than_nothing_waits_behind_a_commit_beyond_the_end_of_the_log() -> None:
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    events += [Commit(SECOND, "g", 0, 90, None), Commit(SECOND, "g", 1, 40, None)]
    events += [Sample(second * SECOND, (50,) * len(PLACES), (0,) * len(PLACES)) for second in range(5, 60, 5)]
    rows = [row for row in folded(History(tuple(events), None, None)).health.values() if row["open"]]
    lag = {(row["scope"], row["topic"], row["partition"]): row["lag_end"] for row in rows}
    assert [lag["partition", *PLACES[0]], lag["partition", *PLACES[1]], lag["group", None, None]] == [0, 10, 10]


def test_lost_records_no_longer_wait() -> None:
    """At the end the log starts 117 records after the hung member's offset; of its lag the other 93 are left."""
    found = folded(history())
    (row,) = (one for one in found.health.values() if (one["topic"], one["partition"], one["open"]) == (*PLACES[HUNG], True))
    end = END - 1
    assert (row["state"], row["lag_end"], row["lag_peak"]) == ("losing_data", end - DELETED + 10, row["lag_end"])
    (report,) = found.figures.values()
    (one,) = (state for state in report["health_states"] if state["state"] == "losing_data" and state["partitions"] == 2)
    slow = end - max(DELETED - 10, (END - 20) // 2)
    assert (one["lag"], report["unhealthy"][0]["lag"]) == (row["lag_end"] + slow, row["lag_end"])
