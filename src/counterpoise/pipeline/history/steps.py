"""The steps of one group's life, from its classic and modern records in log order: rows of the table `rebalances`.

A step is finished when no later record can change it; `StepsFold` holds one generation of one group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.pipeline.history.classic_fold import ClassicFold
from counterpoise.pipeline.history.modern_fold import GROUP_RECORDS, NAMES, ModernFold
from counterpoise.pipeline.history.owners import Left, left_by
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.generations import portions
from counterpoise.pipeline.schemas import REBALANCES

__all__ = ["StepsFold", "rebalances", "steps_of_group"]

_PLACE = ("log_partition", "log_offset", "log_ts")
_CLASSIC = ("protocol_type", "protocol", "generation", "leader", "state_ts", "members", "leader_library")
_STEPS = arrow_schema(REBALANCES)


def rebalances(generations: DataFrame, modern: DataFrame, names: DataFrame | None = None) -> DataFrame:
    """Table `rebalances` from `group_generations` and `modern_group_records`.

    Parameters
    ----------
    generations, modern : DataFrame
        The tables of `decode`.
    names : DataFrame, optional
        ``topic_id, topic``; ids that it does not hold stay ids.

    Notes
    -----
    One shuffle of the group records (never of commits), one sort.
    """
    ordered = (
        _group_records(generations, modern, names)
        .repartition("cluster", "group_id")
        .sortWithinPartitions("cluster", "group_id", "log_partition", "log_offset")
    )
    return ordered.mapInArrow(_fold_batches, REBALANCES)


def steps_of_group(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The steps of one group's life, from its classic and modern records in log order."""
    fold = StepsFold()
    for row in rows:
        yield from fold.feed(row)
    yield from fold.unfinished()


class StepsFold:
    """One group's classic and modern records, in log order, to the steps of its life.

    A group that is deleted and, in the same batch of the log, continues under the other protocol was migrated.

    Parameters
    ----------
    state : mapping, optional
        `state` of an earlier fold of this group (see `fold_state`), to continue where it ended.
    begun : callable, optional
        Is called with each step of a modern group as soon as its record is fed: all is known of it but when it settles, and
        whether a deletion is a migration.
    folded : callable, optional
        Is called with each classic record and the step it makes.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        begun: Callable[[Mapping[str, Any]], None] | None = None,
        folded: Callable[[Mapping[str, Any], Mapping[str, Any]], None] | None = None,
    ) -> None:
        saved = state or {}
        self._classic = ClassicFold(saved.get("classic"))
        self._modern = ModernFold(saved.get("modern"))
        self._held: dict[str, Any] | None = saved.get("held")
        self._left: Left = saved.get("left") or left_by([])
        self._begun, self._folded = begun, folded

    @property
    def state(self) -> dict[str, Any]:
        """What the next record will be held against."""
        return {"classic": self._classic.state, "modern": self._modern.state, "held": self._held, "left": self._left}

    @property
    def unnamed(self) -> list[str]:
        """Topic ids that stand in steps instead of a name."""
        return self._modern.unnamed

    def feed(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The steps that this record finishes; they will not change any more."""
        is_modern = row["record_type"] is not None
        if row["record_type"] == NAMES:
            self._modern.feed(row)
            return
        following: ClassicFold | ModernFold = self._modern if is_modern else self._classic
        if self._held is not None:
            if _crosses(self._held, row, is_modern):
                self._held |= _MIGRATED[is_modern]
                following.inherit(self._left, self._held["generation"], self._held["incarnation"])
            elif is_modern != (self._held["group_type"] != "classic"):
                following.end(self._held["incarnation"])
            yield self._held
            self._held = None
        if row["deleted"] and row["record_type"] in _OF_GROUP:
            self._left = following.left
        steps = self._fed(row) if is_modern else [self._classic_step(row)]
        if steps and steps[-1]["kind"] == "deleted":
            self._held = steps.pop()
        yield from steps

    def _classic_step(self, row: Mapping[str, Any]) -> dict[str, Any]:
        step = {**{name: row[name] for name in _PLACE}, **self._classic.feed(row)}
        if self._folded is not None:
            self._folded(row, step)
        return step

    def _fed(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        before = self._modern.unfinished
        steps, now = self._modern.feed(row), self._modern.unfinished
        if self._begun is not None:
            for step in (*steps, now):
                if step is not None and step is not before:
                    self._begun(step)
        return steps

    def unfinished(self) -> Iterator[dict[str, Any]]:
        """The steps that further records may still change, as they are now; the fold can continue."""
        for step in (self._modern.unfinished, self._held):
            if step is not None:
                yield dict(step)


_OF_GROUP = (None, *GROUP_RECORDS)
"""Types of records whose deletion ends the group; None: classic."""
_MIGRATED: dict[bool, dict[str, Any]] = {
    to_modern: {"kind": "migrated", "cause": "protocol", "left": [], "detail": f"the group was {words}"}
    for to_modern, words in ((True, "upgraded to the consumer protocol"), (False, "downgraded to the classic protocol"))
}


def _crosses(step: Mapping[str, Any], following: Mapping[str, Any], to_modern: bool) -> bool:
    other = to_modern != (step["group_type"] != "classic")
    return other and not following["deleted"] and following["log_ts"] == step["log_ts"]


def _group_records(generations: DataFrame, modern: DataFrame, names: DataFrame | None = None) -> DataFrame:
    """Both kinds of records as one table, and for each modern group the names of its topics before them."""
    parts = [_classic_side(generations), _modern_side(modern)]
    if names is not None:
        parts.append(_name_rows(modern, names))
    history = parts[0]
    for part in parts[1:]:
        history = history.unionByName(part, allowMissingColumns=True)
    return history


def _by_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, str], Iterator[Mapping[str, Any]]]]:
    """((cluster, group id), its rows) for batches that are sorted by the two.

    A run may be left half read; it must not be read after the next one was asked for.
    """
    rows = (row for batch in batches for portion in portions(batch) for row in portion.to_pylist())
    yield from groupby(rows, key=lambda row: (row["cluster"], row["group_id"]))


