"""The live end of table `rebalances`: steps that the stream has seen and no audit has gone over yet, in files of their own."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import REBALANCES
from counterpoise.pipeline.stored.tables import folder_of

__all__ = ["HEAVY", "Tail"]

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, int, int]

_SCHEMA = pa.schema([field for field in arrow_schema(REBALANCES) if field.name != "cluster"])
FULL = 20_000
"""Rows and partitions in them after which a file is closed: until then it is written anew with every micro-batch."""
HEAVY = 2_000_000
"""As many in all files together are held in memory; an audit should take them over."""


class Tail:
    """Files ``live-*.parquet`` beside those of the audit; a row is in the one or in the other.

    Parameters
    ----------
    out : Path
        The audit's output folder.

    Notes
    -----
    A row is known by its place in the log, and a file replaced by one rename: whatever is told twice is there once. A step
    that is not finished lies in the newest file only, and goes when its group's next steps come. An audit may be ahead of the
    stream: steps that it has are not written any more.
    """

    def __init__(self, out: Path) -> None:
        self._table = folder_of(out, "rebalances")
        self._files: list[dict[Key, Row]] = [{}]
        self._open: dict[Key, Row] = {}
        self._days: dict[int, set[str]] = {}
        self._audited: Mapping[str, Mapping[str, int]] = {}
        self._lock = threading.Lock()

    @property
    def weight(self) -> int:
        """Rows and partitions in them that are held here."""
        return sum(map(_weight, self._files))

    def clear(self) -> None:
        """Away with what an earlier run has left; an audit has gone over it."""
        for file in self._table.glob("cluster=*/date=*/live-*.parquet"):
            file.unlink()

    def add(self, finished: Iterable[Row], unfinished: Iterable[Row]) -> None:
        """The steps of one micro-batch; what was unfinished in a group that is in it is replaced."""
        done = {_key(row): row for row in finished}
        still = {_key(row): row for row in unfinished}
        if not done and not still:
            return
        groups = {_group(row) for row in chain(done.values(), still.values())}
        with self._lock:
            others = {key: row for key, row in self._open.items() if _group(row) not in groups}
            self._open = others | _beyond(still, self._audited)
            closed = set(chain.from_iterable(self._files[:-1]))
            self._files[-1] |= {key: row for key, row in _beyond(done, self._audited).items() if key not in closed}
            if _weight(self._files[-1]) > FULL:
                self._write(len(self._files), self._files[-1])
                self._files.append({})
            self._write(len(self._files), self._files[-1] | self._open)

    @contextmanager
    def handed_over(self, positions: Mapping[str, Mapping[str, int]], staged: Path) -> Iterator[list[tuple[Path, Path]]]:
        """While an audit stores what it found up to `positions` (cluster -> log partition -> offset): the live end waits.

        Yields
        ------
        list of (Path, Path)
            Files with the rows beyond, and where they belong; all other live files may go.
        """
        with self._lock:
            rest = _beyond({key: row for file in self._files for key, row in file.items()}, positions)
            still = _beyond(self._open, positions)
            moves = []
            for day, rows in _by_day(rest | still).items():
                file = staged / "live" / day / _name(1)
                _put(rows, file)
                moves.append((file, self._table / day / _name(1)))
            yield moves
            self._files, self._open, self._audited = [rest], still, positions
            self._days = {1: {to.parent.relative_to(self._table).as_posix() for _, to in moves}}

    def _write(self, number: int, rows: Mapping[Key, Row]) -> None:
        by_day = _by_day(rows)
        for day, of_day in by_day.items():
            _put(of_day, self._table / day / _name(number))
        for day in self._days.get(number, set()) - set(by_day):
            (self._table / day / _name(number)).unlink(missing_ok=True)
        self._days[number] = set(by_day)


def _beyond(rows: Mapping[Key, Row], positions: Mapping[str, Mapping[str, int]]) -> dict[Key, Row]:
    return {key: row for key, row in rows.items() if key[2] >= positions.get(key[0], {}).get(str(key[1]), 0)}


def _put(rows: list[Row], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{file.name}.new")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=_SCHEMA), scratch)
    scratch.replace(file)


def _by_day(rows: Mapping[Key, Row]) -> dict[str, list[Row]]:
    found = defaultdict(list)
    for key, row in sorted(rows.items()):
        found[f"cluster={key[0]}/date={row['log_ts'].astimezone(UTC).date().isoformat()}"].append(row)
    return found


def _name(number: int) -> str:
    return f"live-{number:06d}.parquet"


def _key(row: Row) -> Key:
    return row["cluster"], row["log_partition"], row["log_offset"]


def _group(row: Row) -> tuple[str, str]:
    return row["cluster"], row["group_id"]


def _weight(rows: Mapping[Key, Row]) -> int:
    return sum(1 + (row.get("n_partitions") or 0) for row in rows.values())
