"""What property tests draw: whole problems, rebalances, plans and groups by name; and seeded random ones of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem, Racks
from counterpoise.snapshot import Group, Member, Topic

__all__ = [
    "Rebalance",
    "feasible_owner",
    "groups",
    "plans",
    "problem_of",
    "problems",
    "random_problem",
    "rebalances",
    "subscribers_of",
]


def problem_of(counts: list[int], subscribers: list[list[int]], n_members: int, previous: Any = None, **more: Any) -> Problem:
    """A Problem from partition counts and subscriber lists per topic."""
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    slices = np.concatenate([[0], np.cumsum([len(listed) for listed in subscribers])]).astype(np.int64)
    codes = np.array([code for listed in subscribers for code in sorted(listed)], np.int32)
    return Problem(n_members, start, slices, codes, previous, **more)


def subscribers_of(problem: Problem, partition: int) -> list[int]:
    """The members that may own a partition."""
    topic = int(np.searchsorted(problem.topic_start, partition, side="right")) - 1
    return problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]].tolist()


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    max_members: int = 6,
    max_topics: int = 5,
    max_partitions: int = 16,
    equal: bool | None = None,
    capacities: bool = False,
    lags: bool = False,
    racks: bool = False,
) -> Problem:
    """Any group: members without topics, topics without members or partitions, claims of every kind.

    `equal` fixes whether all members subscribe to everything (None: either). Holders may differ from previous owners
    as they do when a member has given up a topic.
    """
    n_members = draw(st.integers(0, max_members))
    counts = draw(st.lists(st.integers(0, 6), max_size=max_topics))
    while sum(counts) > max_partitions:
        counts.pop()
    everyone = list(range(n_members))
    if equal or (equal is None and draw(st.booleans())):
        subscribers = [everyone for _ in counts]
    else:
        subset = st.lists(st.sampled_from(everyone), unique=True) if everyone else st.just([])
        subscribers = [sorted(draw(subset)) for _ in counts]
    holder, previous = _claims(draw, counts, subscribers, n_members)
    n_partitions = len(holder)
    more: dict[str, Any] = {"holder": holder}
    if capacities:
        more["capacity"] = draw(st.lists(st.integers(1, 4), min_size=n_members, max_size=n_members))
    if lags:
        more["lag"] = draw(st.lists(st.integers(0, 2**40) | st.integers(0, 9), min_size=n_partitions, max_size=n_partitions))
    if racks:
        more["racks"] = _racks(draw, n_members, n_partitions)
    return problem_of(counts, subscribers, n_members, previous, **more)


def _claims(draw: st.DrawFn, counts: list[int], subscribers: list[list[int]], n_members: int) -> tuple[Int32, Int32]:
    """(holder, previous_owner) with free, contested, stale and valid claims."""
    holder: list[int] = []
    previous: list[int] = []
    anyone = st.sampled_from([UNOWNED, CONTESTED, *range(n_members)])
    for count, listed in zip(counts, subscribers, strict=True):
        likely = st.sampled_from(listed) if listed else anyone
        for _ in range(count):
            holds = draw(likely | anyone)
            holder.append(holds)
            previous.append(holds if holds == CONTESTED or holds in listed else UNOWNED)
    return np.array(holder, np.int32), np.array(previous, np.int32)


def _racks(draw: st.DrawFn, n_members: int, n_partitions: int) -> Racks:
    of_member = draw(st.lists(st.integers(-1, 2), min_size=n_members, max_size=n_members))
    replicas = [sorted(draw(st.sets(st.integers(0, 2)))) for _ in range(n_partitions)]
    return Racks(
        np.array(of_member, np.int32),
        np.concatenate([[0], np.cumsum([len(r) for r in replicas])]).astype(np.int64),
        np.array([rack for r in replicas for rack in r], np.int32),
    )


@st.composite
def plans(draw: st.DrawFn, problem: Problem) -> Int32:
    """Any valid, complete plan of a problem."""
    allowed = [subscribers_of(problem, at) or [UNOWNED] for at in range(problem.n_partitions)]
    owner = [draw(st.sampled_from(listed)) for listed in allowed]
    return np.array(owner, np.int32)


@dataclass(frozen=True, eq=False)
class Rebalance:
    """A group in peace, and the same group after something happened to it."""

    event: str
    before: Problem
    owner: Int32
    after: Problem


@st.composite
def rebalances(draw: st.DrawFn, /, **limits: Any) -> Rebalance:
    """A problem, a plan of it that everybody claims, and an event: a member leaves or joins, a topic is given up or grows."""
    before = draw(problems(**limits).filter(lambda problem: problem.n_members > 0))
    owner = draw(plans(before))
    event = draw(st.sampled_from(["leave", "join", "unsubscribe", "grow", "nothing"]))
    n, counts = before.n_members, np.diff(before.topic_start).tolist()
    lists = [before.subscriber[a:b].tolist() for a, b in zip(before.subscriber_start, before.subscriber_start[1:], strict=False)]
    holder = owner.copy()
    if event == "leave":
        gone = draw(st.integers(0, n - 1))
        lists = [[m - (m > gone) for m in listed if m != gone] for listed in lists]
        holder = np.where(owner == gone, UNOWNED, owner - (owner > gone)).astype(np.int32)
        n -= 1
    elif event == "join":
        lists = [[*listed, n] if draw(st.booleans()) else listed for listed in lists]
        n += 1
    elif event == "unsubscribe" and lists:
        at = draw(st.integers(0, len(lists) - 1))
        lists[at] = [m for m in lists[at] if draw(st.booleans())]
    elif event == "grow" and counts:
        at = draw(st.integers(0, len(counts) - 1))
        end, more = int(before.topic_start[at + 1]), draw(st.integers(1, 3))
        counts[at] += more
        holder = np.insert(owner, [end] * more, UNOWNED).astype(np.int32)
    topic = np.repeat(np.arange(len(counts)), counts)
    previous = [m if m in lists[t] else UNOWNED for m, t in zip(holder.tolist(), topic.tolist(), strict=True)]
    return Rebalance(event, before, owner, problem_of(counts, lists, n, np.array(previous, np.int32), holder=holder))


_NAMES = st.text(st.sampled_from("abcxyz-0129é\U0001d54f\ufffd"), min_size=1, max_size=4)


@st.composite
def groups(draw: st.DrawFn, *, max_members: int = 5, max_topics: int = 4, racks: bool = False) -> Group:
    """A group by names: claims of any generation on anything, also on topics and partitions that do not exist."""
    topics = draw(st.dictionaries(_NAMES, st.integers(0, 5), max_size=max_topics))
    ids = draw(st.lists(_NAMES, unique=True, max_size=max_members))
    existing = st.sampled_from(sorted(topics)) if topics else st.just("gone")
    members = []
    for member_id in ids:
        owned = draw(
            st.dictionaries(existing | st.just("gone"), st.lists(st.integers(0, 5), unique=True, max_size=4), max_size=3)
        )
        members.append(
            Member(
                member_id,
                draw(st.lists(existing | st.just("later"), unique=True)),
                owned,
                draw(st.integers(-1, 2)),
                draw(st.none() | st.just("static-" + member_id)),
                draw(st.none() | st.sampled_from(["", "r1", "r2"])) if racks else None,
                draw(st.integers(1, 3)) if draw(st.booleans()) else 1,
            )
        )
    known: dict[str, int | Topic] = dict(topics)
    if racks:
        rack = st.lists(st.sampled_from(["r1", "r2", "r3"]), unique=True)
        known = {name: Topic(count, [draw(rack) for _ in range(count)]) for name, count in topics.items()}
    lag = {name: [draw(st.integers(0, 99)) for _ in range(count)] for name, count in topics.items()}
    return Group(known, members, draw(st.sampled_from([None, lag])))


def random_problem(
    rng: np.random.Generator,
    *,
    max_members: int = 12,
    max_topics: int = 10,
    max_partitions: int = 20,
    capacities: bool = False,
) -> Problem:
    """A larger problem, fast: subscriptions equal, in sets, nested, a chain, or random; claims mostly valid."""
    n_members, n_topics = int(rng.integers(1, max_members + 1)), int(rng.integers(1, max_topics + 1))
    counts = rng.integers(0, max_partitions + 1, n_topics)
    member, topic = np.arange(n_members)[None, :], np.arange(n_topics)[:, None]
    kind = rng.integers(0, 5)
    n_sets = int(rng.integers(1, 5))
    masks = [
        np.ones((n_topics, n_members), np.bool_),
        (topic % n_sets == member % n_sets) | (topic == 0),
        topic <= member,
        (member == topic % n_members) | (member == (topic + 1) % n_members),
        rng.random((n_topics, n_members)) < rng.uniform(0.1, 0.9),
    ]
    subscribers = [np.flatnonzero(row).tolist() for row in masks[kind]]
    problem = problem_of(counts.tolist(), subscribers, n_members)
    owner = feasible_owner(problem, rng, skew=float(rng.uniform(0, 2)))
    lost = rng.random(problem.n_partitions) < rng.uniform(0, 0.5)
    stray = rng.integers(-2, n_members + 1, problem.n_partitions).astype(np.int32)
    capacity = rng.integers(1, 5, n_members) if capacities else None
    return problem.replace(previous_owner=np.where(lost, stray, owner).astype(np.int32), capacity=capacity)


def feasible_owner(problem: Problem, rng: np.random.Generator, *, skew: float = 0.0) -> Int32:
    """A random valid, complete plan; with `skew` some members are liked more than others."""
    liking = rng.random(problem.n_members) ** skew
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    for t in range(problem.n_topics):
        listed = problem.subscriber[problem.subscriber_start[t] : problem.subscriber_start[t + 1]]
        if len(listed):
            weight = liking[listed] / liking[listed].sum()
            part = slice(problem.topic_start[t], problem.topic_start[t + 1])
            owner[part] = rng.choice(listed, part.stop - part.start, p=weight)
    return owner
