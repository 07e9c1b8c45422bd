"""Small groups written by hand, in names, as problems."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import Problem


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
