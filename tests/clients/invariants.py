"""What must hold over a whole run of a group, from the members' journals and the coordinator's record of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from counterpoise.clients.leader_side import protocol_to_lead
from counterpoise.laws import check_owners
from counterpoise.planning.lead import lead_plan
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import decode_subscription
from tests.clients.fleet import Fleet
from tests.clients.records import Generation, GroupHistory

__all__ = ["came_and_went", "check_run", "covered"]

_LAWS = {"range": ["valid", "complete"], "roundrobin": ["valid", "complete"]}


def covered(fleet: Fleet, delivered: dict[str, set[int]]) -> bool:
    """Whether every delivered record was processed at least once."""
    seen = processed(fleet)
    return all(values <= seen[partition] for partition, values in delivered.items())


def processed(fleet: Fleet) -> dict[str, set[int]]:
    """Values by partition that any member processed."""
    seen: dict[str, set[int]] = defaultdict(set)
    for event in fleet.all_events():
        if event["event"] == "records":
            seen[event["partition"]].update(event["values"])
    return seen


def check_run(fleet: Fleet, delivered: dict[str, set[int]], history: GroupHistory) -> None:
    """All invariants of a run."""
    assert covered(fleet, delivered), "a record was processed by nobody"
    one_owner_by_record(history)
    one_owner_by_journals(fleet)
    members_take_what_was_recorded(fleet, history)
    nothing_is_taken_while_held(fleet, history)
    commits_never_go_back(history)
    plans_are_kept_and_optimal(fleet, history)


def came_and_went(generations: Sequence[Generation]) -> bool:
    """Whether a member came or went more than once: on a busy machine a session may run out. Then others need not keep all."""
    moves = [name for a, b in pairwise(generations) for _, name in a.clients.items() ^ b.clients.items()]
    return len(moves) > len(set(moves))


def one_owner_by_record(history: GroupHistory) -> None:
    """The coordinator never recorded two owners of a partition in one generation."""
    assert history.generations
    for generation in history.generations:
        total = Counter(partition for owned in generation.assigned.values() for partition in owned)
        assert all(count == 1 for count in total.values()), (generation.number, total.most_common(3))


def one_owner_by_journals(fleet: Fleet) -> None:
    """No two members were given a partition in one generation, by their own journals."""
    owner: dict[tuple[int, str], str] = {}
    for event in fleet.all_events():
        if event["event"] == "assigned":
            for partition in event["partitions"]:
                other = owner.setdefault((event["generation"], partition), event["member"])
                assert other == event["member"], f"generation {event['generation']}: {partition} at {other} and {event['member']}"


def members_take_what_was_recorded(fleet: Fleet, history: GroupHistory) -> None:
    """Ownership moves as the plan says and no further: what a member took is what the coordinator recorded for it."""
    recorded = {generation.number: generation for generation in history.generations}
    for event in fleet.all_events():
        generation = recorded.get(event["generation"]) if event["event"] == "assigned" else None
        if generation is not None:
            given = [generation.assigned[each] for each, name in generation.clients.items() if name == event["member"]]
            assert set(event["partitions"]) in given, (
                f"generation {generation.number}: {event['member']} took {event['partitions']}, recorded is {given}"
            )


def nothing_is_taken_while_held(fleet: Fleet, history: GroupHistory) -> None:
    """Cooperative: what a member took in one generation and gives up in the next is with nobody in that next one.

    By the journals of what members took: an assignment that a member never fetched gives it nothing. Only of members
    that cooperate and know generations (aiokafka has revoked all before it joins; librdkafka does not tell).
    """
    took = {
        (event["member"], event["generation"]): set(event["partitions"])
        for event in fleet.all_events()
        if event["event"] == "assigned" and fleet.kinds[event["member"]] in ("kafka_python", "java")
    }
    for before, after in pairwise(history.generations):
        if not after.protocol.startswith(("cooperative", "constrained")) or after.number != before.number + 1:
            continue
        for member, name in before.clients.items():
            if member in after.assigned and (name, before.number) in took:
                given_up = took[(name, before.number)] - after.assigned[member]
                for other, gained in after.assigned.items():
                    assert not given_up & gained, (
                        f"generation {after.number}: {other} gets {given_up & gained} from {member} at once"
                    )


def commits_never_go_back(history: GroupHistory) -> None:
    """In the order of the log, no committed offset is lower than an earlier one."""
    assert history.commits
    for partition, offsets in history.commits.items():
        back = [(a, b) for a, b in pairwise(offsets) if b < a]
        assert not back, f"{partition}: committed {back[0][0]} and then {back[0][1]}"


def plans_are_kept_and_optimal(fleet: Fleet, history: GroupHistory) -> None:
    """What Python leaders planned is what the coordinator recorded, is what planning again gives, and is proven optimal."""
    python = {name for name, kind in fleet.kinds.items() if kind in ("kafka_python", "aiokafka")}
    leads = [event for event in fleet.all_events() if event["event"] == "lead"]
    recorded = [each for each in history.generations if each.clients.get(each.leader) in python]
    planned = {tuple(sorted(event["assignments"].items())): event for event in leads}
    for generation in recorded:
        key = tuple(sorted((member, data.hex()) for member, data in generation.raw.items()))
        assert key in planned, f"generation {generation.number} was recorded otherwise than its leader planned it"
        check_lead(generation.protocol, planned[key])


def check_lead(strategy: str, event: dict[str, Any]) -> None:
    """Plan again from the bytes the leader saw; hold its target against the laws."""
    topics = {name: Topic(count) for name, count in event["topics"].items()}
    members = [JoinMember(each["id"], bytes.fromhex(each["metadata"]), each["instance_id"]) for each in event["members"]]
    any_owned = any(decode_subscription(member.metadata).owned for member in members)
    led = lead_plan(strategy, topics, members, protocol=protocol_to_lead(strategy, any_owned=any_owned))
    assert led.target_owner.tolist() == event["target"], "planning again gives another target"
    faults = check_owners(led.joined.problem, led.target_owner, _LAWS.get(strategy, ["valid", "complete", "balanced", "sticky"]))
    assert not faults, [str(fault) for fault in faults]
