"""Small groups as problems: written by hand, in names, or random."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import Problem, Racks


def group(topics, members, owned=None, **extra):
    """A problem from {topic: partitions}, {member: topics} and {member: ["t0p1", ..]}; ids are taken in sorted order."""
    names, ids = sorted(topics), sorted(members)
    start = dict(zip(names, np.cumsum([0] + [topics[name] for name in names]).tolist(), strict=False))
    subscribers = [[code for code, member in enumerate(ids) if name in members[member]] for name in names]
    previous = np.full(sum(topics.values()), -1)
    for member, partitions in (owned or {}).items():
        for text in partitions:
            topic, index = text.rsplit("p", 1)
            previous[start[topic] + int(index)] = ids.index(member)
    counts = np.cumsum([0] + [len(codes) for codes in subscribers])
    sizes = np.cumsum([0] + [topics[name] for name in names])
    return Problem(len(ids), sizes, counts, [code for codes in subscribers for code in codes], previous, **extra)


def owners(topics, members, owner):
    """{member: ["t0p1", ..]} in partition order."""
    names, ids = sorted(topics), sorted(members)
    labels = [f"{name}p{index}" for name in names for index in range(topics[name])]
    return {member: [label for label, code in zip(labels, owner, strict=True) if code == i] for i, member in enumerate(ids)}


def loads(problem, owner):
    return np.bincount(owner[owner >= 0], minlength=problem.n_members).tolist()


def kept(problem, owner):
    return int(((owner == problem.previous_owner) & (owner >= 0)).sum())


def random_problem(rng, size=6, *, racks=False, capacities=False):
    """A small problem of a random shape: a few subscription patterns, stale, invalid and departed owners, empty corners."""
    n_members, n_topics = int(rng.integers(0, size + 1)), int(rng.integers(0, size + 1))
    sizes = rng.integers(0, rng.integers(1, 8) + 1, n_topics)
    style = rng.integers(4)
    if style == 0:
        may = rng.random((n_topics, n_members)) < rng.random()
    elif style == 1:
        patterns = rng.random((3, n_topics)) < 0.6
        may = patterns[rng.integers(0, 3, n_members)].T if n_members else np.zeros((n_topics, 0), bool)
    elif style == 2:
        may = np.arange(n_topics)[:, None] <= np.arange(n_members)[None, :]
    else:
        gap = np.arange(n_topics)[:, None] - np.arange(n_members)[None, :]
        may = (gap == 0) | (gap == 1)
    if rng.random() < 0.1:
        may[:] = True
    start = np.concatenate([[0], np.cumsum(may.sum(1))])
    n = int(sizes.sum())
    previous = rng.integers(-2, n_members + 2, n)
    if rng.random() < 0.3 and n_members:
        previous = np.full(n, rng.integers(0, n_members))
    if rng.random() < 0.2:
        previous[:] = -1
    extra = {}
    if capacities:
        extra["capacity"] = rng.integers(1, 5, n_members)
    if racks:
        sets = [np.flatnonzero(rng.random(3) < 0.6) for _ in range(n)]
        rack_of_member = rng.integers(-1, 3, n_members).astype(np.int32)
        replica_start = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
        extra["racks"] = Racks(rack_of_member, replica_start, np.concatenate([*sets, []]).astype(np.int32))
    return Problem(n_members, np.concatenate([[0], np.cumsum(sizes)]), start, np.nonzero(may)[1], previous, **extra)
