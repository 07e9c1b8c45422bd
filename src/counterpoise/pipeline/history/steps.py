"""The steps of one group, from its classic and modern records in log order: rows of the table `rebalances`.

A step is finished when no later record can change it. `StepsFold` has one generation of one group in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.pipeline.history.classic_fold import ClassicFold
from counterpoise.pipeline.history.modern_fold import GROUP_RECORDS, NAMES, ROLES, ModernFold
from counterpoise.pipeline.records.group_records import portions
from counterpoise.pipeline.schemas import REBALANCES

__all__ = ["StepsFold", "rebalances", "steps_of_group"]

_PLACE = ("log_partition", "log_offset", "log_ts")
_CLASSIC = ("protocol_type", "protocol", "generation", "leader", "state_ts", "members", "leader_library")


def rebalances(generations: DataFrame, modern: DataFrame, names: Mapping[str, str] | None = None) -> DataFrame:
    """Table `rebalances` from the tables `group_generations` and `modern_group_records` of `decode`.

    `names`: topic id -> topic; steps of KIP-848 groups have the id of a topic without a name. One shuffle and one sort of the
    group records, none of commits.
    """
    common = ("cluster", "group_id", *_PLACE, "deleted")
    classic = generations.select(*common, *_CLASSIC, fn.lit(None).cast("int").alias("record_type"))
    others = modern.select(*common, "record_type", "member_id", "payload")
    ordered = (
        classic.unionByName(others, allowMissingColumns=True)
        .repartition("cluster", "group_id")
        .sortWithinPartitions("cluster", "group_id", "log_partition", "log_offset")
    )
    return ordered.mapInArrow(partial(_fold_batches, names or {}), from_arrow_schema(REBALANCES))


def steps_of_group(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of one group, from its classic and modern records in log order."""
    fold = StepsFold()
    for row in rows:
        yield from fold.feed(row)
    yield from fold.unfinished()


class StepsFold:
    """The fold of one group's classic and modern records, in log order, to its steps; restored from `state` if given.

    "Modern": consumer (KIP-848), share and streams groups. "Classic": groups with a leader. A group that is deleted and, in the
    same batch of the log, continues under the other protocol was migrated. A group has one protocol at a time, so a classic
    record ends the wait for a modern step to settle: at most one step is not finished, the last one.

    `on_modern_step(step)` is called before `settle_ms` and a migration are known, `on_classic_step(record, step)` at each record.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        on_modern_step: Callable[[Mapping[str, Any]], None] | None = None,
        on_classic_step: Callable[[Mapping[str, Any], Mapping[str, Any]], None] | None = None,
    ) -> None:
        saved = state or {}
        self._classic = ClassicFold(saved.get("classic"))
        self._modern = ModernFold(saved.get("modern"))
        self._deletion: dict[str, Any] | None = saved.get("deletion")
        self._handover: Mapping[str, Any] = saved.get("handover") or self._classic.handover
        self._on_modern_step, self._on_classic_step = on_modern_step, on_classic_step

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.encode_state`."""
        folds = {"classic": self._classic.state, "modern": self._modern.state}
        return {**folds, "deletion": self._deletion, "handover": self._handover}

    @property
    def unnamed(self) -> set[str]:
        """Topic ids without a known name: steps have the id instead."""
        return self._modern.unnamed

    def feed(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The steps that a record finishes, in log order."""
        if row["record_type"] == NAMES:
            return self._modern.feed(row)
        is_modern = row["record_type"] is not None
        if is_modern and row["record_type"] not in ROLES:
            return []  # No step, as of the topology of a Streams group. Its tombstone comes after the group's.
        finished = [] if is_modern else self._modern.close()
        following: ClassicFold | ModernFold = self._modern if is_modern else self._classic
        if self._deletion is not None:
            if _is_migrated(self._deletion, row, is_modern):
                verb, protocol = ("upgraded", ROLES[row["record_type"]][0]) if is_modern else ("downgraded", "classic")
                words = f"the group was {verb} to the {protocol} protocol"
                self._deletion |= {"kind": "migrated", "cause": "protocol", "left": [], "detail": words}
                generation = self._deletion["generation"] if self._deletion["complete"] else None
                following.inherit(self._handover, generation, self._deletion["incarnation"])
            elif is_modern != (self._deletion["group_type"] != "classic"):
                following.end(self._deletion["incarnation"])
            finished.append(self._deletion)
            self._deletion = None
        if row["deleted"] and row["record_type"] in _OF_GROUP:
            self._handover = following.handover
        steps = self._modern_steps(row) if is_modern else [{**{name: row[name] for name in _PLACE}, **self._classic.feed(row)}]
        if not is_modern and self._on_classic_step is not None:
            self._on_classic_step(row, steps[0])
        if steps and steps[-1]["kind"] == "deleted":
            self._deletion = steps.pop()
        return [*finished, *steps]

    def _modern_steps(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        before = self._modern.unfinished
        steps, now = self._modern.feed(row), self._modern.unfinished
        if self._on_modern_step is not None:
            for step in (*steps, now):
                if step is not None and step is not before:
                    self._on_modern_step(step)
        return steps

    def unfinished(self) -> list[dict[str, Any]]:
        """A copy of the step that is not returned yet, if there is one; the fold can continue."""
        return [dict(step) for step in (self._modern.unfinished, self._deletion) if step is not None]


_OF_GROUP = (None, *GROUP_RECORDS)
"""Types of records whose tombstone ends the group; None: classic."""


def _is_migrated(step: Mapping[str, Any], following: Mapping[str, Any], to_modern: bool) -> bool:
    other = to_modern != (step["group_type"] != "classic")
    return other and not following["deleted"] and following["log_ts"] == step["log_ts"]


def _fold_batches(names: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records sorted by cluster, group and log offset -> rows of `REBALANCES`."""
    rows = (row for batch in batches for portion in portions(batch) for row in portion.to_pylist())
    steps: list[dict[str, Any]] = []
    weight = 0
    for (cluster, group), mine in groupby(rows, key=lambda row: (row["cluster"], row["group_id"])):
        for step in steps_of_group(chain([{"record_type": NAMES, "value": names}], mine)):
            steps.append({"cluster": cluster, "group_id": group, **step})
            topics = sum(len(one["topics"]) for one in step.get("subscriptions") or ())
            weight += 1 + ((step.get("n_partitions") or 0) + 4 * topics) // 64
            if weight >= 2000:  # fewer rows if they are large
                yield pa.RecordBatch.from_pylist(steps, schema=REBALANCES)
                steps, weight = [], 0
    if steps:
        yield pa.RecordBatch.from_pylist(steps, schema=REBALANCES)
