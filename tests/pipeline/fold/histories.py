"""Made-up histories of a bucket of groups, and what folding them gives, cut in any way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.bucket import Bucket, Chunk, FoldSpec
from counterpoise.pipeline.fold.group_state import GroupState, _queued
from counterpoise.pipeline.fold.health_rows import HealthRows
from counterpoise.pipeline.fold.lag import LagRows
from counterpoise.pipeline.fold.log_ends import LogEnds
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.saved_partitions import state_of_partitions
from counterpoise.pipeline.history.fold_state import encode_state
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.scan.aggregation import AGGREGATE_COLUMNS, Aggregates, aggregated
from counterpoise.pipeline.source.scope import AuditScope, Reset
from counterpoise.pipeline.tables.keyed import KEYS

__all__ = ["Commit", "Folded", "History", "Sample", "Step", "folded", "histories", "instants_of", "log_ends"]

GROUPS, TOPICS, PARTITIONS, MEMBERS = ("g", "h"), ("t", "u-repartition"), range(2), ("a", "b", "c")
"""The second topic is one from which Kafka Streams deletes what it has committed."""
PLACES = [(topic, partition) for topic in TOPICS for partition in PARTITIONS]
ABOUT = {"a": ("x", 2), "b": ("x", 1), "c": ("y", 90_000)}
"""Client id and interval in ms of each member."""
LONG_MS, END = 70_000, 9_000_000_000
"""Longer than a client with a short interval may be away."""
IDS = (None, "old", "new")
KINDS = ("rebalance", "cooperative_followup", "emptied", "deleted", "static_replacement")


class Step(NamedTuple):
    """A step of a group; `owners` has a member's number or None for each of `PLACES`, `left` and `joined` have numbers too."""

    time: int
    group: str
    kind: str
    protocol: str
    owners: tuple[int | None, ...]
    left: tuple[int, ...]
    withheld: bool
    recreated: bool
    joined: tuple[int, ...] = ()


class Commit(NamedTuple):
    """A commit of a group; None: a tombstone."""

    time: int
    group: str
    place: int
    committed: int | None
    topic_id: str | None


class Sample(NamedTuple):
    """Ends of some logs, and where they start: in the middle if nothing is said."""

    time: int
    ends: tuple[int | None, ...]
    starts: tuple[int, ...] = ()


Event = Step | Commit | Sample


@dataclass(frozen=True)
class History:
    """Events in the order of the log, and the ids that topics have at its end."""

    events: tuple[Event, ...]
    ids_at_end: dict[str, str] | None
    reset: Reset | None


@st.composite
def histories(draw: st.DrawFn, least: int = 0, most: int = 30) -> History:
    """A few groups, members and partitions, and many equal milliseconds."""
    time, events = 0, list[Event]()
    for what in draw(st.lists(st.sampled_from("ssccccl"), min_size=least, max_size=most)):
        time += draw(st.sampled_from((0, 0, 1, 1, 2, 5, 5, LONG_MS))) * 1000
        events.append(draw(_event(what, time)))
    ids_at_end = draw(st.sampled_from((None, None, dict(zip(TOPICS, ("new", "old"), strict=True)))))
    return History(tuple(events), ids_at_end, draw(st.sampled_from((None, None, "earliest", "latest"))))


def _event(what: str, time: int) -> st.SearchStrategy[Event]:
    at, group = st.just(time), st.sampled_from(GROUPS)
    member = st.integers(0, len(MEMBERS) - 1)
    each = [st.none() | member] * len(PLACES)
    if what == "s":
        protocol, left = st.sampled_from(("eager", "cooperative", "server")), st.lists(member, max_size=2).map(tuple)
        owners = st.tuples(*each) | st.just((None,) * len(PLACES))
        flags = st.booleans(), st.booleans()
        return st.builds(Step, at, group, st.sampled_from(KINDS), protocol, owners, left, *flags, left)
    if what == "c":
        committed = st.integers(0, 40) | st.integers(0, 40) | st.none()
        return st.builds(Commit, at, group, st.integers(0, len(PLACES) - 1), committed, st.sampled_from(IDS))
    return st.builds(Sample, at, st.tuples(*[st.none() | st.integers(0, 40)] * len(PLACES)), st.just(()))


@dataclass
class Folded:
    """All that came of a history.

    Attributes
    ----------
    lag : dict
        Group, topic, partition and time -> the row of `partition_lag`.
    health : dict
        The key of a row of `health` -> the row.
    known : dict
        Group and number of a step -> the lag that strategies get.
    figures : dict
        Group -> its columns of `group_report`.
    changes : list
        Rows of `changes`.
    sizes : list
        Bytes of the state after each chunk.
    """

    lag: dict[tuple[str, str, int, datetime], tuple[Any, ...]] = field(default_factory=dict)
    health: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    known: dict[tuple[str, int], Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list, compare=False)


