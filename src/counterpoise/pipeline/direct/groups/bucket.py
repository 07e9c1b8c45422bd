"""The groups of one bucket, or some partitions of them, in arrays: partitions as keys, what was committed and who held them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import Marks, Sums, mark_counts, slots_of, summed
from counterpoise.pipeline.direct.commits.sums_file import sums_of
from counterpoise.pipeline.direct.groups.held import Handed, Steps, coded, departed, handed, recoded, steps_of

__all__ = ["Bucket", "laid_out", "whole_bucket"]


@dataclass(frozen=True)
class Bucket:
    """Keys are partitions of groups; codes of groups, topics, ids and members lead into the lists.

    Attributes
    ----------
    key_group, key_topic, key_partition : int64[K]
    sums : Sums
        Sorted by key, then by time: no row reaches across a sample or a step of its group.
    steps : Steps
    held_key, held_step, held_owner : int64[H]
        One row per step and partition it hands out, sorted by key, time and log offset.
    held_until, nobody_from : int64[H]
        When its owner no longer has it, and from when on a commit is nobody's; NEVER: until it is handed out again.
    anew : set of (int, int)
        Steps with topics that were deleted and made again since the step before that handed them out.
    """

    groups: list[str]
    topics: list[str]
    ids: list[str]
    members: list[str]
    key_group: Int64
    key_topic: Int64
    key_partition: Int64
    sums: Sums
    steps: Steps
    held_key: Int64
    held_step: Int64
    held_owner: Int64
    held_until: Int64
    nobody_from: Int64
    anew: frozenset[tuple[int, int]] = frozenset()


def whole_bucket(told: pa.Table, steps: pa.Table, samples: Int64, width: float | None) -> Bucket:
    """From rows of sums and of `rebalances` (sorted by group, log partition and log offset)."""
    return laid_out(told, steps, handed(steps["assignment"].combine_chunks()), samples, width)


def laid_out(told: pa.Table, steps: pa.Table, out: Handed, samples: Int64, width: float | None) -> Bucket:
    """The same of some partitions: `told` and `out` are of these, `steps` (whose assignments are not looked at) are all.

    Codes of members, and of groups that have steps, are the same for all partitions.
    """
    groups: dict[str, int] = {}
    topics: dict[str, int] = {}
    group_of_step = recoded(*coded(steps["group_id"]), groups)
    about = steps_of(steps, group_of_step)
    group_of_sum, topic_of_sum = recoded(*coded(told["group_id"]), groups), recoded(*coded(told["topic"]), topics)
    held_group, held_topic = group_of_step[out.step], recoded(out.topic, out.topics, topics)
    group = np.concatenate((group_of_sum, held_group))
    topic = np.concatenate((topic_of_sum, held_topic))
    partition = np.concatenate((told["partition"].to_numpy().astype(np.int64), out.partition))
    key, first = _keys(group, topic, partition)
    n = len(told)
    id_code, ids = coded(told["topic_id"].fill_null(""))
    id_code = np.where(np.array([*(not one for one in ids), False], np.bool_)[id_code], -1, id_code)
    rows = sums_of(told, key[:n].astype(np.int32), id_code.astype(np.int32))
    marks = Marks.of(group_of_step, about.time, about.offset)
    cell = slots_of(rows.ts, samples, width) + mark_counts(marks, group_of_sum, rows.ts, rows.offset)
    rows, _ = summed(rows, cell)
    order = np.lexsort((about.offset[out.step], about.time[out.step], key[n:]))
    gone = departed(steps["left"].combine_chunks(), out, about.following)
    untils = (np.where(gone, about.following[out.step], one[out.step]) for one in (about.until, about.nobody_from))
    held_until, nobody_from = (one[order] for one in untils)
    anew = steps["recreated"].combine_chunks()
    again = [topics.get(name, -1) for name in anew.flatten().to_pylist()]
    return Bucket(
        groups=list(groups),
        topics=list(topics),
        ids=ids,
        members=out.members,
        key_group=group[first],
        key_topic=topic[first],
        key_partition=partition[first],
        sums=_in_time(rows),
        steps=about,
        held_key=key[n:][order],
        held_step=out.step[order],
        held_owner=out.member[order],
        held_until=held_until,
        nobody_from=nobody_from,
        anew=frozenset(zip(anew.value_parent_indices().to_pylist(), again, strict=True)),
    )


def _keys(group: Int64, topic: Int64, partition: Int64) -> tuple[Int64, Int64]:
    """The key of each row, and for each key a row that has it."""
    order = np.lexsort((partition, topic, group))
    sorted_ = [column[order] for column in (group, topic, partition)]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in sorted_])
    key = np.empty(len(order), np.int64)
    key[order] = np.cumsum(new) - 1
    return key, order[new]


def _in_time(rows: Sums) -> Sums:
    """By key and cell they rise in time too; of equal times the higher log offset comes last."""
    same = (rows.key[1:] == rows.key[:-1]) & (rows.max_ts[1:] == rows.max_ts[:-1])
    if (same & (rows.offset[1:] < rows.offset[:-1])).any():
        return rows.take(np.lexsort((rows.offset, rows.max_ts, rows.key)))
    return rows
