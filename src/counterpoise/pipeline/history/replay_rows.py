"""Replays as rows of the tables `replays` and `metrics`: nested assignments, figures, and skewed topics by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.metrics import Metrics
from counterpoise.metrics.runs import within_topics
from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.arrays import run_starts
from counterpoise.pipeline.history.inputs import Inputs
from counterpoise.pipeline.history.replay_fold import OBSERVED, Replay
from counterpoise.pipeline.schemas import ASSIGNMENT, COLUMNS

__all__ = ["Plan", "assignments", "replay_batch", "skewed_topics"]

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


_OF_ROW = ("group_id", "generation", "log_partition", "log_offset", "log_ts", "leader_library", "protocol")
_FIGURES = tuple(field.name for field in fields(Metrics))


def replay_batch(replays: Sequence[Replay]) -> pa.RecordBatch:
    """Replays, at least one, as rows with the columns of `metrics` and `replays`, and `protocol`.

    Plans that they share are converted once.
    """
    rows = [replay.row for replay in replays]
    figures = [replay.metrics for replay in replays]
    skewed = [skewed_topics(replay) for replay in replays]
    columns: dict[str, list[Any]] = {
        **{name: [row[name] for row in rows] for name in _OF_ROW},
        **{name: [getattr(one, name) for one in figures] for name in _FIGURES},
        "incarnation": [row["step"]["incarnation"] for row in rows],
        "strategy": [replay.name for replay in replays],
        "mode": [replay.mode for replay in replays],
        "protocol_kind": [replay.inputs.kind for replay in replays],
        "declared": [replay.declared for replay in replays],
        "n_members": [replay.inputs.problem.n_members for replay in replays],
        "n_partitions": [replay.inputs.problem.n_partitions for replay in replays],
        "matches_observed": [replay.matches for replay in replays],
        "lag_unknown": [replay.inputs.lag_unknown for replay in replays],
        "n_skewed_topics": [number for number, _ in skewed],
        "skewed_topics": [worst for _, worst in skewed],
    }
    of = {(id(one.inputs), id(one.owner)): (one.inputs, one.owner) for one in replays}  # `replays` keeps the objects alive
    number = {key: at for at, key in enumerate(of)}
    place = pa.array([number[id(one.inputs), id(one.owner)] for one in replays], pa.int32())
    plain = [pa.array(columns[field.name], field.type) for field in COLUMNS["metrics"]]
    names = [*COLUMNS["metrics"].names, "protocol", "assignment"]
    protocols = pa.array(columns["protocol"], pa.string())
    return pa.RecordBatch.from_arrays([*plain, protocols, assignments(list(of.values())).take(place)], names=names)


_LEAST = 2
"""A topic is skewed if two subscribers differ by at least so many partitions: a difference of one cannot always be avoided."""
_NAMED = 3
"""Maximal number of topics that are named."""


def skewed_topics(replay: Replay) -> tuple[int | None, list[dict[str, Any]] | None]:
    """The number of skewed topics of the observed plan, and those with the largest difference, by name.

    For each ``topic, most, fewest, most_client, fewest_client``. None for other plans, which have `max_topic_spread` only.
    """
    if replay.name != OBSERVED:
        return None, None
    if replay.metrics.max_topic_spread < _LEAST:  # nearly all plans
        return 0, []
    spread = within_topics(replay.inputs.problem, replay.owner)
    skewed = np.flatnonzero(spread >= _LEAST)
    worst = skewed[np.argsort(-spread[skewed], kind="stable")][:_NAMED]  # topics are in the order of their names
    return len(skewed), [_most_and_fewest(replay.inputs, replay.owner, topic) for topic in worst.tolist()]


def _most_and_fewest(inputs: Inputs, owner: Int32, topic: int) -> dict[str, Any]:
    """The members with most and with fewest partitions of a topic; ties by member id."""
    problem = inputs.problem
    mine = owner[problem.topic_start[topic] : problem.topic_start[topic + 1]]
    members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]]
    held = np.bincount(mine[mine >= 0], minlength=problem.n_members)[members]
    most, fewest = int(held.argmax()), int(held.argmin())
    return {
        "topic": inputs.topic_names[topic],
        "most": int(held[most]),
        "fewest": int(held[fewest]),
        "most_client": inputs.client_ids[members[most]],
        "fewest_client": inputs.client_ids[members[fewest]],
    }
