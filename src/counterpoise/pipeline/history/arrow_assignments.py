"""The nested Arrow column `assignment` from owners as integers, for many plans at once and without a loop over partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.arrays import run_starts
from counterpoise.pipeline.history.inputs import Inputs
from counterpoise.pipeline.schemas import ASSIGNMENT

__all__ = ["Plan", "assignments"]

Plan = tuple[Inputs, Int32]
"""The input of a generation, and the owner of each partition, int32[P]; negative: none."""
_TOPIC_PARTITIONS = ASSIGNMENT.value_type.field("assigned").type


def assignments(plans: Sequence[Plan]) -> pa.Array:
    """One list per plan: every member in code order with its topics in code order, partitions ascending.

    O(P log P) in NumPy for all plans together; Python loops are over plans, members and topics only.
    """
    index, lengths, topic, runs = _runs(plans)
    lists = _lists(pa.array(index.astype(np.int32)), lengths)
    topics = _texts([inputs.topic_names for inputs, _ in plans]).take(pa.array(topic))
    entries = pa.StructArray.from_arrays([topics, lists], fields=list(_TOPIC_PARTITIONS.value_type))
    assigned = _lists(entries, runs)
    members = _texts([inputs.member_ids for inputs, _ in plans])
    clients = _texts([inputs.client_ids for inputs, _ in plans])
    rows = pa.StructArray.from_arrays([members, clients, assigned], fields=list(ASSIGNMENT.value_type))
    return _lists(rows, np.array([inputs.problem.n_members for inputs, _ in plans], np.int64))


def _runs(plans: Sequence[Plan]) -> tuple[Int64, Int64, Int64, Int64]:
    """(partition indices by owner and topic, length of each run, topic of each run, runs per member).

    Members and topics are numbered through over all plans.
    """
    if not plans:
        return tuple(np.zeros(0, np.int64) for _ in range(4))  # type: ignore[return-value]
    owners = np.concatenate([owner for _, owner in plans]).astype(np.int64)
    starts = [inputs.problem.topic_start for inputs, _ in plans]
    size = np.concatenate([start[1:] - start[:-1] for start in starts])
    members = np.array([inputs.problem.n_members for inputs, _ in plans])
    topic = np.repeat(np.arange(len(size)), size)
    index = ranks_in_runs(size)
    first_member = np.repeat(np.cumsum(members) - members, [int(start[-1]) for start in starts])
    held = np.flatnonzero(owners >= 0)
    order = held[np.argsort((owners + first_member)[held], kind="stable")]
    owner, topic = (owners + first_member)[order], topic[order]
    first = run_starts(owner, topic)
    length = np.diff(np.append(first, len(order)))
    runs = np.bincount(owner[first], minlength=int(members.sum())).astype(np.int64)
    return index[order], length, topic[first], runs


def _texts(lists: Sequence[Sequence[str | None]]) -> pa.Array:
    """The texts of all lists, end to end. Plans of one generation share their lists, so each list is converted once."""
    begins: dict[int, int] = {}
    distinct: list[str | None] = []
    for one in lists:
        if id(one) not in begins:
            begins[id(one)] = len(distinct)
            distinct += one
    length = np.array([len(one) for one in lists], np.int64)
    shift = np.array([begins[id(one)] for one in lists], np.int64) - (np.cumsum(length) - length)
    return pa.array(distinct, pa.string()).take(pa.array(np.arange(int(length.sum())) + np.repeat(shift, length)))


def _lists(values: pa.Array, lengths: Int64) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
