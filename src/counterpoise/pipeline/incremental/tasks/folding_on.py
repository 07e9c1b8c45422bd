"""The groups of a bucket, gone on with: new records decoded and folded to steps, from where the last audit left each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from counterpoise.pipeline.direct.files.day_rows import DayRows
from counterpoise.pipeline.direct.groups.folding import Folded, Folding, epochs_of, step_size
from counterpoise.pipeline.direct.groups.steps_taken import STEPS, StepsTaken
from counterpoise.pipeline.incremental.folded import STEP_STATES
from counterpoise.pipeline.incremental.kept.kept_file import (
    GatheredFile,
    Kept,
    KeptFile,
    StatesFile,
    but_of,
    kept_parts,
    kept_rows,
    kept_states,
)
from counterpoise.pipeline.incremental.tasks.group_state import GroupState, Kind, counted_kinds, first_unsettled
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import REBALANCES

__all__ = ["Before", "FoldingOn"]

_STEPS = arrow_schema(StructType(REBALANCES.fields[1:]))
_GROUPS = pa.schema([("group_id", pa.string()), ("rest", pa.string()), ("settled", pa.int64())])
_STATES = arrow_schema(STEP_STATES)
_NOTHING: Mapping[str, Any] = dict.fromkeys(_STEPS.names)
Row = dict[str, Any]


@dataclass
class Before:
    """What the last audit left of a bucket's groups.

    Attributes
    ----------
    states : dict
        Group -> state of its fold, all else that is known of it (see `GroupState.texts`), topic ids that nobody had named.
    settled : dict
        Group -> up to when its rows of `partition_lag` are final, where that is not the same as for all others.
    gone : frozenset of str
        Groups that are left out.
    """

    kept: Kept
    bucket: int
    states: dict[str, tuple[str, str, Sequence[str]]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()

    @classmethod
    def read(cls, kept: Kept, bucket: int) -> Before:
        """From the files."""
        rests = {row["group_id"]: row for row in kept_rows(kept, "groups", _GROUPS, bucket).to_pylist()}
        states = {
            row["group_id"]: (row["state"], rests[row["group_id"]]["rest"], row["unnamed"])
            for row in kept_states(kept, "states", _STATES, bucket).to_pylist()
        }
        settled = {group: row["settled"] for group, row in rests.items() if row["settled"] is not None}
        return cls(kept, bucket, states, settled)

    def without(self, groups: Iterable[str]) -> Before:
        """The same but for some groups."""
        gone = self.gone.union(groups)
        states = {group: state for group, state in self.states.items() if group not in gone}
        return replace(self, states=states, gone=gone)

    def steps(self) -> Iterator[pa.Table]:
        """`held.STEP_COLUMNS` of those that are finished, some at a time."""
        for rows in kept_parts(self.kept, "steps", STEPS, self.bucket):
            yield but_of(rows, self.gone)


class FoldingOn(Folding):
    """As `Folding`, with the states of groups; steps that may still change go to files of their own.

    Parameters
    ----------
    folder, base : str
        For files of this audit alone, and for what is left for the next one.
    cluster : str
    names : mapping
        Topic id -> name.
    until : int, optional
        Up to when rows of `partition_lag` are final, in microseconds.
    """

    def __init__(self, folder: str, base: str, cluster: str, names: Mapping[str, str], until: int | None) -> None:
        super().__init__(folder, names)
        self._cluster, self._until = cluster, until
        self._unfinished = DayRows(folder, "open-steps", _STEPS)
        self._groups, self._slim = KeptFile(base, "kept", _GROUPS), GatheredFile(base, "kept", STEPS)
        self._states = StatesFile(base, "steps", _STATES)
        self._of_all: Counter[Kind] = Counter()
        self._last_of_all: int | None = None
        self._folded = 0

    def __enter__(self) -> FoldingOn:
        super().__enter__()
        for one in (self._unfinished, self._groups, self._slim, self._states):
            self._open.enter_context(one)
        return self

    @property
    def told(self) -> dict[str, Any]:
        """As `Folding.told`, of all groups; files of unfinished steps, what is kept, and how many records were folded."""
        found = super().told
        found |= {"kinds": counted_kinds(self._of_all), "last_step": self._last_of_all, "folded": self._folded}
        found["open"] = {"rebalances": self._unfinished.told}
        found["kept"] = {"groups": self._groups.told, "steps": self._slim.told, "states": self._states.told}
        return found

    def go_on(
        self,
        bucket: int,
        records: Iterable[pa.RecordBatch],
        before: Before,
        again: Mapping[str, Sequence[Row]],
        hand: Callable[[Row], None],
    ) -> tuple[Folded, dict[str, int]]:
        """The new records of a bucket, as `rest.in_log_order` gives them, after what is known of its groups.

        Parameters
        ----------
        bucket : int
        records : iterable of RecordBatch
        before : Before
            Without the groups that are made again.
        again : mapping
            Group that is made again -> its rows that are stored, in the order of the log.
        hand : callable
            Is called with every generation of `records`, and with those of KIP-848 groups that are made again.

        Returns
        -------
        Folded
            Its `generations` are those of `records` and `again`.
        dict
            Group -> up to when its rows of `partition_lag` are final, where that is before all others'.
        """
        folded, settled = Folded(STEPS.empty_table()), dict[str, int]()
        known = {
            group: GroupState(group, folded.kicks, *texts[:2], epochs_of(group, folded, hand))
            for group, texts in before.states.items()
        }
        taken = StepsTaken(self._folder, in_order=False)
        for steps in before.steps():
            self._finished(bucket, steps.to_batches(), taken)
        rows_: list[dict[str, Any]] = []
        decoded = groupby(self._decoded(records, folded, hand), key=lambda row: str(row["group_id"]))
        for group, rows in _each(decoded, {*known, *again}):
            state = known.get(group) or GroupState(group, folded.kicks, begun=epochs_of(group, folded, hand))
            for step in state.steps.feed(self._named(self._counted(_with(rows, again.get(group, ()), folded)), folded.kicks)):
                row = {**_NOTHING, **step, "group_id": group}
                state.add(row)
                self._finished(bucket, [self._steps.add(row, step_size(row))], taken)
            if rows is None and group in before.states:
                fold, rest, unnamed = before.states[group]
            else:
                state.libraries |= folded.libraries.get(group, set())
                (fold, rest), unnamed = state.texts(), state.steps.fold.unnamed
            rows_.append({"cluster": self._cluster, "group_id": group, "state": fold, "rest": rest, "unnamed": unnamed})
            still = state.steps.unfinished()
            for step in still:
                row = {**_NOTHING, **step, "group_id": group}
                state.add(row)
                taken.add(self._unfinished.add(row, step_size(row)))
            first = first_unsettled(still)
            if first is not None and self._until is not None and first <= self._until:
                rows_[-1]["settled"] = settled[group] = first - 1
            self._tell(folded, group, state)
        self._finished(bucket, [self._steps.settle()], taken)
        self._slim.settle(bucket)
        taken.add(self._unfinished.settle())
        folded.steps, folded.dealt = taken.taken
        self._groups.write(pa.Table.from_pylist(rows_, _GROUPS), bucket)
        self._states.write(pa.Table.from_pylist(rows_, _STATES), bucket)
        return folded, settled

    def _finished(self, bucket: int, batches: Iterable[pa.RecordBatch | None], taken: StepsTaken) -> None:
        """Steps that no record will change any more: for this audit, and for the next one."""
        for batch in batches:
            if batch is not None:
                taken.add(batch)
                self._slim.gather(pa.Table.from_batches([batch.select(STEPS.names)]), bucket)

    def _counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._folded += 1
            yield row

    def _tell(self, folded: Folded, group: str, state: GroupState) -> None:
        """What is known of a group when its unfinished steps are added too."""
        self._of_all.update(state.kinds)
        self._last_of_all = max((at for at in (self._last_of_all, state.last_step) if at is not None), default=None)
        folded.summed_up(group, state.history, state.libraries or folded.libraries.get(group))


def _each(new: Iterable[tuple[str, Iterator[Row]]], known: set[str]) -> Iterator[tuple[str, Iterator[Row] | None]]:
    """Groups with their new records, then those that have none."""
    for group, rows in new:
        known.discard(group)
        yield group, rows
    for group in sorted(known):
        yield group, None


def _with(rows: Iterator[Row] | None, again: Sequence[Row], folded: Folded) -> Iterator[Row]:
    """Stored records and new ones in the order of the log."""
    for row in again:
        if row["record_type"] is None and row["members"]:
            folded.generation(row)
    return merge(again, rows or (), key=lambda row: (row["log_partition"], row["log_offset"]))
