"""Groups for the soak of the assignors: group number N is always the same one; and the extreme ones, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from counterpoise.model.problem import MOST_CAPACITY
from counterpoise.snapshot import Group, Member, Topic

__all__ = ["EXTREMES", "drawn", "shuffled"]

Names = Callable[[int], str]
T = TypeVar("T")
_PARTS = ("a", "b", "-", "0", "\u00e9", "\U0001d54f", "\ufffd")
_HOSTILE = ("\x1b[2J", "\u202e", "<script>alert(1)</script>", "\0", "\r\n", '"', "\\", "'; --")
_FAMILIES = ("plain", "parts", "hostile", "prefixed", "plain", "parts", "hostile", "prefixed", "long")
_LONGEST_ON_THE_WIRE = 32_767
"""Bytes of a string of the protocol, whose length is an int16: member ids may be as long."""
_SIZES = ((0.92, 7, 5, 8), (0.995, 25, 10, 15), (1.0, 150, 30, 50))
"""Share of the groups up to this row, then the most members, topics, and partitions of a topic."""
_GONE, _LATER = "gone", "later"


def drawn(number: int) -> Group:
    """Group number N: small, middle or large; subscriptions, claims, names, racks, weights and lag of every kind."""
    rng = np.random.default_rng([number, 25])
    luck = rng.random()
    _, most_members, most_topics, most_partitions = next(row for row in _SIZES if luck < row[0])
    topics = _names(rng, int(rng.integers(0, most_topics + 1)), "t")
    ids = _names(rng, int(rng.integers(0, most_members + 1)), "m")
    counts = {topic: int(rng.integers(0, most_partitions + 1)) for topic in topics}
    if topics and rng.random() < 0.1:
        counts[topics[0]] = 0
    racks = rng.random() < 0.25
    weighted = rng.choice([0, 0, 0, 1, 2])
    chosen = _subscriptions(rng, len(ids), topics)
    claims = _claims(rng, ids, chosen, counts)
    members = [
        Member(
            member,
            [*listed, *([_LATER] if rng.random() < 0.05 else []), *(listed[:1] if rng.random() < 0.05 else [])],
            claims[at],
            int(rng.choice([-1, 0, 1, 1, 1, 2, 2**31 - 1])),
            f"static-{len(ids) - at}" if rng.random() < 0.1 else None,
            str(rng.choice(["", "r1", "r2", "r3"])) if racks else None,
            (1, int(rng.integers(1, 5)), int(rng.choice([1, 7, MOST_CAPACITY])))[weighted],
        )
        for at, (member, listed) in enumerate(zip(ids, chosen, strict=True))
    ]
    known: dict[str, int | Topic] = dict(counts)
    if racks:
        known = {topic: Topic(count, [_replicas(rng) for _ in range(count)]) for topic, count in counts.items()}
    return Group(known, members, _lag(rng, counts))


def shuffled(group: Group, number: int) -> Group:
    """The same group, its topics, members, subscriptions and claims in another order."""
    rng = np.random.default_rng([number, 26])

    def mixed(listed: Sequence[T]) -> list[T]:
        return [listed[at] for at in rng.permutation(len(listed))]

    members = [
        replace(
            member, topics=mixed(member.topics), owned={topic: mixed(member.owned[topic]) for topic in mixed([*member.owned])}
        )
        for member in (group.members[at] for at in rng.permutation(len(group.members)))
    ]
    return Group({topic: group.topics[topic] for topic in mixed([*group.topics])}, members, group.lag)


def _names(rng: np.random.Generator, count: int, kind: str) -> list[str]:
    """So many different names, sometimes the empty one among them."""
    family = str(rng.choice(_FAMILIES))
    longest = int(rng.choice([65_536, _LONGEST_ON_THE_WIRE, 249, 249, 249, 249, 249, 249]))
    name: dict[str, Names] = {
        "plain": lambda at: f"{kind}{at}",
        "parts": lambda at: "".join(_PARTS[at // 7**digit % 7] for digit in range(4)),
        "hostile": lambda at: f"{_HOSTILE[at % len(_HOSTILE)]}{at}",
        "prefixed": lambda at: kind * (at + 1),
        "long": lambda at: f"{at}".rjust(longest if at < 2 else 9, kind),
    }
    made = list(dict.fromkeys(name[family](int(at)) for at in rng.permutation(count)))
    if made and rng.random() < 0.05:
        made[0] = ""
    return made


def _subscriptions(rng: np.random.Generator, n_members: int, topics: list[str]) -> list[list[str]]:
    """Per member: all topics, sets, nested, a chain, disjoint, at random, or none at all."""
    n_topics, n_sets = len(topics), int(rng.integers(1, 5))
    m, t = np.arange(n_members)[:, None], np.arange(n_topics)[None, :]
    masks = [
        np.ones((n_members, n_topics), np.bool_),
        (t % n_sets == m % n_sets) | (t == 0),
        t <= m,
        (m == t % max(n_members, 1)) | (m == (t + 1) % max(n_members, 1)),
        t % max(n_members, 1) == m,
        rng.random((n_members, n_topics)) < rng.uniform(0.05, 0.95),
        np.zeros((n_members, n_topics), np.bool_),
    ]
    mask = masks[int(rng.choice(7, p=[0.25, 0.15, 0.12, 0.15, 0.05, 0.25, 0.03]))]
    return [[topics[at] for at in np.flatnonzero(row)] for row in mask]


def _claims(
    rng: np.random.Generator, ids: list[str], chosen: list[list[str]], counts: dict[str, int]
) -> list[dict[str, list[int]]]:
    """Claims as after a rebalance, some lost; with two claimants, topics that are gone and partitions that do not exist."""
    claims: list[dict[str, list[int]]] = [{} for _ in ids]
    if not ids or rng.random() < 0.15:
        return claims
    lost, stray = rng.uniform(0, 0.5), rng.choice([0, 0.02, 0.3])
    liking = rng.random(len(ids)) ** rng.uniform(0, 3) + 1e-9
    may = {topic: [at for at, listed in enumerate(chosen) if topic in listed] for topic in counts}
    for topic, count in counts.items():
        for at in np.flatnonzero(rng.random(count) >= lost).tolist():
            able = may[topic] if rng.random() >= stray and may[topic] else range(len(ids))
            weight = liking[list(able)]
            owners = rng.choice(able, 2 if rng.random() < stray else 1, p=weight / weight.sum())
            for owner in set(owners.tolist()):
                claims[owner].setdefault(topic, []).append(at)
    if stray:
        claims[int(rng.integers(len(ids)))][_GONE] = [0, 2**31 - 1]
        for topic in list(claims[0])[:1]:
            claims[0][topic] = [*claims[0][topic], counts.get(topic, 0) + 3]
    return claims


def _replicas(rng: np.random.Generator) -> list[str]:
    return [rack for rack in ("r1", "r2", "r4") if rng.random() < 0.5]


def _lag(rng: np.random.Generator, counts: dict[str, int]) -> dict[str, list[int]] | None:
    """None, nothing behind, a few, heavy tails, one partition with everything, or figures near the limit of an offset."""
    kind = int(rng.integers(0, 6))
    if not kind:
        return None
    size = sum(counts.values())
    figures = [
        np.zeros(size),
        rng.integers(0, 10, size),
        rng.lognormal(5, 3, size),
        np.where(np.arange(size) == size // 2, 2**40, 0),
        rng.integers(2**47, 2**48, size),
    ][kind - 1].astype(np.int64)
    ends = np.cumsum([0, *counts.values()])
    return {topic: figures[a:b].tolist() for topic, a, b in zip(counts, ends, ends[1:], strict=False)}


def _held(topics: dict[str, int], members: list[Member], lag: dict[str, list[int]] | None = None) -> Group:
    """A group in which the members but the last one hold everything they may, dealt in turn; the last one has just joined."""
    owned: list[dict[str, list[int]]] = [{} for _ in members]
    may: dict[str, list[int]] = {topic: [] for topic in topics}
    for at, member in enumerate(members[:-1]):
        for topic in member.topics:
            may[topic].append(at)
    for topic, count in topics.items():
        for rank, at in enumerate(able := may[topic]):
            if dealt := list(range(rank, count, len(able))):
                owned[at][topic] = dealt
    return Group(topics, [replace(member, owned=held, generation=3) for member, held in zip(members, owned, strict=True)], lag)


def _members(count: int, topics: Callable[[int], list[str]]) -> list[Member]:
    return [Member(f"m{at:06}", topics(at)) for at in range(count)]


def _heavy(count: int) -> list[int]:
    return np.random.default_rng(1).lognormal(5, 3, count).astype(np.int64).tolist()


def _lists(at: int, n_topics: int) -> list[str]:
    """Two neighbours of a ring and, for one member in three, a third topic."""
    return [f"t{at % n_topics}", f"t{(at + 1) % n_topics}", *([f"t{at * 7 % n_topics}"] if at % 3 == 0 else [])]


def _distinct(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


EXTREMES: dict[str, Callable[[], Group]] = {
    "one topic of 100,000 partitions, 100 members": lambda: _held({"t": 100_000}, _members(100, lambda _: ["t"])),
    "the same with lag": lambda: _held({"t": 100_000}, _members(100, lambda _: ["t"]), {"t": _heavy(100_000)}),
    "50,000 members, one topic of 100,000 partitions": lambda: _held({"t": 100_000}, _members(50_000, lambda _: ["t"])),
    "50,000 members, 5 topics of 10,000, two each": lambda: _held(
        {f"t{at}": 10_000 for at in range(5)}, _members(50_000, lambda at: [f"t{at % 5}", f"t{(at + 1) % 5}"])
    ),
    "50,000 members, 3 partitions": lambda: _held({"t": 3}, _members(50_000, lambda _: ["t"])),
    "10,000 members in a ring of 6,000 topics (60 million cells)": lambda: _held(
        {f"t{at}": 3 for at in range(6_000)}, _members(10_000, lambda at: _distinct(_lists(at, 6_000)))
    ),
    "names of 64 kB": lambda: _held(
        {f"{at}".rjust(65_536, "t"): 50 for at in range(20)},
        [Member(f"{at}".rjust(65_536, "m"), [f"{topic}".rjust(65_536, "t") for topic in range(20)]) for at in range(50)],
    ),
    "100,000 topics of one partition, 50 members": lambda: _held(
        {f"t{at}": 1 for at in range(100_000)}, _members(50, lambda at: [f"t{topic}" for topic in range(at % 2, 100_000, 2)])
    ),
    "20,000 members without topics": lambda: Group({"t": 5}, _members(20_000, lambda _: [])),
    "a topic of 100,000 partitions that nobody subscribes to": lambda: Group({"t": 100_000}, _members(100, lambda _: [])),
}
"""Groups at the limits, each made when it is called."""
