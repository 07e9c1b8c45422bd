"""The stages of an audit that look at commits, for captures in local files; every other stage is Spark's as ever."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType, TimestampType

from counterpoise.pipeline.direct.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.judging import COUNTS, Sampled, judge
from counterpoise.pipeline.direct.reading import split_off
from counterpoise.pipeline.direct.stop_rows import STOPS
from counterpoise.pipeline.direct.tasks import Stretch, pieces_of, work_on
from counterpoise.pipeline.schemas import RECORDS
from counterpoise.pipeline.source.sources import Capture
from counterpoise.pipeline.store import Folder
from counterpoise.pipeline.tables import day_folder

__all__ = ["Direct"]

_RAW = StructType([RECORDS[name] for name in ("key", "value", "partition", "offset", "timestamp")])
_NAMES = StructType([StructField(name, RECORDS["topic"].dataType) for name in ("topic_id", "topic")])
_MOST_SAMPLES = 2_000_000
"""Of so many sampled log ends at most a task holds all; where there are more, Spark lays commits along them."""


class Direct:
    """Records, commits, lag and stops of an audit.

    Parameters
    ----------
    spark : SparkSession
    captures : mapping
        Cluster name -> capture, all with `local` files.
    folder : Path
        For files of this audit alone; whoever made the object deletes it.
    stretches : mapping, optional
        Cluster name -> the records of it that count; default: all.

    Notes
    -----
    Tasks write files of their own and tell their names; a file that no task told of (one of a task that failed, or ran twice)
    is never looked at.
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        folder: Path,
        stretches: Mapping[str, Stretch] | None = None,
    ) -> None:
        self._spark, self._captures, self._folder = spark, captures, folder.absolute()
        self._tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        self._sampled = {name: _sampled(capture) for name, capture in captures.items()}
        self._pieces = pieces_of(captures, self._tasks, stretches)
        self._sums: dict[str, list[tuple[str, list[int]]]] = {name: [] for name in captures}
        self._suspects: dict[str, list[str]] = {}
        self._names: set[tuple[str, str]] = set()
        self._judged: list[dict[str, Any]] = []

    def rests(self) -> dict[str, DataFrame]:
        """Per cluster the records that are no commits."""
        pieces, folder = self._pieces, str(self._folder)
        told = work_on(self._spark, len(pieces), lambda number: split_off(pieces[number], folder))
        self._rests = self._by_cluster(told, "rest")
        return {name: self._records(files) for name, files in self._rests.items()}

    def decode(self, target: Folder) -> dict[str, Any]:
        """Write the table `offset_commits`; what `run.Run` observes of commits (times as Spark gives them), and its rows."""
        pieces, wanted = self._pieces, {name: self._wanted(name) for name in self._captures}
        told = work_on(self._spark, len(pieces), lambda number: decode_piece(pieces[number], wanted[pieces[number].cluster]))
        for piece, about in zip(pieces, told, strict=True):
            self._sums[piece.cluster] += about["sums"].items()
            self._names |= {(one, other) for one, other in about["names"]}
            _place(about["days"], target.path / "offset_commits", piece.cluster)
        (target.path / "offset_commits").mkdir(parents=True, exist_ok=True)
        self._suspects = self._by_cluster(told, "suspects")
        seen: dict[str, Any] = {
            name: sum(about[name] for about in told) for name in ("errors", "tombstones", "decoded", "transactional")
        }
        seen["first"], seen["last"] = _moment(told, "first", min), _moment(told, "last", max)
        for at, name in enumerate(self._captures):
            mine = [about for piece, about in zip(pieces, told, strict=True) if piece.cluster == name]
            seen[f"end{at}"] = _moment(mine, "last", max)
        return seen

    def suspects(self, rests: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Per cluster all records that perhaps cannot be decoded: the other ones, and commits that decoding gave back."""
        return {name: rest.unionByName(self._records(self._suspects[name])) for name, rest in rests.items()}

    def names(self) -> DataFrame:
        """``topic_id, topic`` as commits tell them."""
        return self._spark.createDataFrame(sorted(self._names), _NAMES)

    def judge(self, steps: DataFrame, target: Folder) -> tuple[int, Any, Any] | None:
        """Lag, stops and counts by `rebalances`; how many rows `partition_lag` has, from when to when.

        Returns
        -------
        tuple, optional
            None: the samples are too many or none, and `partition_lag` was not written.
        """
        whole = all(one is not None for one in self._sampled.values())
        for name in self._captures:
            mine = steps if len(self._captures) == 1 else steps.where(fn.col("cluster") == name)
            sampled = self._sampled[name] if whole else None
            told = judge(mine, name, self._sums[name], sampled, str(self._folder), self._tasks)
            for about in told:
                _place(about["lag"], target.path / "partition_lag", name)
            self._judged += told
        if not whole:
            return None
        (target.path / "partition_lag").mkdir(parents=True, exist_ok=True)
        rows = sum(about["rows"] for about in self._judged)
        return rows, _moment(self._judged, "first", min), _moment(self._judged, "last", max)

    def stops(self) -> DataFrame:
        """As `stops.stops`, what `group_report` reads of it."""
        return self._read("stops", STOPS)

    def counts(self) -> DataFrame:
        """As `group_report.commit_counts`, and `log_ts`: when the group's last commit or deletion was."""
        return self._read("counts", COUNTS)

    def _wanted(self, name: str) -> Wanted:
        sampled, local = self._sampled[name], self._captures[name].local
        aborted = None if local is None else local.aborted
        if sampled is None:
            return Wanted(str(self._folder), tuple(self._rests[name]), aborted=aborted)
        return Wanted(str(self._folder), tuple(self._rests[name]), sampled.instants, sampled.width, aborted)

    def _by_cluster(self, told: Iterable[Mapping[str, Any]], kind: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self._captures}
        for piece, about in zip(self._pieces, told, strict=True):
            if about[kind] is not None:
                found[piece.cluster].append(about[kind])
        return found

    def _records(self, files: list[str]) -> DataFrame:
        return self._spark.read.schema(_RAW).parquet(*files) if files else self._spark.createDataFrame([], _RAW)

    def _read(self, kind: str, schema: StructType) -> DataFrame:
        files = [about[kind] for about in self._judged if about[kind] is not None]
        return self._spark.read.schema(schema).parquet(*files) if files else self._spark.createDataFrame([], schema)


def _place(files: Mapping[str, str], table: Path, cluster: str) -> None:
    for day, file in files.items():
        goal = table / day_folder(cluster, day)
        goal.mkdir(parents=True, exist_ok=True)
        Path(file).rename(goal / Path(file).name)


def _moment(told: Iterable[Mapping[str, Any]], name: str, pick: Any) -> Any:
    known = [about[name] for about in told if about[name] is not None]
    return TimestampType().fromInternal(pick(known)) if known else None


def _sampled(capture: Capture) -> Sampled | None:
    """The samples of a capture that has any, and not too many."""
    local = capture.local
    if local is None or not local.ends or sum(pq.read_metadata(file).num_rows for file in local.ends) > _MOST_SAMPLES:
        return None
    instants: set[int] = set()
    for file in local.ends:
        for batch in pq.ParquetFile(file).iter_batches(columns=["topic", "partition", "log_start", "log_end", "sampled_at"]):
            known = pa.Table.from_batches([batch]).drop_null()["sampled_at"].cast(pa.timestamp("us", tz="UTC"))
            instants.update(known.unique().cast(pa.int64()).to_pylist())
    if not instants:
        return None
    ordered = tuple(sorted(instants))
    width = max((ordered[-1] - ordered[0]) / max(len(ordered) - 1, 1), 1.0)
    return Sampled(local.ends, ordered, width, None if local.topics is None else _ids(local.topics))


def _ids(file: str) -> dict[str, str]:
    about = json.loads(Path(file).read_bytes())
    return {topic: one["topic_id"] for topic, one in about.items() if one.get("topic_id") is not None}
