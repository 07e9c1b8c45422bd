"""What a capture holds in short: where each log partition begins and ends, when was sampled, and which topics were made anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.records.place import PLACE
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows

__all__ = ["Seen", "in_all", "seen_in", "time_of", "topic_ids", "topic_marks"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Seen:
    """The records of one log partition.

    Attributes
    ----------
    partition : int
    end, us : int, optional
        The last offset, and the time of that record in microseconds.
    was : int, optional
        The time of the record at an offset that was asked for.
    first, first_us : int, optional
        The lowest offset, and the earliest time of all.
    """

    partition: int
    end: int | None
    us: int | None
    was: int | None
    first: int | None
    first_us: int | None

    def asked(self, last: int | None) -> Seen:
        """The same where the offset that is asked for is the last one, or none of these."""
        return replace(self, was=self.us if self.end is not None and self.end == last else None)


def seen_in(files: Iterable[str], last: Mapping[int, int]) -> list[Seen]:
    """What files of records hold; `last` is the offset to look for in each log partition."""
    return in_all(one for batch in _batches(files) for one in _seen(batch, last))


def in_all(parts: Iterable[Seen]) -> list[Seen]:
    """What parts of the records say, of each log partition as one."""
    found: dict[int, Seen] = {}
    for one in parts:
        before = found.get(one.partition)
        found[one.partition] = one if before is None else _both(before, one)
    return list(found.values())


def _batches(files: Iterable[str]) -> Iterator[pa.Table]:
    """``partition, offset, us`` of records that have a partition."""
    for file in files:
        for batch in read_rows(file, PLACE, RAW_TYPES, _AT_ONCE):
            us = batch.column("timestamp").cast(pa.int64())
            table = pa.table({"partition": batch.column("partition"), "offset": batch.column("offset"), "us": us})
            yield table.filter(pc.is_valid(table["partition"])) if table["partition"].null_count else table


def _seen(table: pa.Table, last: Mapping[int, int]) -> Iterator[Seen]:
    figures = [("offset", "max"), ("offset", "min"), ("us", "min")]
    rows = table.group_by("partition", use_threads=False).aggregate(figures).to_pylist()
    if not rows:
        return
    partition, offset = table["partition"].to_numpy(), table["offset"].fill_null(-1).to_numpy()
    places = np.zeros((2, max(row["partition"] for row in rows) + 2), np.int64) - 2
    for row in rows:
        places[:, row["partition"]] = (-2 if row["offset_max"] is None else row["offset_max"], last.get(row["partition"], -2))
    times: list[dict[int, int | None]] = []
    for wanted in places:
        at = np.flatnonzero(offset == wanted[partition])
        times.append(dict(zip(partition[at].tolist(), table["us"].take(pa.array(at)).to_pylist(), strict=True)))
    for row in rows:
        index = row["partition"]
        yield Seen(index, row["offset_max"], times[0].get(index), times[1].get(index), row["offset_min"], row["us_min"])


def _both(one: Seen, other: Seen) -> Seen:
    later = other if one.end is None or (other.end is not None and other.end >= one.end) else one
    firsts = [at for at in (one.first, other.first) if at is not None]
    times = [at for at in (one.first_us, other.first_us) if at is not None]
    was = one.was if other.was is None else other.was
    return Seen(one.partition, later.end, later.us, was, min(firsts, default=None), min(times, default=None))


def time_of(us: int) -> datetime:
    """A time as Arrow keeps it, in microseconds, as Python has it."""
    return _EPOCH + timedelta(microseconds=us)


def topic_ids(local: Local) -> dict[str, str | None]:
    """Topic -> its id at the end, as the capture's metadata has it."""
    if local.topics is None:
        return {}
    about = json.loads(Path(local.topics).read_bytes())
    return {topic: one.get("topic_id") for topic, one in sorted(about.items())}


def topic_marks(local: Local, lives: Mapping[str, int] | None = None) -> dict[str, str]:
    """Topic -> its id at the end, and how often it was made anew: what says whether older commits still count.

    Parameters
    ----------
    local : Local
    lives : mapping, optional
        Topic that was sampled -> how often it was made anew; None: no log end was sampled.
    """
    ids = topic_ids(local)
    if lives is None:
        return {topic: str(one) for topic, one in ids.items()}
    return {topic: f"{one} {lives[topic]}" for topic, one in ids.items() if topic in lives}
