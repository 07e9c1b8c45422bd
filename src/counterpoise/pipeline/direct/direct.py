"""The stages of an audit up to its report, for captures in local files: done by tasks in Python, not by Spark's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.files.buckets import buckets_at_once, together
from counterpoise.pipeline.direct.files.marked_file import Marked
from counterpoise.pipeline.direct.files.places import refuse_twice
from counterpoise.pipeline.direct.groups.rest import mark_others, split_off
from counterpoise.pipeline.direct.groups.stop_rows import STOPS
from counterpoise.pipeline.direct.judging import COUNTS, OfCluster, judge_buckets
from counterpoise.pipeline.direct.lag.ends_file import EndsFile
from counterpoise.pipeline.direct.lag.sampled import Sampled, sampled_by, sampled_in, topic_ids
from counterpoise.pipeline.direct.replaying import Replayed, replay_buckets
from counterpoise.pipeline.direct.report.ranks import rank_findings
from counterpoise.pipeline.direct.report.totals import told_sums
from counterpoise.pipeline.direct.tasks import Stretch, pieces_of, work_on
from counterpoise.pipeline.schemas import RECORDS
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import day_folder
from counterpoise.pipeline.summary import Found, Sums

__all__ = ["Direct"]

_RAW = StructType([RECORDS[name] for name in ("key", "value", "partition", "offset", "timestamp")])
_REPLAYING = 16
"""So many tasks replay, at least: strategies take most of the time, so tasks are small, lest one core waits for the other."""


Kind = tuple[int | None, int, int, datetime | None, datetime | None]
"""Type, number, deletions, first and last time of records, times as Spark gives them."""


class Direct:
    """The stages of an audit up to the report.

    Attributes
    ----------
    bytes_at_once : int
        Of files that are read back: what the groups that are done together have in them, about.
    kinds : dict
        Cluster name -> what `split` saw of each type of record, perhaps more than once of a type.

    Parameters
    ----------
    spark : SparkSession
    captures : mapping
        Cluster name -> capture, all with `local` files.
    folder : Path
        For files of this audit alone; whoever made the object deletes it.
    stretches : mapping, optional
        Cluster name -> the records of it that count; default: all.
    ends : mapping, optional
        Cluster name -> its samples of log ends, where they are laid out already.

    Notes
    -----
    Tasks write files of their own and tell their names; a file that no task told of (one of a task that failed, or ran twice)
    is never looked at.
    """

    bytes_at_once = 1 << 21

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        folder: Path,
        stretches: Mapping[str, Stretch] | None = None,
        ends: Mapping[str, EndsFile] | None = None,
    ) -> None:
        self._spark, self._captures, self._folder = spark, captures, folder.absolute()
        self._tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        self._ends = ends
        self._pieces = pieces_of(captures, self._tasks, stretches)
        self._at_once: dict[str, int] = {}
        self._rests: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        self.kinds: dict[str, list[Kind]] = {}
        self._sums: dict[str, list[tuple[str, tuple[int, ...]]]] = {name: [] for name in captures}
        self._suspects: dict[str, list[str]] = {}
        self._names: set[tuple[str, str]] = set()
        self._judged: list[dict[str, Any]] = []
        self._replayed: list[dict[str, Any]] = []
        self._ranked: list[dict[str, Any]] = []
        self._aside = True

    def split(self) -> None:
        """Put the records that are no commits into files of their own."""
        pieces, folder = self._pieces, str(self._folder)
        self._keep_rests(work_on(self._spark, len(pieces), lambda number: split_off(pieces[number], folder)))

    def _keep_rests(self, told: Iterable[Mapping[str, Any]]) -> None:
        self._rests = {name: [] for name in self._captures}
        self.kinds = {name: [] for name in self._captures}
        for piece, about in zip(self._pieces, told, strict=True):
            self.kinds[piece.cluster] += [(kind, n, gone, *map(_spark_time, at)) for kind, n, gone, *at in about["kinds"]]
            if about["rest"] is not None:
                self._rests[piece.cluster].append((about["rest"], tuple(about["buckets"])))

    def rests(self) -> dict[str, DataFrame]:
        """Per cluster the records that are no commits."""
        self.split()
        return {name: self._records([file for file, _ in files]) for name, files in self._rests.items()}

    def decode(self, target: Folder) -> dict[str, Any]:
        """Write the table `offset_commits`, and split off what is no commit if that was not done before.

        Returns
        -------
        dict
            What `run.Run` observes of commits (times as Spark gives them), and its rows.
        """
        pieces, split = self._pieces, not self._rests
        if split:
            found = self._mark()
            refuse_twice(pieces, [about["spans"] for about in found])
            marked = self._by_cluster(found, "marks")
        else:
            marked = {name: [file for file, _ in files] for name, files in self._rests.items()}
        wanted = {name: self._wanted(name, marked[name], split=split) for name in self._captures}
        told = work_on(self._spark, len(pieces), lambda number: decode_piece(pieces[number], wanted[pieces[number].cluster]))
        if split:
            self._keep_rests(told)
        for piece, about in zip(pieces, told, strict=True):
            self._sums[piece.cluster] += [(file, tuple(buckets)) for file, buckets in about["sums"].items()]
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

    def _mark(self) -> list[dict[str, Any]]:
        """What `mark_others` tells of the pieces; the same tasks lay out the samples, if that was not done before."""
        pieces, folder = self._pieces, str(self._folder)
        new = {} if self._ends is not None else {name: capture.local for name, capture in self._captures.items()}
        local = list(new.values())

        def work(number: int) -> Mapping[str, Any]:
            if number < len(local):
                laid_out = sampled_in(local[number], folder)
                return {"sampled": None if laid_out is None else asdict(laid_out)}
            return mark_others(pieces[number - len(local)], folder)

        told = work_on(self._spark, len(local) + len(pieces), work)
        if new:
            self._sampled = {name: _sampled_of(about) for name, about in zip(new, told, strict=False)}
        return told[len(local) :]

    def suspects(self, rests: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Per cluster all records that perhaps cannot be decoded: the other ones, and commits that decoding gave back."""
        return {name: rest.unionByName(self._records(self._suspects[name])) for name, rest in rests.items()}

    def damaged(self) -> dict[str, DataFrame]:
        """Per cluster, if it has any, the records that cannot be decoded, when `judge` has looked at all of them."""
        found = {name: [*files, *self._told(name, "suspects")] for name, files in self._suspects.items()}
        return {name: self._records(files) for name, files in found.items() if files}

    def judge(self, target: Folder, *, aside: bool) -> Mapping[str, int]:
        """Write the tables that no strategy is asked for: how many rows each has.

        Parameters
        ----------
        target : Folder
        aside : bool
            Spark makes the report: stops and counts are put aside for it. Otherwise what the report needs is.

        Returns
        -------
        mapping
            Without `partition_lag` where a cluster was not sampled.
        """
        self._aside, whole, folder = aside, self.sampled, str(self._folder)
        names = self._topic_names()
        self._decide_at_once()
        of = {}
        for name in self._rests:
            rest, sums = self._together(name)
            of[name] = OfCluster(name, folder, rest, sums, self._sampled[name] if whole else None, names, aside)
        shares = self._shares()
        self._judged = work_on(self._spark, len(shares), lambda number: judge_buckets(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, self._judged, strict=True):
            about["cluster"] = name
            if whole:
                about["tables"]["partition_lag"] = about["lag"]
        tables = ("group_generations", "modern_group_records", "rebalances")
        return self._keep(self._judged, target, (*tables, "partition_lag") if whole else tables)

    def replay(self, target: Folder, strategies: Sequence[str], ends: Mapping[str, int]) -> Mapping[str, int]:
        """Write `replays` and `metrics`, and `group_report` unless that is Spark's; how many rows each has.

        Parameters
        ----------
        target : Folder
        strategies : sequence of str
        ends : mapping
            Cluster name -> time of its last record, in microseconds.

        Notes
        -----
        Only after `judge` where lag was `sampled`, or no log end was sampled in any cluster.
        """
        folder, instants = str(self._folder), self._instants()
        of = {
            name: Replayed(
                *(name, folder, self._marked(name, "handed"), tuple(strategies), self._marked(name, "asked"), instants[name]),
                *(self._marked(name, "groups"), self._until(name), ends[name]),
            )
            for name in self._rests
        }
        shares = self._shares(_REPLAYING)
        told = work_on(self._spark, len(shares), lambda number: replay_buckets(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, told, strict=True):
            about["cluster"] = name
        self._replayed = told
        return self._keep(told, target, ("replays", "metrics") if self._aside else ("replays", "metrics", "group_report"))

    def rank(self, target: Folder, ends: Mapping[str, int]) -> int:
        """Write `findings`, after `replay`; how many there are."""
        (target.path / "findings").mkdir(parents=True, exist_ok=True)
        files, folder = [about["findings"] for about in self._replayed if about["findings"] is not None], str(self._folder)
        self._ranked = work_on(self._spark, 1 if files else 0, lambda _: rank_findings(files, folder, ends))
        told = [one for about in self._ranked for one in about["tables"].items()]
        for name, table in told:
            _place(table["days"], target.path / "findings", name)
        return sum(table["rows"] for _, table in told)

    def found(self) -> Found:
        """What the summary tells of `findings`."""
        kinds = [(severity, kind, n) for about in self._ranked for severity, kind, n in about["kinds"]]
        return Found(kinds, [{**row, "at": _spark_time(row["at"])} for about in self._ranked for row in about["top"]])

    def sums(self) -> Sums:
        """What the summary needs of the tables."""
        return told_sums(self._judged, self._replayed)

    @cached_property
    def _sampled(self) -> dict[str, Sampled | None]:
        """The samples of each cluster, if no task has laid them out."""
        local, folder = {name: capture.local for name, capture in self._captures.items()}, str(self._folder)
        if self._ends is None:
            return {name: sampled_in(one, folder) for name, one in local.items()}
        return {name: None if one is None else sampled_by(one, self._ends[name], folder) for name, one in local.items()}

    @property
    def sampled(self) -> bool:
        """Whether lag can be told of every cluster."""
        return all(one is not None for one in self._sampled.values())

    @property
    def disagreeing(self) -> dict[str, int]:
        """Per cluster of how many logs and instants there are samples that differ."""
        return {name: 0 if one is None else one.disagreeing for name, one in self._sampled.items()}

    @property
    def lag_span(self) -> tuple[Any, Any]:
        """The first and the last instant in `partition_lag`."""
        return _moment(self._judged, "first", min), _moment(self._judged, "last", max)

    def _instants(self) -> dict[str, tuple[int, ...] | None]:
        """Per cluster when log ends were sampled; None for all where one was not sampled: their lag is Spark's."""
        return {name: one.instants if one is not None and self.sampled else None for name, one in self._sampled.items()}

    def _marked(self, name: str, kind: str) -> Marked:
        files = [about[kind] for about in self._judged if about["cluster"] == name]
        return tuple((file, tuple(marks)) for file, marks in files if file is not None)

    def _until(self, name: str) -> int:
        mine = [about for about in self._judged if about["cluster"] == name]
        return max((about[kind] for about in mine for kind in ("last_step", "last_commit") if about[kind] is not None), default=0)

    def _decide_at_once(self) -> None:
        """How many buckets are done together, which costs little more than one of them."""
        for name in self._captures:
            self._at_once[name] = buckets_at_once(self._read_back(name), self.bytes_at_once, self._tasks)

    def _read_back(self, name: str) -> list[str]:
        """The files of a cluster that are read back bucket by bucket."""
        return [file for file, _ in (*self._rests[name], *self._sums[name])]

    def _together(self, name: str) -> tuple[Marked, Marked]:
        """The records that are no commits, and the sums of commits, marked with what is done together."""
        return together(self._rests[name], self._at_once[name]), together(self._sums[name], self._at_once[name])

    def _filled(self, name: str) -> set[int]:
        """What is to be done of a cluster, by its marks."""
        return {mark for files in self._together(name) for _, marks in files for mark in marks}

    def _shares(self, least: int = 1) -> list[tuple[str, tuple[int, ...]]]:
        """What a task does, of which cluster: at least so many tasks for each cluster."""
        shares = []
        for name in self._captures:
            filled, tasks = sorted(self._filled(name)), max(self._tasks, least)
            parts = [tuple(filled[first::tasks]) for first in range(tasks)]
            shares += [(name, part) for part in parts if part]
        return shares

    def _keep(self, told: Sequence[Mapping[str, Any]], target: Folder, tables: Sequence[str]) -> dict[str, int]:
        """Files that were told of become part of their tables; rows of each."""
        for table in tables:
            (target.path / table).mkdir(parents=True, exist_ok=True)
            for about in told:
                _place(about["tables"][table]["days"], target.path / table, about["cluster"])
        return {table: sum(about["tables"][table]["rows"] for about in told) for table in tables}

    def _topic_names(self) -> dict[str, str]:
        """Topic id -> name, by commits and by metadata."""
        found = dict(sorted(self._names))
        for capture in self._captures.values():
            if capture.local is not None and capture.local.topics is not None:
                found |= {one: topic for topic, one in sorted(topic_ids(capture.local.topics).items())}
        return found

    def stops(self) -> DataFrame:
        """As `stops.stops`, what `group_report` reads of it."""
        return self._read("stops", STOPS)

    def counts(self) -> DataFrame:
        """As `group_report.commit_counts`, and `log_ts`: when the group's last commit or deletion was."""
        return self._read("counts", COUNTS)

    def _wanted(self, name: str, rest: Sequence[str], *, split: bool) -> Wanted:
        sampled, local = self._sampled[name], self._captures[name].local
        aborted = None if local is None else local.aborted
        instants, width = ((), None) if sampled is None else (sampled.instants, sampled.width)
        return Wanted(str(self._folder), tuple(rest), instants, width, aborted, split)

    def _by_cluster(self, told: Iterable[Mapping[str, Any]], kind: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self._captures}
        for piece, about in zip(self._pieces, told, strict=True):
            if about[kind] is not None:
                found[piece.cluster].append(about[kind])
        return found

    def _records(self, files: list[str]) -> DataFrame:
        return self._spark.read.schema(_RAW).parquet(*files) if files else self._spark.createDataFrame([], _RAW)

    def _told(self, name: str, kind: str) -> list[str]:
        """Files of a kind that the tasks of `judge` told of."""
        return [about[kind] for about in self._judged if about["cluster"] == name and about[kind] is not None]

    def _read(self, kind: str, schema: StructType) -> DataFrame:
        files = [about[kind] for about in self._judged if about[kind] is not None]
        return self._spark.read.schema(schema).parquet(*files) if files else self._spark.createDataFrame([], schema)


def _place(files: Mapping[str, str], table: Path, cluster: str) -> None:
    for day, file in files.items():
        goal = table / day_folder(cluster, day)
        goal.mkdir(parents=True, exist_ok=True)
        Path(file).rename(goal / Path(file).name)


def _sampled_of(told: Mapping[str, Any]) -> Sampled | None:
    about = told["sampled"]
    return None if about is None else Sampled(**{**about, "instants": tuple(about["instants"])})


def _spark_time(us: int | None) -> Any:
    return None if us is None else TimestampType().fromInternal(us)


def _moment(told: Iterable[Mapping[str, Any]], name: str, pick: Any) -> Any:
    known = [about[name] for about in told if about[name] is not None]
    return _spark_time(pick(known) if known else None)