class _Bucket(Bucket):
    """Steps come as they are, not as records, and of replays only the lag is asked for."""

    found: Folded

    def _feed(self, records: Iterable[Any], rows: Any) -> None:  # noqa: ARG002
        for name, step, time in records:
            group = self._group(name)
            for row in _member_rows(step):
                group.timeouts.add_record(row, time)
            group.timeouts.add_generation(_about(member) for member in MEMBERS)
            group.add(step)
            group.changes.add_step(step, time, map(_about, MEMBERS[: step["n_static"] + 1]))
            self._new.add(name, step, time)
            group._queue.append(_queued({"members": [0], "log_ts": step["log_ts"], "log_offset": step["log_offset"]}))

    def _group(self, name: str, state: Mapping[str, Any] | None = None) -> GroupState:
        group = super()._group(name, state)
        group.replays = _Asked(name, self)  # type: ignore[assignment]
        return group


class _Asked:
    """In place of replays: takes the lag of each generation."""

    last, state = None, None

    def __init__(self, group: str, of: _Bucket) -> None:
        self._group, self._of = group, of

    def feed(self, row: Any) -> Iterator[Any]:
        lag = row["lag"] and sorted((one["topic"], one["partitions"].tolist(), one["lags"].tolist()) for one in row["lag"])
        self._of.found.known[self._group, row["log_offset"]] = lag
        return iter(())

    def close(self) -> Iterator[Any]:
        return iter(())


class _Rows:
    """Takes rows of lag, each of which must be new."""

    def __init__(self, found: Folded) -> None:
        self._found = found

    def add_lag(self, parts: PartitionStates, rows: LagRows) -> None:
        for row in rows.batch(parts).to_pylist():
            place = row.pop("group_id"), row.pop("topic"), row.pop("partition"), row.pop("at")
            assert place not in self._found.lag, f"{place} is there twice"
            self._found.lag[place] = tuple(row.items())

    def add_health(self, parts: PartitionStates, rows: HealthRows) -> None:
        for row in rows.batch(parts).to_pylist():
            place = tuple(row[name] for name in KEYS["health"])
            assert place not in self._found.health, f"{place} is there twice"
            self._found.health[place] = row

    def add_step(self, row: Any) -> None:
        raise AssertionError(row)

    add_replay = add_step

    def add_change(self, row: dict[str, Any]) -> None:
        self._found.changes.append(row)

    def take_metrics(self) -> None:
        return None


def log_ends(samples: Sequence[Sample]) -> LogEnds:
    """The same rules as `EndsFile`, of each log by itself: a topic is made anew when one of its logs has shrunk."""
    of: dict[tuple[str, int], dict[int, int]] = {}
    starts: dict[tuple[tuple[str, int], int], int] = {}
    for time, ends, first in samples:
        for number, (place, end) in enumerate(zip(PLACES, ends, strict=True)):
            if end is not None:
                log = of.setdefault(place, {})
                log[time] = max(end, log.get(time, end))
                starts[place, time] = first[number] if first else log[time] // 2
    anew: set[tuple[str, int]] = set()
    for (topic, _), log in of.items():
        times = sorted(log)
        anew |= {(topic, at) for before, at in pairwise(times) if log[at] < log[before]}
    rows: list[tuple[int, ...]] = []
    places: dict[tuple[str, int], tuple[int, int]] = {}
    newest: dict[str, int] = {}
    for place, log in of.items():
        begin, life = len(rows), 0
        for time in sorted(log):
            if (place[0], time) in anew:
                life += 1
            rows.append((time, starts[place, time], log[time], life))
        places[place] = begin, len(rows)
        newest[place[0]] = max(newest.get(place[0], 0), life)
    at, start, ends_at, lives = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    begins, is_newest = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for place, (begin, after) in places.items():
        begins[begin:after] = np.append(True, lives[begin + 1 : after] != lives[begin : after - 1])
        is_newest[begin:after] = lives[begin:after] == newest[place[0]]
    life_first = np.flatnonzero(begins)
    life_after = np.append(life_first[1:], len(rows))[: len(life_first)]
    columns = np.append(at, 0), start, np.append(ends_at, 0)
    return LogEnds(places, instants_of(samples), *columns, life_first, life_after, is_newest[life_first])


def folded(
    history: History, cuts: Sequence[int] = (), *, saved: bool = False, updates: bool = False, aggregate: bool = True
) -> Folded:
    """Fold a history in chunks that end before the events of these numbers.

    Parameters
    ----------
    history : History
    cuts : sequence of int
    saved : bool
        The state is put away between two chunks and read back.
    updates : bool
        Each chunk is an update of its own: it knows no later sample.
    aggregate : bool
        Commits between which nobody looks are one row, as the scan gives them.
    """
    events, found, state = history.events, Folded(), None
    bounds = [0, *(cut for cut in cuts if cut < len(events)), len(events)]
    bucket: _Bucket | None = None
    settled = -NEVER
    for begin, end in pairwise(bounds):
        known = [one for one in (events[:end] if updates else events) if isinstance(one, Sample)]
        later = [one.time for one in events[end:] if not isinstance(one, Sample)]
        until = min(later, default=NEVER)
        if updates:
            later = [one.time for one in events[end:]]
            next_ = min(later, default=NEVER)
            sampled = (
                [one.time for one in known if one.time < next_] if any(isinstance(one, Sample) for one in events) else [next_ - 1]
            )
            settled = max([settled, *sampled])
        spec = FoldSpec((), {}, history.ids_at_end, AuditScope(reset=history.reset), settled if updates else NEVER)
        ends = log_ends(known)
        if bucket is None or saved or updates:
            bucket = _Bucket(spec, ends, PlanCache(), state)
        else:
            bucket._spec, bucket._ends = spec, ends
        bucket.found = found
        chunk = Chunk(
            _steps(events, begin, end),
            _commits(events, begin, end, ends.instants, settled, aggregate=aggregate),
            NEVER if updates else until,
        )
        rows: Any = _Rows(found)
        if end == len(events):
            found.figures = {figures["group_id"]: figures for figures in bucket.finish(chunk, rows, END)}
        else:
            bucket.advance(chunk, rows)
            state = bucket.state()
            found.sizes.append(len(encode_state(state_of_partitions(bucket.parts))))
    return found


