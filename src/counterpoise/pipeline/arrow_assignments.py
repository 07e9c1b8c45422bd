"""Owners as integers to the nested Arrow column `assignment`, for many plans at once and without a loop over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline import schemas
from counterpoise.pipeline.arrow_types import arrow_type

__all__ = ["ASSIGNMENT", "PlanRow", "assignments"]

ASSIGNMENT = arrow_type(schemas.ASSIGNMENT)
_TOPIC_PARTITIONS = ASSIGNMENT.value_type.field("assigned").type


@dataclass(frozen=True)
class PlanRow:
    """One plan: names in code order, `topic_start` int64[T+1], `owner` int32[P] (negative: nobody)."""

    member_ids: Sequence[str]
    client_ids: Sequence[str | None]
    topic_names: Sequence[str]
    topic_start: Int64
    owner: Int32


def assignments(plans: Sequence[PlanRow]) -> pa.Array:
    """One list per plan: every member in code order with its topics in code order, partitions ascending.

    O(P log P) per plan, in NumPy; the only Python loop is over plans.
    """
    partitions: list[Int64] = []
    run_lengths: list[Int64] = []
    run_topics: list[np.ndarray] = []
    runs_of_member: list[Int64] = []
    for plan in plans:
        index, length, topic, runs = _runs(plan)
        partitions.append(index)
        run_lengths.append(length)
        run_topics.append(np.asarray(plan.topic_names, object)[topic])
        runs_of_member.append(runs)
    lists = _lists(pa.array(_joined(partitions).astype(np.int32)), run_lengths)
    topics = pa.array(np.concatenate(run_topics) if run_topics else [], pa.string())
    entries = pa.StructArray.from_arrays([topics, lists], fields=list(_TOPIC_PARTITIONS.value_type))
    assigned = _lists(entries, runs_of_member)
    members = pa.array([name for plan in plans for name in plan.member_ids], pa.string())
    clients = pa.array([name for plan in plans for name in plan.client_ids], pa.string())
    rows = pa.StructArray.from_arrays([members, clients, assigned], fields=list(ASSIGNMENT.value_type))
    return _lists(rows, [np.array([len(plan.member_ids) for plan in plans], np.int64)])


def _runs(plan: PlanRow) -> tuple[Int64, Int64, Int64, Int64]:
    """(partition indices by owner and topic, length of each run, topic of each run, runs per member)."""
    held = np.flatnonzero(plan.owner >= 0)
    order = held[np.argsort(plan.owner[held], kind="stable")]
    topic = np.searchsorted(plan.topic_start, order, side="right") - 1
    owner = plan.owner[order]
    first = np.flatnonzero(np.concatenate(([True], (np.diff(owner) != 0) | (np.diff(topic) != 0)))) if len(order) else order
    length = np.diff(np.append(first, len(order)))
    runs = np.bincount(owner[first], minlength=len(plan.member_ids)).astype(np.int64)
    return order - plan.topic_start[topic], length, topic[first], runs


def _lists(values: pa.Array, lengths: Sequence[Int64]) -> pa.Array:
    ends = np.cumsum(_joined(lengths))
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _joined(arrays: Sequence[Int64]) -> Int64:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
