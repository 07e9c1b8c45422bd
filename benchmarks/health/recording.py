"""A recording as both rule sets see it: commits, samples of log ends, the planted trouble, and the alarms raised."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from counterpoise.wire.offsets_topic.keys import OffsetKey
from counterpoise.wire.offsets_topic.records import decode_record
from counterpoise.wire.offsets_topic.values import OffsetCommitValue

__all__ = ["Alarm", "Place", "Recording", "Trouble", "read", "read_capture"]


class Place(NamedTuple):
    """A partition of a group."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True)
class Alarm:
    """A rule set says that something is wrong with a partition, in seconds since the recording began."""

    place: Place
    kind: str
    since: float
    until: float


@dataclass(frozen=True)
class Trouble:
    """Something was wrong with a partition (None: with some partition of the group, or of `topic`).

    `also` are other states that say so as well; `brief` trouble may end before a rule can know.
    """

    group: str
    kind: str
    partition: int | None
    since: float
    until: float
    also: tuple[str, ...] = ()
    brief: bool = False
    topic: str | None = None

    def about(self, place: Place) -> bool:
        """Whether it is trouble of this partition."""
        return self.group == place.group and self.topic in (None, place.topic) and self.partition in (None, place.partition)


@dataclass
class Recording:
    """Times are seconds since the begin.

    Attributes
    ----------
    folder : Path
    begin, end : float
        The begin in seconds since the epoch, and the length.
    commits : dict
        By partition of a group: (time, offset), in log order; an offset of None is a tombstone.
    samples : dict
        By topic and partition: (time, log end), by time.
    troubles : list of Trouble
    words : dict
        By group: the scenario in words.
    """

    folder: Path
    begin: float
    end: float
    commits: dict[Place, list[tuple[float, int | None]]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[tuple[str, int], list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    troubles: list[Trouble] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)

    def thinned(self, every: int) -> dict[tuple[str, int], list[tuple[float, int]]]:
        """Each `every`-th sample of each partition, from the first on."""
        return {log: rows[::every] for log, rows in self.samples.items()}


def read(folder: Path) -> Recording:
    """The recording in a folder, with what `truth.jsonl` says."""
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines()]
    (about,) = (row for row in truth if row["event"] == "recording")
    begin = about["begin_ms"] / 1000
    made = read_capture(folder, begin, about["end_ms"] / 1000 - begin)
    made.words = {row["group"]: row["words"] for row in truth if row["event"] == "scenario"}
    made.troubles = [_trouble(row, begin) for row in truth if row["event"] == "trouble"]
    return made


def read_capture(folder: Path, begin: float | None = None, end: float | None = None) -> Recording:
    """Commits and samples of a capture, between `begin` and `end` or the first sample and the last; no trouble is known."""
    sampled = list(_rows(folder / "log_offsets.parquet", ["topic", "partition", "log_end", "sampled_at"]))
    times = [row["sampled_at"].timestamp() for row in sampled]
    begin = min(times) if begin is None else begin
    made = Recording(folder, begin, max(times) - begin if end is None else end)
    for row, time in zip(sampled, times, strict=True):
        made.samples[row["topic"], row["partition"]].append((time - begin, row["log_end"]))
    for row in _rows(folder / "consumer_offsets.parquet", ["key", "value", "timestamp", "partition", "offset"]):
        record = decode_record(row["key"], row["value"])
        key, value = getattr(record, "key", None), getattr(record, "value", None)
        if isinstance(key, OffsetKey):
            offset = value.offset if isinstance(value, OffsetCommitValue) else None
            made.commits[Place(key.group, key.topic, key.partition)].append((row["timestamp"].timestamp() - begin, offset))
    for sampled_rows in made.samples.values():
        sampled_rows.sort(key=_time)
    for commits in made.commits.values():
        commits.sort(key=_time)
    return made


def _time(row: tuple[float, int | None]) -> float:
    return row[0]


def _trouble(row: dict[str, Any], begin: float) -> Trouble:
    since, until = (row[name] / 1000 - begin for name in ("since_ms", "until_ms"))
    return Trouble(row["group"], row["kind"], row["partition"], since, until, tuple(row["also"]), row["brief"])


def _rows(file: Path, columns: list[str]) -> Iterable[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(file, columns=columns).to_pylist()
    return rows
