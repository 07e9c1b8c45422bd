"""The groups of one bucket: records decoded, written as rows of their tables, and folded to the steps of each group's life."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from counterpoise.pipeline.direct.files.day_rows import DayRows
from counterpoise.pipeline.direct.files.error_rows import ErrorRows
from counterpoise.pipeline.direct.groups.kicks import Kicks
from counterpoise.pipeline.direct.groups.steps_taken import STEPS, DealtHeld, StepsTaken
from counterpoise.pipeline.folds.epochs import as_generation, is_epoch
from counterpoise.pipeline.folds.history import History
from counterpoise.pipeline.folds.modern_fold import NAMES
from counterpoise.pipeline.folds.replay_fold import FOLDED
from counterpoise.pipeline.rebalances import StepsFold
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.errors import error_rows
from counterpoise.pipeline.records.generations import GENERATION_COLUMNS, generation_row
from counterpoise.pipeline.records.modern import MODERN_COLUMNS, modern_row
from counterpoise.pipeline.schemas import REBALANCES
from counterpoise.wire.offsets_topic import decode_record

__all__ = ["Folded", "Folding", "InOrder", "epochs_of", "micros", "step_size"]

_STEPS = arrow_schema(StructType(REBALANCES.fields[1:]))
_NOTHING: Mapping[str, Any] = dict.fromkeys(_STEPS.names)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_TOPIC_ID = re.compile('"topic_id":"([^"]+)"')
Row = dict[str, Any]


def micros(moment: datetime) -> int:
    """A time as Arrow keeps it."""
    return (moment - _EPOCH) // _MICROSECOND


@dataclass
class Folded:
    """What is known of a bucket's groups when their records are folded.

    Attributes
    ----------
    steps : pyarrow.Table
        `held.STEP_COLUMNS` of `rebalances`, sorted by group, log partition and log offset; without `assignment` where that is
        `dealt`.
    generations : list of (group, microseconds)
        When each generation that has members was written.
    figures : dict
        Group -> its steps summed up, and the client libraries of its members, in columns of `group_report`.
    kicks : Kicks
        Who left and came back.
    dealt : DealtHeld, optional
        What all steps hand out, if it is much.
    """

    steps: pa.Table
    generations: list[tuple[str, int]] = field(default_factory=list)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    kicks: Kicks = field(default_factory=Kicks)
    dealt: DealtHeld | None = None

    libraries: dict[str, set[str]] = field(default_factory=dict)

    def summed_up(self, group: str, history: History, libraries: set[str] | None) -> None:
        """The figures of a group all of whose steps were added, and the libraries of its members."""
        figures = history.summary()
        if figures:
            more = {"causes": list(figures["causes"].items()), "libraries": libraries and sorted(libraries)}
            self.figures[group] = {**figures, **more}

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Take in a generation that was no record of its own."""
        if row["members"]:
            self.generations.append((row["group_id"], micros(row["log_ts"])))

    def generation(self, row: Mapping[str, Any]) -> None:
        """Take in a generation that has members."""
        group = row["group_id"]
        self.generations.append((group, micros(row["log_ts"])))
        self.libraries.setdefault(group, set()).update(member["library"] for member in row["members"])
        self.kicks.generation(group, row["members"])


