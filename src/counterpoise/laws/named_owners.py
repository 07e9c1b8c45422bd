"""Owners by names to owners by code, int32[P], and the names that the group does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from counterpoise.errors import some
from counterpoise.laws.violation import Violation, Words, of_partitions
from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.snapshot.group import Group

__all__ = ["owners_by_names"]


def owners_by_names(group: Group, assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> tuple[Int32, list[Violation]]:
    """The owners in a mapping, in the group's codes, and its faults.

    Returns the owners, int32[P] (of a partition given twice, the last member named), and the faults: ``valid``: an unknown
    member; ``complete``: an unknown topic or partition, or one given twice.

    O(P) and a short step per member and topic.
    """
    problem = group.problem()
    codes, index, strangers = _flat(group, assignment)
    member, topic, length = codes
    first = np.append(problem.topic_start[:-1], 0)[topic]
    count = np.append(np.diff(problem.topic_start), 0)[topic]
    first, count, member = np.repeat(first, length), np.repeat(count, length), np.repeat(member, length)
    exists = (index >= 0) & (index < count)
    inside = (first + index)[exists]
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    owner[inside] = member[exists]
    given = np.bincount(inside, minlength=problem.n_partitions)
    missing = _missing(group, assignment) if not exists.all() else []
    return owner, _faults(group, strangers, missing, given > 1)


def _flat(
    group: Group, assignment: Mapping[str, Mapping[str, Sequence[int]]]
) -> tuple[tuple[Int64, Int64, Int64], Int64, list[str]]:
    """Per list: member code, topic code (-1: unknown), length; all indices end to end; unknown members."""
    member_code = {name: code for code, name in enumerate(group.member_ids)}
    topic_code = {name: code for code, name in enumerate(group.topic_names)}
    members: list[int] = []
    topics: list[int] = []
    lists: list[Sequence[int]] = []
    strangers: list[str] = []
    for member, given in assignment.items():
        if member not in member_code:
            strangers.append(member)
            continue
        members.extend([member_code[member]] * len(given))
        topics.extend(topic_code.get(topic, -1) for topic in given)
        lists.extend(given.values())
    index = np.array([value if 0 <= value < 2**62 else -1 for value in chain.from_iterable(lists)], np.int64)
    length = np.fromiter(map(len, lists), np.int64, len(lists))
    return (np.array(members, np.int64), np.array(topics, np.int64), length), index, strangers


def _missing(group: Group, assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> list[str]:
    """The partitions that are given and do not exist, for messages."""
    counts, known_ids = {name: known.partitions for name, known in group.topics.items()}, set(group.member_ids)
    return [
        f"{topic}-{index} (given to {member})"
        for member, topics in assignment.items()
        if member in known_ids
        for topic, listed in topics.items()
        for index in listed
        if not 0 <= index < counts.get(topic, 0)
    ]


def _faults(group: Group, strangers: list[str], missing: list[str], twice: npt.NDArray[np.bool_]) -> list[Violation]:
    found = []
    if strangers:
        message = f"the plan names members the group does not have: {some(strangers)}"
        found.append(Violation("valid", message, len(strangers)))
    if missing:
        found.append(Violation("complete", f"the plan gives partitions that do not exist: {some(missing)}", len(missing)))
    words = Words(group.problem(), group.member_ids, group.topic_names)
    return found + of_partitions("complete", twice, "given more than once", words)
