"""The steps of a bucket as they are folded: with what they hand out or, where that is much, with it dealt over parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.groups.dealt import AT_ONCE, Dealt, part_of
from counterpoise.pipeline.direct.groups.held import STEP_COLUMNS, Handed, coded, handed, recoded
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import REBALANCES

__all__ = ["STEPS", "DealtHeld", "StepsTaken"]

STEPS = pa.schema([arrow_schema(StructType(REBALANCES.fields[1:])).field(name) for name in STEP_COLUMNS])
_PLAIN = pa.schema([STEPS.field(name) for name in STEP_COLUMNS if name != "assignment"])
_HELD = pa.schema([(name, pa.int32()) for name in ("step", "topic", "partition", "member")])


class DealtHeld:
    """What steps hand out, dealt over parts.

    Attributes
    ----------
    rows : Dealt
    of_step : list of int64
        How many partitions each step hands out, in several arrays.
    """

    def __init__(self, folder: str) -> None:
        self.rows = Dealt(folder, "held", _HELD)
        self.of_step: list[Int64] = []
        self._steps = 0
        self._place: Int64 | None = None
        self._topics: dict[str, int] = {}
        self._members: dict[str, int] = {}

    def add(self, steps: pa.Table) -> None:
        """Steps that follow those before."""
        out = handed(steps["assignment"].combine_chunks())
        group, groups = coded(steps["group_id"])
        part = part_of(group[out.step], groups, out.topic, out.topics, out.partition)
        topic, member = recoded(out.topic, out.topics, self._topics), recoded(out.member, out.members, self._members)
        columns = (out.step + self._steps, topic, out.partition, member)
        self.rows.add(pa.table([pa.array(column.astype(np.int32)) for column in columns], schema=_HELD), part)
        self.of_step.append(np.bincount(out.step, minlength=len(steps)))
        self._steps += len(steps)

    def sort(self, order: Int64) -> None:
        """There are no more steps; from now on they stand in this order."""
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self.of_step = [np.concatenate(self.of_step)[order]]

    def read(self, parts: range) -> Handed:
        """What the partitions of some parts were handed out by."""
        rows = self.rows.read(parts)
        step, topic, partition, member = (rows[name].to_numpy().astype(np.int64) for name in _HELD.names)
        step = step if self._place is None else self._place[step]
        return Handed(step, topic, partition, member, list(self._topics), list(self._members))


class StepsTaken:
    """Takes rows of `rebalances`.

    Parameters
    ----------
    folder : str
        For what is dealt.
    in_order : bool
        Whether they come sorted by group, log partition and log offset; otherwise they are in the end.
    """

    def __init__(self, folder: str, *, in_order: bool = True) -> None:
        self._folder, self._in_order = folder, in_order
        self._parts: list[pa.RecordBatch] = []
        self._plain: list[pa.RecordBatch] = []
        self._held = 0
        self._dealt: DealtHeld | None = None

    def add(self, batch: pa.RecordBatch | None) -> None:
        """Some rows, if there are."""
        if batch is None:
            return
        self._parts.append(batch.select(STEPS.names))
        self._held += len(batch.column("assignment").flatten().field("assigned").flatten().field("partitions").flatten())
        if self._held > AT_ONCE:
            self._deal()

    def _deal(self) -> None:
        if self._parts:
            self._dealt = self._dealt or DealtHeld(self._folder)
            self._dealt.add(pa.Table.from_batches(self._parts, STEPS))
            self._plain += [batch.select(_PLAIN.names) for batch in self._parts]
            self._parts, self._held = [], 0

    @property
    def taken(self) -> tuple[pa.Table, DealtHeld | None]:
        """All steps in order, and what they hand out if that is dealt: they are without it then."""
        if self._dealt is None:
            return self._sorted(pa.Table.from_batches(self._parts, STEPS).combine_chunks()), None
        self._deal()
        return self._sorted(pa.Table.from_batches(self._plain, _PLAIN).combine_chunks()), self._dealt

    def _sorted(self, steps: pa.Table) -> pa.Table:
        if self._in_order:
            return steps
        order = pc.sort_indices(steps, [(name, "ascending") for name in ("group_id", "log_partition", "log_offset")])
        if self._dealt is not None:
            self._dealt.sort(order.to_numpy().astype(np.int64))
        return steps.take(order).combine_chunks()