class Folding:
    """Writes `group_generations`, `modern_group_records` and `rebalances` of the buckets it is given, one after the other.

    Parameters
    ----------
    folder : str
    names : mapping
        Topic id -> name.
    salt : str, optional
        Names in tables are hashed with it.
    """

    def __init__(self, folder: str, names: Mapping[str, str], salt: str | None = None) -> None:
        self._folder, self._names = folder, names
        self._generations = DayRows(folder, "generations", GENERATION_COLUMNS, salt=salt)
        self._modern = DayRows(folder, "modern", MODERN_COLUMNS, salt=salt)
        self._steps = DayRows(folder, "steps", _STEPS, salt=salt)
        self._errors = ErrorRows(folder, salt)
        self._kinds: Counter[tuple[str, str, int]] = Counter()
        self._last: int | None = None
        self._open = ExitStack()

    def __enter__(self) -> Folding:
        for one in (self._generations, self._modern, self._steps, self._errors):
            self._open.enter_context(one)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    @property
    def told(self) -> dict[str, Any]:
        """Files, rows and sums; complete when this is closed."""
        tables: dict[str, DayRows | ErrorRows] = {"group_generations": self._generations, "modern_group_records": self._modern}
        tables |= {"rebalances": self._steps, "decode_errors": self._errors}
        return {
            "tables": {name: rows.told for name, rows in tables.items()},
            "kinds": [[kind, cause or None, n, n * missed] for (kind, cause, missed), n in sorted(self._kinds.items())],
            "last_step": self._last,
        }

    def fold(self, records: Iterable[pa.RecordBatch], hand: Callable[[Row], None] | None = None) -> Folded:
        """The records of one bucket, as `rest.in_log_order` gives them; `hand` is called with every generation, as it comes."""
        found, taken = Folded(STEPS.empty_table()), StepsTaken(self._folder)
        told = None if hand is None else _with_steps(hand)
        for group, rows in groupby(self._decoded(records, found), key=lambda row: str(row["group_id"])):
            history, steps = History(), InOrder(StepsFold(begun=epochs_of(group, found, hand), folded=told))
            for step in steps.to_the_end(self._named(rows, found.kicks)):
                row = {**_NOTHING, **step, "group_id": group}
                history.add(row)
                found.kicks.step(group, row, self._count(row))
                taken.add(self._steps.add(row, step_size(row)))
            found.summed_up(group, history, found.libraries.get(group))
        taken.add(self._steps.settle())
        found.steps, found.dealt = taken.taken
        return found

    def _count(self, step: Mapping[str, Any]) -> int:
        """The time of a step, which is counted."""
        self._kinds[step["kind"], step["cause"] or "", step["missed_generations"] or 0] += 1
        at = micros(step["log_ts"])
        self._last = at if self._last is None else max(at, self._last)
        return at

    def _decoded(
        self, records: Iterable[pa.RecordBatch], found: Folded, hand: Callable[[Row], None] | None = None
    ) -> Iterator[Row]:
        """Rows of both tables, written on their way, as is what cannot be decoded."""
        for batch in records:
            for raw in batch.to_pylist():
                record = decode_record(raw["key"], raw["value"])
                self._errors.write(error_rows(raw, record))
                size = 200 + 4 * len(raw["value"] or b"")
                row = generation_row(raw, record)
                if row is not None:
                    self._generations.add(row, size)
                    if hand is not None:
                        hand(row)
                    if row["members"]:
                        found.generation(row)
                    yield {**row, "record_type": None}
                elif (other := modern_row(raw, record)) is not None:
                    self._modern.add(other, size)
                    yield other

    def _named(self, rows: Iterable[Row], kicks: Kicks) -> Iterator[Row]:
        """The names of topics come before the first record that has their ids; `kicks` sees all that is no classic one."""
        told: set[str] = set()
        for row in rows:
            ids = set(_TOPIC_ID.findall(row["payload"] or "")) - told if row["record_type"] is not None else set()
            known = {one: self._names[one] for one in ids if one in self._names}
            if known:
                yield {"record_type": NAMES, "payload": json.dumps(known), "deleted": False}
            told |= ids
            if row["record_type"] is not None:
                kicks.modern(row, micros(row["log_ts"]))
            yield row


def epochs_of(group: str, found: Folded, hand: Callable[[Row], None] | None) -> Callable[[Mapping[str, Any]], None]:
    """For `StepsFold`: generations of a KIP-848 group become known, and are handed on like those that are records."""

    def take(step: Mapping[str, Any]) -> None:
        if is_epoch(step):
            row = as_generation({**step, "group_id": group})
            found.epoch(row)
            if hand is not None:
                hand(row)

    return take


def _with_steps(hand: Callable[[Row], None]) -> Callable[[Mapping[str, Any], Mapping[str, Any]], None]:
    """For `StepsFold`: classic generations are handed on with what replays need of their step, which need not fold them again."""

    def take(row: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        hand({**row, "folded": {name: step.get(name) for name in FOLDED}})

    return take


def step_size(step: Mapping[str, Any]) -> int:
    """Some bytes that a row of `rebalances` takes."""
    topics = sum(len(one["topics"]) for one in step["subscriptions"] or ())
    return 500 + 64 * (step["n_members"] or 0) + 8 * (step["n_partitions"] or 0) + 40 * topics


class InOrder:
    """One group's steps in the order of the log. A step of a modern group is finished late: others wait for it.

    Attributes
    ----------
    fold : StepsFold
    waiting : list of mapping
        Steps that are finished, behind one that is not.
    """

    def __init__(self, fold: StepsFold, waiting: Iterable[Mapping[str, Any]] = ()) -> None:
        self.fold, self.waiting = fold, list(waiting)

    def feed(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The steps that are finished by these records."""
        for row in rows:
            self.waiting += self.fold.feed(row)
            if self.waiting:
                first = min(map(_place, self.fold.unfinished()), default=None)
                ready = [step for step in self.waiting if first is None or _place(step) < first]
                self.waiting = [step for step in self.waiting if first is not None and _place(step) >= first]
                yield from sorted(ready, key=_place)

    def unfinished(self) -> list[Mapping[str, Any]]:
        """The steps that further records may still change, as they stand."""
        return sorted([*self.waiting, *self.fold.unfinished()], key=_place)

    def to_the_end(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """All steps, where no record comes after these."""
        yield from self.feed(rows)
        yield from self.unfinished()


def _place(step: Mapping[str, Any]) -> tuple[int, int]:
    return step["log_partition"], step["log_offset"]