def _fold_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records sorted by cluster, group and log offset -> rows of `REBALANCES`."""
    steps: list[dict[str, Any]] = []
    weight = 0
    for group, rows in _by_group(batches):
        for step in steps_of_group(rows):
            steps.append({"cluster": group[0], "group_id": group[1], **step})
            weight += _step_weight(step)
            if weight >= 2000:
                yield pa.RecordBatch.from_pylist(steps, schema=_STEPS)
                steps, weight = [], 0
    if steps:
        yield pa.RecordBatch.from_pylist(steps, schema=_STEPS)


def _step_weight(step: Mapping[str, Any]) -> int:
    """The size of a step; a batch of rows has a size of 2,000."""
    topics = sum(len(one["topics"]) for one in step.get("subscriptions") or ())
    return 1 + ((step.get("n_partitions") or 0) + 4 * topics) // 64


def _classic_side(generations: DataFrame) -> DataFrame:
    return generations.select("cluster", "group_id", *_PLACE, "deleted", *_CLASSIC, fn.lit(None).cast("int").alias("record_type"))


def _modern_side(modern: DataFrame) -> DataFrame:
    return modern.select("cluster", "group_id", *_PLACE, "deleted", "record_type", "member_id", "payload")


def _name_rows(modern: DataFrame, names: DataFrame) -> DataFrame:
    used = modern.select("cluster", "group_id", "log_partition", fn.explode(_ids("payload")).alias("topic_id")).distinct()
    known = used.join(fn.broadcast(names), "topic_id")
    entries = fn.map_from_entries(fn.collect_set(fn.struct("topic_id", "topic")))
    rows = known.groupBy("cluster", "group_id", "log_partition").agg(fn.to_json(entries).alias("payload"))
    return rows.select(
        "cluster",
        "group_id",
        "log_partition",
        fn.lit(-1).cast("bigint").alias("log_offset"),
        fn.lit(None).cast("timestamp").alias("log_ts"),
        fn.lit(False).alias("deleted"),
        fn.lit(NAMES).alias("record_type"),
        fn.lit(None).cast("string").alias("member_id"),
        "payload",
    )


def _ids(payload: str) -> Any:
    return fn.expr(f'regexp_extract_all({payload}, \'"topic_id":"([^"]+)"\', 1)')
