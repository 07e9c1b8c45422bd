"""A capture folder as a stream: format ``counterpoise-capture``; what a running capture adds, each record once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from counterpoise.errors import OptionError
from counterpoise.pipeline.capture.columns import ARROW, OFFSETS_TOPIC
from counterpoise.pipeline.capture.datasource import RECORDS
from counterpoise.pipeline.capture.positions import from_json, share_out, to_json
from counterpoise.pipeline.source.layout import RECORDS_FILE

if TYPE_CHECKING:
    from counterpoise.pipeline.capture.cluster import Place

__all__ = ["CaptureStream", "parquet_files"]

_STATE = b"counterpoise.state"


@dataclass
class _Range(InputPartition):
    """Positions from and to, as JSON: what one task reads."""

    start: dict[str, Any]
    end: dict[str, Any]
    value: None = field(default=None, repr=False)


class CaptureStream(DataSource):
    """Options: ``path``, ``startingOffsets`` (JSON per partition; default: all there is), ``maxOffsetsPerTrigger``."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(...)``."""
        return "counterpoise-capture"

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source."""
        return RECORDS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A streaming reader."""
        return _Reader(dict(self.options))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, given: dict[str, str]) -> None:
        words = {name.lower(): value for name, value in given.items()}
        if "path" not in words:
            raise OptionError("path: the folder of a capture is wanted")
        self._path = Path(words["path"])
        self._start: dict[str, Any] = json.loads(words.get("startingoffsets", "{}"))
        self._limit = int(words["maxoffsetspertrigger"]) if "maxoffsetspertrigger" in words else None
        self._target: dict[Place, int] | None = None
        self._seen: tuple[tuple[str, ...], dict[Place, int]] = ((), {})

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query starts."""
        return self._start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxOffsetsPerTrigger``, or everything."""
        return ReadAllAvailable() if self._limit is None else ReadMaxRows(self._limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch."""
        end = self._ends() if self._target is None else self._target
        known = from_json(start)
        begin = {place: known.get(place, 0) for place in end} | known
        end = {place: max(end.get(place, at), at) for place, at in begin.items()}
        return to_json(share_out(begin, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """What the folder holds."""
        return to_json(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end."""
        self._target = self._ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task: what comes in within a trigger is little, and its files are shared by all partitions."""
        return [_Range(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records between two positions."""
        assert isinstance(partition, _Range)
        start, end = from_json(partition.start), from_json(partition.end)
        for file in _files_beyond(parquet_files(self._path, RECORDS_FILE), start):
            with pq.ParquetFile(file) as opened:
                wanted = [name for name in ARROW.names if name in opened.schema_arrow.names]
                for batch in opened.iter_batches(65_536, columns=wanted):
                    found = _between(batch, start, end)
                    if found.num_rows:
                        yield from _shaped(found).to_batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint keeps the position."""

    def stop(self) -> None:
        """Nothing is held between calls."""

    def _ends(self) -> dict[Place, int]:
        """The offset after the last record of each partition: from the newest footer, or by looking where nobody wrote one."""
        files = parquet_files(self._path, RECORDS_FILE)
        names = tuple(f"{file} {file.stat().st_mtime_ns}" for file in files)
        if names != self._seen[0]:
            told = _reach(files[-1]) if files else {}
            self._seen = names, _by_looking(files) if told is None else told
        return self._seen[1]


def parquet_files(path: Path, name: str) -> list[Path]:
    """The files of one table of a capture, oldest first: a growing folder behind a link, a plain folder, or one file."""
    inside = path / name if (path / name).exists() else path
    inside = inside.resolve()  # A running capture swings the link; the files of the old folder stay for an hour.
    return [inside] if inside.is_file() else sorted(inside.glob("*.parquet"))


def _reach(file: Path) -> dict[Place, int] | None:
    """How far a capture was when it had written this file."""
    footer = (pq.read_metadata(file).metadata or {}).get(_STATE)
    return None if footer is None else from_json(json.loads(footer))


def _files_beyond(files: list[Path], start: dict[Place, int]) -> list[Path]:
    """The files that may hold records beyond `start`: back from the newest to the first that ends before it."""
    found = []
    for file in reversed(files):
        reach = _reach(file)
        if reach is not None and all(at <= start.get(place, 0) for place, at in reach.items()):
            break
        found.append(file)
    return found[::-1]


def _by_looking(files: list[Path]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for file in files:
        ends = pq.read_table(file, columns=["partition", "offset"]).group_by("partition").aggregate([("offset", "max")])
        for row in ends.to_pylist():
            place = (OFFSETS_TOPIC, row["partition"])
            found[place] = max(found.get(place, 0), row["offset_max"] + 1)
    return found


def _between(batch: pa.RecordBatch, start: dict[Place, int], end: dict[Place, int]) -> pa.Table:
    table = pa.Table.from_batches([batch])
    places = [(OFFSETS_TOPIC, index) for index in table["partition"].to_pylist()]
    low = pa.array([start.get(place, 0) for place in places], pa.int64())
    high = pa.array([end.get(place, 0) for place in places], pa.int64())
    return table.filter(pc.and_(pc.greater_equal(table["offset"], low), pc.less(table["offset"], high)))


def _shaped(table: pa.Table) -> pa.Table:
    columns = [
        table[one.name].cast(one.type) if one.name in table.column_names else pa.nulls(table.num_rows, one.type) for one in ARROW
    ]
    return pa.Table.from_arrays(columns, schema=ARROW)
