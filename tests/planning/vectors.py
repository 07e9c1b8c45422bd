"""Kafka's own results as groups and owners: what the vector tests share."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise import Group, Member, Topic
from counterpoise.model.problem import Int32, Problem
from counterpoise.snapshot.joined import JoinMember
from tests.planning.join import join

__all__ = ["cases", "group_of", "kept", "loads"]

FOLDER = Path(__file__).parent.parent / "data" / "vectors"


@cache
def cases(name: str) -> tuple[dict[str, Any], ...]:
    """All cases of one vector file."""
    return tuple(_lines(name))


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def group_of(case: dict[str, Any]) -> Group:
    """The group as a leader reads it from the members' bytes (a broker's case has no bytes: as it is written)."""
    racks = case.get("racks") or {}
    topics = {name: Topic(count, racks.get(name)) for name, count in case["topics"].items()}
    if "metadata" not in case["members"][0]:
        members = [
            Member(m["id"], m["topics"], m["owned"], 1, m.get("instance"), m.get("rack")) for m in case["members"]
        ]  # fmt: skip
        return Group(topics, members)
    joined = [JoinMember(m["id"], bytes.fromhex(m["metadata"]), m.get("instance")) for m in case["members"]]
    return join(topics, joined, "cooperative" if case["assignor"] == "cooperative-sticky" else "eager").group


def loads(problem: Problem, owner: Int32) -> list[int]:
    """Loads, largest first."""
    counts: list[int] = np.bincount(owner[owner >= 0], minlength=problem.n_members).tolist()
    return sorted(counts, reverse=True)


def kept(problem: Problem, owner: Int32) -> int:
    """Partitions that stay with the member that may keep them."""
    previous = problem.previous_owner
    return int(np.count_nonzero((previous >= 0) & (previous == owner)))
