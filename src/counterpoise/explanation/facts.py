"""Facts: everything a group and a plan say about one partition, looked up once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.errors import SnapshotError, some
from counterpoise.laws.balance import MarginalCosts, loads, marginal_costs
from counterpoise.laws.verify import AnyPlan, owners_or_faults
from counterpoise.model.arrays import sums_by_code
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.plan import Plan
from counterpoise.snapshot.written import WrittenPlan, written

__all__ = ["Behind", "Claim", "Facts", "gather"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A member (code) says it owns the partition, as of a generation (-1: none)."""

    member: int
    generation: int


@dataclass(frozen=True, slots=True)
class Behind:
    """Records behind: of the partition, of its old owner if it kept all it may keep, of old and new owner in this plan."""

    partition: int
    kept: int
    old: int
    new: int
    relieved: bool  # Some member is less behind in this plan than if it kept all it may keep


@dataclass(frozen=True, eq=False, slots=True)
class Facts:
    """One partition in one group under one plan; members by code."""

    name: str  # The partition as Kafka writes it, ``topic-index``
    topic: str
    subscribers: list[int]
    claims: list[Claim]  # Newest generation first
    # holder, keeper, target: Who holds it now, who may keep it, who gets it; UNOWNED or, for the first two, CONTESTED
    holder: int
    keeper: int
    target: int
    given: list[str]  # Everybody the plan gives it to: more than one, or no member, in a faulty plan
    waits: bool  # Withheld in this round
    strategy: str | None  # What made the plan, if known
    # load, claimed, capacity (int64[M]): partitions per member in the target, and that it may keep; its own
    load: Int64
    claimed: Int64
    capacity: Int64
    marginal: MarginalCosts  # Of each member's last and next partition
    behind: Behind | None  # What lag says about the move, if the plan was made by lag and lag is known


def gather(group: Group, plan: AnyPlan, topic: str, partition: int) -> Facts:
    """Look up one partition.

    Raises `SnapshotError` if the topic or the partition does not exist; the message says what does.
    """
    settled = group.settled
    problem = settled.problem
    code, at = _locate(group, topic, partition)
    plan = written(plan) or plan
    owner, _ = owners_or_faults(group, plan)
    handed, _ = owners_or_faults(group, plan, now=True)
    claims = problem.previous_owner
    mine = np.flatnonzero(settled.claim_partition == at)
    listed = {Claim(member, group.members_by_code[member].generation) for member in settled.claim_member[mine].tolist()}
    load = loads(problem.n_members, owner)
    holder, target = int(problem.holder[at]), int(owner[at])
    strategy = plan.strategy if isinstance(plan, Plan | WrittenPlan) else None
    return Facts(
        name=f"{topic}-{partition}",
        topic=topic,
        subscribers=problem.subscribers(code).tolist(),
        claims=sorted(listed, key=lambda claim: (-claim.generation, claim.member)),
        holder=holder,
        keeper=int(claims[at]),
        target=target,
        given=[group.member_ids[target]] if isinstance(plan, Plan) and target >= 0 else _members_given(plan, topic, partition),
        waits=target >= 0 and int(handed[at]) == UNOWNED and holder != UNOWNED,
        strategy=strategy,
        load=load,
        claimed=loads(problem.n_members, claims),
        capacity=problem.capacity,
        marginal=marginal_costs(load, problem.capacity),
        behind=_behind(problem, owner, claims, at, strategy),
    )


def _behind(problem: Problem, owner: Int32, claims: Int32, at: int, strategy: str | None) -> Behind | None:
    """Lag before and after a move that `lag-sticky` made."""
    old, new = int(claims[at]), int(owner[at])
    if strategy != "lag-sticky" or problem.lag is None or old < 0 or new < 0 or old == new:
        return None
    kept, now = (sums_by_code(given, problem.lag, problem.n_members) for given in (claims, owner))
    return Behind(int(problem.lag[at]), int(kept[old]), int(now[old]), int(now[new]), bool((now < kept).any()))


def _locate(group: Group, topic: object, partition: object) -> tuple[int, int]:
    """(topic code, partition code)."""
    known = group.topics.get(topic) if isinstance(topic, str) else None
    if known is None:
        raise SnapshotError(f"topic {topic!r} does not exist in this group; there are: {some(group.topic_names) or 'none'}")
    if isinstance(partition, bool) or not isinstance(partition, int | np.integer):
        raise SnapshotError(f"{topic}: {partition!r} is no partition; give a number from 0 on")
    if partition not in range(known.partitions):
        there = f"0 to {known.partitions - 1}" if known.partitions else "none"
        raise SnapshotError(f"{topic}-{partition} does not exist; partitions of {topic}: {there}")
    code = group.topic_names.index(topic)
    return code, int(group.problem().topic_start[code]) + int(partition)


def _members_given(plan: AnyPlan, topic: str, partition: int) -> list[str]:
    assignment = plan.target if isinstance(plan, Plan | WrittenPlan) else plan
    return [member for member, topics in assignment.items() if partition in topics.get(topic, ())]
