"""Partitions that a member keeps stand still while it joins, in the libraries that do not read meanwhile."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from counterpoise.simulation.dialects import DIALECTS
from counterpoise.simulation.outcome import Outcome
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario
from counterpoise.simulation.simulate import simulate

OWN, OURS = "kafka-python", "counterpoise (kafka-python)"


def played(library: str, strategy: str = "cooperative-sticky") -> Outcome:
    """The benchmark's joins and leave: 12 partitions, three members, three more, and one of them leaves."""
    late = [MemberGroup(f"late-{at}", ["t"], join_at=-1, library=library) for at in range(3)]
    events = [Event(60 + 61.3 * at, "join", f"late-{at}") for at in range(3)] + [Event(247, "leave", "app-01")]
    scenario = Scenario("joins", {"t": 12}, [MemberGroup("app", ["t"], count=3, library=library), *late], events)
    return simulate(scenario, [strategy])[strategy]


def gaps_of_kept(outcome: Outcome) -> float:
    """Seconds between two stretches of one member on one partition."""
    stretches = defaultdict(list)
    for one in outcome.ownership:
        stretches[one.topic, one.partition].append(one)
    return sum(
        later.start - before.end
        for listed in stretches.values()
        for before, later in pairwise(listed)
        if before.member == later.member
    )


@pytest.mark.parametrize("library", DIALECTS)
def test_what_stays_stands_still_only_where_the_library_does_not_read_while_it_joins(library: str) -> None:
    outcome = played(library)
    eager = "aiokafka" in library
    assert (gaps_of_kept(outcome) > 1) is (eager or library == OWN)
    assert (outcome.settled, outcome.double_owned_seconds) == (True, 0)


def test_the_second_round_stops_kafka_pythons_kept_partitions_for_a_whole_heartbeat_interval() -> None:
    """Whoever gave something up joins again at once, and waits for those that hear of it with their next heartbeat."""
    seconds = {library: played(library).stopped_partition_seconds for library in (OWN, OURS, "java")}
    assert seconds[OWN] > 2 * seconds["java"] > 2 * seconds[OURS]
    assert played(OWN, "sticky").stopped_partition_seconds < seconds[OWN]
    assert (played(OWN).moved, played(OWN).revoked) == (played("java").moved, played("java").revoked)


def test_in_the_second_round_members_hear_with_their_first_heartbeat_unless_the_assignor_asks_at_once() -> None:
    """Java's is a whole interval after the first round."""
    for library, wait in (("java", 3.0), (OURS, 0.0)):
        rounds = played(library).history
        spans = [second.joined - second.started for second in rounds if second.follow_up]
        assert len(spans) == 3
        assert all(wait * 1000 - 200 <= span <= wait * 1000 + 200 for span in spans), library