def instants_of(samples: Sequence[Sample]) -> Any:
    times = {one.time for one in samples if any(end is not None for end in one.ends)}
    return np.array(sorted(times), np.int64)


def _steps(events: Sequence[Event], begin: int, end: int) -> Iterator[Any]:
    """Group by group, each in log order."""
    for name in GROUPS:
        for at in range(begin, end):
            one = events[at]
            if isinstance(one, Step) and one.group == name:
                yield name, _step_row(one, at), one.time


def _step_row(one: Step, at: int) -> dict[str, Any]:
    listed = [
        {
            "member_id": member,
            "client_id": ABOUT[member][0],
            "assigned": [
                {"topic": topic, "partitions": [p for p in PARTITIONS if one.owners[PLACES.index((topic, p))] == number]}
                for topic in TOPICS
            ],
        }
        for number, member in enumerate(MEMBERS)
    ]
    alive = one.kind not in ("emptied", "deleted")
    return {
        "kind": one.kind,
        "cause": "members",
        "complete": True,
        "log_ts": datetime.fromtimestamp(one.time / 1_000_000, UTC),
        "protocol": one.protocol,
        "n_members": alive and len(set(one.owners)),
        "n_static": alive and len(set(one.left)),
        "n_moved": at % 3,
        "group_type": "consumer" if one.protocol == "server" else "classic",
        "protocol_kind": one.protocol,
        "n_withheld": int(one.withheld),
        "log_partition": 0,
        "log_offset": at,
        "left": [MEMBERS[number] for number in dict.fromkeys(one.left)],
        "joined": [MEMBERS[number] for number in dict.fromkeys(one.joined)],
        "generation": at,
        "restarted": [],
        "recreated": ["t"] if one.recreated else [],
        "assignment": listed if alive else [],
    }


def _about(member: str) -> dict[str, Any]:
    return {"member_id": member, "client_id": ABOUT[member][0], "rebalance_timeout_ms": ABOUT[member][1], "library": "java"}


def _member_rows(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The records of members of a KIP-848 group that come before a step: some join, and some of all leave."""
    if step["group_type"] == "consumer":
        for names, deleted in ((step["joined"], False), (step["left"], True)):
            about = {
                "record_type": 5,
                "deleted": deleted,
                "log_partition": 0,
                "log_offset": step["log_offset"] - 1,
                "epoch": None,
            }
            yield from ({**_about(name), **about} for name in names)


def _commits(events: Sequence[Event], begin: int, end: int, instants: Any, settled: int, *, aggregate: bool) -> pa.Table:
    listed = [(at, one) for at, one in enumerate(events[begin:end], begin) if isinstance(one, Commit)]
    keys = [(group, place) for group in GROUPS for place in range(len(PLACES))]
    time = np.array([one.time for _, one in listed], np.int64)
    deleted = np.array([one.committed is None for _, one in listed], np.bool_)
    rows = Aggregates.of_commits(
        np.array([keys.index((one.group, one.place)) for _, one in listed], np.int32),
        time,
        np.array([at for at, _ in listed], np.int64),
        np.array([-1 if one.committed is None else one.committed for _, one in listed], np.int64),
        deleted,
        np.array([-1 if one.topic_id is None else IDS.index(one.topic_id) for _, one in listed], np.int32),
    )
    if aggregate and len(rows):
        seen = [sum(isinstance(other, Step) and other.group == one.group for other in events[:at]) for at, one in listed]
        cell = np.searchsorted(instants, time) + np.array(seen, np.int64)
        if settled != -NEVER and len(instants):
            cell = np.where(time > instants[-1], (1 << 42) + np.arange(len(time)), cell)
        rows, _ = aggregated(rows, cell)
    columns = {
        "group_id": [keys[key][0] for key in rows.key.tolist()],
        "topic": [PLACES[keys[key][1]][0] for key in rows.key.tolist()],
        "partition": [PLACES[keys[key][1]][1] for key in rows.key.tolist()],
        "topic_id": [None if code < 0 else IDS[code] for code in rows.topic_id.tolist()],
    }
    numbers = {name: getattr(rows, name) for name in AGGREGATE_COLUMNS.names[4:]}
    return pa.Table.from_pydict(columns | numbers, schema=AGGREGATE_COLUMNS)
