"""The saved state of a bucket's partitions, without unused names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.pipeline.fold.health_state import HEIGHT, OWNER, Busy, MemberHealth
from counterpoise.pipeline.fold.ownership import Names, OwnerSpans, Steps
from counterpoise.pipeline.fold.partitions import Keys, PartitionStates
from counterpoise.pipeline.scan.aggregation import Aggregates

__all__ = ["restored_partitions", "state_of_partitions"]

_TABLES = {"keys": Keys, "steps": Steps, "spans": OwnerSpans, "commits": Aggregates, "member_health": MemberHealth, "busy": Busy}
_OWNERS = ("owner_before", "lag_owner", "window_owner")
_OTHERS = ("step_group", "step_time", "n_steps", "third_step", "owned_since", "since")


def state_of_partitions(parts: PartitionStates) -> dict[str, Any]:
    """All of the state, for `fold_state.encode_state`."""
    names, tables = _without_unused_names(parts)
    clients = {member: parts.names.clients[member] for member in names[2] if member in parts.names.clients}
    return {**tables, **{name: getattr(parts, name) for name in _OTHERS}, "names": names, "clients": clients}


def restored_partitions(state: Mapping[str, Any]) -> PartitionStates:
    """The inverse of `state_of_partitions`."""
    parts = PartitionStates()
    groups, topics, members, ids = ({name: code for code, name in enumerate(listed)} for listed in state["names"])
    parts.names = Names(groups, topics, members, ids, state["clients"])
    for name, kind in _TABLES.items():
        setattr(parts, name, kind(**state[name]))
    for name in _OTHERS:
        setattr(parts, name, state[name])
    parts.health = state["health"].reshape(HEIGHT, -1)
    return parts


def _without_unused_names(parts: PartitionStates) -> tuple[list[list[str]], dict[str, Any]]:
    """Names by code, and the tables with these codes. New member ids and topic ids keep coming, so unused ones are dropped."""
    keys, steps, spans, commits = parts.keys, parts.steps, parts.spans, parts.commits
    left = np.fromiter(chain.from_iterable(steps.left), np.int64)
    member_health, matrix = parts.member_health, parts.health.copy()
    owner = matrix[OWNER].astype(np.int64)
    owners = (getattr(keys, name) for name in _OWNERS)
    members, of_member = _used(parts.members, (spans.owner, left, owner, member_health.member, parts.busy.member, *owners))
    matrix[OWNER] = of_member[owner]
    ids, of_id = _used(list(parts.names.ids), (commits.topic_id,))
    return [parts.groups, parts.topics, members, ids], {
        "keys": replace(keys, **{name: of_member[getattr(keys, name)] for name in _OWNERS}),
        "steps": replace(steps, left=[of_member[list(one)].tolist() for one in steps.left]),
        "spans": replace(spans, owner=of_member[spans.owner]),
        "member_health": replace(member_health, member=of_member[member_health.member]),
        "busy": replace(parts.busy, member=of_member[parts.busy.member]),
        "health": matrix,
        "commits": replace(commits, topic_id=of_id[commits.topic_id].astype(np.int32)),
    }


def _used(names: list[str], codes: Sequence[npt.NDArray[Any]]) -> tuple[list[str], Int64]:
    """The names that occur, and the new code of each old one; -1 stays -1."""
    used = np.unique(np.concatenate(codes)).astype(np.int64)
    used = used[used >= 0]
    new = np.full(len(names) + 1, -1)
    new[used] = np.arange(len(used))
    return [names[code] for code in used.tolist()], new
