"""Retention deletes whole segments, so the time left jumps; a partition that will lose data stays in that state meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.pipeline.fold.health_thresholds import PURGED_BY_STREAMS
from tests.pipeline.fold.histories import PLACES, Commit, Event, History, Sample, Step, folded

SECOND = 1_000_000
EVERY, SEGMENT, END = 30, 600, 9_000
"""Seconds: between two samples, each with a commit; between two deletions; the recording."""
RETAINED = [place for place in PLACES if place[0] == "t"]
WRITTEN, READ = 10, 8
"""Records a second. Retention never reaches a member with 20,000 records before it; one with 5,000 it reaches again and again."""


def history(kept: int, *, recovers: int = END) -> History:
    """A member that is slower than its partitions are written, until it recovers; what is deleted it skips.

    `kept` is the number of records in the log when the recording begins.
    """
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    read, start = kept, 0
    for second in range(EVERY, END, EVERY):
        read, end = max(read + READ * EVERY, start), kept + WRITTEN * second
        read = read if second < recovers else end - SEGMENT
        start = second // SEGMENT * SEGMENT * WRITTEN
        events += [Commit(second * SECOND - 1, "g", place, read, None) for place, _ in enumerate(PLACES)]
        events.append(Sample(second * SECOND, (end,) * len(PLACES), (start,) * len(PLACES)))
    return History(tuple(events), None, None)


def losing(made: History) -> list[dict[str, Any]]:
    rows = folded(made).health.values()
    return [row for row in rows if row["scope"] == "partition" and row["state"] == "losing_data"]


@pytest.mark.parametrize("kept", [20_000, 5_000])
def test_losing_data_is_one_row_while_the_start_of_the_log_moves_by_segments(kept: int) -> None:
    rows = losing(history(kept))
    assert sorted((row["topic"], row["partition"]) for row in rows) == RETAINED
    assert all(row["open"] for row in rows)


def test_losing_data_ends_when_the_member_is_nearer_to_the_end_of_the_log_even_if_the_log_is_shorter_than_a_segment() -> None:
    rows = losing(history(5_000, recovers=6_000))
    assert {round(row["until"].timestamp()) for row in rows} == {6_000}
    assert len(rows) == len(RETAINED)


def test_kafka_streams_loses_nothing_if_it_deletes_what_it_has_committed() -> None:
    """A group is slower than its partitions are written; each log starts at one of its commits. Elsewhere that is retention."""
    events: list[Event] = [Step(0, "g", "rebalance", "eager", (0,) * len(PLACES), (), withheld=False, recreated=False)]
    for second in range(5, END, 5):
        if second % EVERY == 0:
            events += [Commit(second * SECOND - 1, "g", place, READ * second, None) for place, _ in enumerate(PLACES)]
        deleted = (second - 1) // EVERY * EVERY * READ
        events.append(Sample(second * SECOND, (WRITTEN * second,) * len(PLACES), (deleted,) * len(PLACES)))
    made = History(tuple(events), None, None)
    assert {row["topic"] for row in losing(made)} == {"t"}
    behind = {row["topic"] for row in folded(made).health.values() if row["state"] == "falling_behind"}
    assert behind >= {"t", "u-repartition"}


@pytest.mark.parametrize(
    ("topic", "deleted"),
    [
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000040-repartition", True),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", True),
        ("app-named-subscription-response-topic", True),
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000040-changelog", False),
        ("repartition", False),
        ("orders-topic", False),
    ],
)
def test_topics_from_which_kafka_streams_deletes_are_known_by_the_names_that_it_gives(topic: str, deleted: bool) -> None:
    """The names are those of Kafka Streams 4.3.1."""
    assert (PURGED_BY_STREAMS.search(topic) is not None) == deleted
