"""The stages of an audit, from files of records to files of tables: done by tasks in Python, which Spark starts and repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.files.buckets import buckets_at_once, together
from counterpoise.pipeline.direct.files.marked_file import Marked
from counterpoise.pipeline.direct.files.places import refuse_twice
from counterpoise.pipeline.direct.groups.chosen import ChosenGroups, groups_of_topics
from counterpoise.pipeline.direct.groups.rest import mark_others
from counterpoise.pipeline.direct.judging import OfCluster, judge_buckets
from counterpoise.pipeline.direct.lag.ends_file import EndsFile
from counterpoise.pipeline.direct.lag.sampled import Sampled, sampled_by, sampled_in, topic_ids
from counterpoise.pipeline.direct.replaying import Replayed, replay_buckets
from counterpoise.pipeline.direct.report.ranks import rank_findings
from counterpoise.pipeline.direct.report.totals import told_sums
from counterpoise.pipeline.direct.tasks import Stretch, pieces_of, work_on
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import day_folder
from counterpoise.pipeline.summary import Found, Sums

__all__ = ["Direct"]

_REPLAYING = 16
"""So many tasks replay, at least: strategies take most of the time, and small tasks keep all cores busy to the end."""


Kind = tuple[int | None, int, int, datetime | None, datetime | None]
"""Type, number, deletions, first and last time of records, times as Spark gives them."""


class Direct:
    """The stages of an audit.

    Attributes
    ----------
    bytes_at_once : int
        Of files that are read back: what the groups that are done together have in them, about.
    kinds : dict
        Cluster name -> what `decode` saw of each type of record that is no commit, perhaps more than once of a type.

    Parameters
    ----------
    spark : SparkSession
    captures : mapping
        Cluster name -> its files.
    folder : Path
        For files of this audit alone; whoever made the object deletes it.
    choice : Choice
        Patterns of groups and topics, and the reset policy; the window is that of the files.
    salt : str, optional
        Names in tables are hashed with it.
    stretches : mapping, optional
        Cluster name -> the records of it that count; default: all.
    ends : mapping, optional
        Cluster name -> its samples of log ends, if they are laid out already.

    Notes
    -----
    Tasks write files of their own and return their names; a file that no task returned (one of a task that failed, or ran twice)
    is never looked at.
    """

    bytes_at_once = 1 << 21

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Local],
        folder: Path,
        choice: Choice | None = None,
        salt: str | None = None,
        stretches: Mapping[str, Stretch] | None = None,
        ends: Mapping[str, EndsFile] | None = None,
    ) -> None:
        self._spark, self._captures, self._folder = spark, captures, folder.absolute()
        self._choice, self._salt = choice or Choice(), salt
        self._tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        self._ends = ends
        self._pieces = pieces_of(captures, self._tasks, stretches)
        self._at_once: dict[str, int] = {}
        self._rests: dict[str, list[tuple[str, tuple[int, ...]]]] = {name: [] for name in captures}
        self.kinds: dict[str, list[Kind]] = {name: [] for name in captures}
        self._sums: dict[str, list[tuple[str, tuple[int, ...]]]] = {name: [] for name in captures}
        self._names: set[tuple[str, str]] = set()
        self._judged: list[dict[str, Any]] = []
        self._replayed: list[dict[str, Any]] = []
        self._ranked: list[dict[str, Any]] = []

    def decode(self, target: Folder) -> dict[str, Any]:
        """Write the table `offset_commits` and what cannot be decoded of it, and split off what is no commit.

        Returns
        -------
        dict
            ``errors, tombstones, decoded, transactional, first, last`` of all commits, the last time of each cluster
            (``end0``, ``end1``, .. as Spark gives times), and ``rows`` of each table.

        Raises
        ------
        CaptureError
            A record is there twice.
        """
        pieces = self._pieces
        found = self._mark()
        refuse_twice(pieces, [about["spans"] for about in found], str(self._folder))
        marked, chosen = self._by_cluster(found, "marks"), self._chosen()
        wanted = {
            name: replace(self._wanted(name, marked[name]), chosen=chosen[name], salt=self._salt) for name in self._captures
        }
        told = work_on(self._spark, len(pieces), lambda number: decode_piece(pieces[number], wanted[pieces[number].cluster]))
        for piece, about in zip(pieces, told, strict=True):
            about["cluster"] = name = piece.cluster
            self.kinds[name] += [(kind, n, gone, *map(_spark_time, at)) for kind, n, gone, *at in about["kinds"]]
            if about["rest"] is not None:
                self._rests[name].append((about["rest"], tuple(about["buckets"])))
            self._sums[name] += [(file, tuple(buckets)) for file, buckets in about["sums"].items()]
            self._names |= {(one, other) for one, other in about["names"]}
        seen: dict[str, Any] = {
            name: sum(about[name] for about in told) for name in ("errors", "tombstones", "decoded", "transactional")
        }
        seen["rows"] = self._keep(told, target, ("offset_commits", "decode_errors"))
        seen["first"], seen["last"] = _moment(told, "first", min), _moment(told, "last", max)
        for at, name in enumerate(self._captures):
            seen[f"end{at}"] = _moment([about for about in told if about["cluster"] == name], "last", max)
        return seen

    def _mark(self) -> list[dict[str, Any]]:
        """What `mark_others` tells of the pieces; the same tasks lay out the samples, if that was not done before."""
        pieces, folder = self._pieces, str(self._folder)
        new = {} if self._ends is not None else dict(self._captures)
        local = list(new.values())

        def work(number: int) -> Mapping[str, Any]:
            if number < len(local):
                return {"sampled": asdict(sampled_in(local[number], folder))}
            return mark_others(pieces[number - len(local)], folder)

        told = work_on(self._spark, len(local) + len(pieces), work)
        if new:
            self._sampled = {name: _sampled_of(about) for name, about in zip(new, told, strict=False)}
        return told[len(local) :]

    def _chosen(self) -> dict[str, ChosenGroups]:
        """Per cluster the groups that count; to find those of topics, records are decoded once more."""
        pieces, patterns, topics = self._pieces, self._choice.groups, self._choice.topics
        if not topics:
            return {name: ChosenGroups(patterns) for name in self._captures}
        told = work_on(self._spark, len(pieces), lambda number: groups_of_topics(pieces[number], topics))
        names: dict[str, set[str]] = {name: set() for name in self._captures}
        for piece, about in zip(pieces, told, strict=True):
            names[piece.cluster].update(about["groups"])
        return {name: ChosenGroups(patterns, frozenset(of)) for name, of in names.items()}

    def judge(self, target: Folder) -> Mapping[str, int]:
        """Write the tables that no strategy is asked for, after `decode`: how many rows each has."""
        folder, names = str(self._folder), self._topic_names()
        self._decide_at_once()
        of = {
            name: OfCluster(name, folder, *self._together(name), self._sampled[name], names, self._choice.reset, self._salt)
            for name in self._captures
        }
        shares = self._shares()
        self._judged = work_on(self._spark, len(shares), lambda number: judge_buckets(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, self._judged, strict=True):
            about["cluster"] = name
            about["tables"]["partition_lag"] = about["lag"]
        tables = ("group_generations", "modern_group_records", "rebalances", "partition_lag", "decode_errors")
        return self._keep(self._judged, target, tables)

    def replay(self, target: Folder, strategies: Sequence[str], ends: Mapping[str, int]) -> Mapping[str, int]:
        """Write `replays`, `metrics` and `group_report`, after `judge`; how many rows each has.

        Parameters
        ----------
        target : Folder
        strategies : sequence of str
        ends : mapping
            Cluster name -> time of its last record, in microseconds.
        """
        folder = str(self._folder)
        of = {
            name: Replayed(
                *(name, folder, self._marked(name, "handed"), tuple(strategies), self._marked(name, "asked")),
                *(self._sampled[name].instants, self._marked(name, "groups"), self._until(name), ends[name], self._salt),
            )
            for name in self._captures
        }
        shares = self._shares(_REPLAYING)
        told = work_on(self._spark, len(shares), lambda number: replay_buckets(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, told, strict=True):
            about["cluster"] = name
        self._replayed = told
        return self._keep(told, target, ("replays", "metrics", "group_report"))

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
    def _sampled(self) -> dict[str, Sampled]:
        """The samples of each cluster, if no task has laid them out."""
        folder = str(self._folder)
        if self._ends is None:
            return {name: sampled_in(one, folder) for name, one in self._captures.items()}
        return {name: sampled_by(one, self._ends[name], folder) for name, one in self._captures.items()}

    @property
    def disagreeing(self) -> dict[str, int]:
        """Per cluster of how many logs and instants there are samples that differ."""
        return {name: one.disagreeing for name, one in self._sampled.items()}

    @property
    def lag_span(self) -> tuple[Any, Any]:
        """The first and the last instant in `partition_lag`."""
        return _moment(self._judged, "first", min), _moment(self._judged, "last", max)

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
            if capture.topics is not None:
                found |= {one: topic for topic, one in sorted(topic_ids(capture.topics).items())}
        return found

    def _wanted(self, name: str, rest: Sequence[str]) -> Wanted:
        sampled = self._sampled[name]
        return Wanted(str(self._folder), tuple(rest), sampled.instants, sampled.width, self._captures[name].aborted)

    def _by_cluster(self, told: Iterable[Mapping[str, Any]], kind: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self._captures}
        for piece, about in zip(self._pieces, told, strict=True):
            if about[kind] is not None:
                found[piece.cluster].append(about[kind])
        return found


def _place(files: Mapping[str, str], table: Path, cluster: str) -> None:
    for day, file in files.items():
        goal = table / day_folder(cluster, day)
        goal.mkdir(parents=True, exist_ok=True)
        Path(file).rename(goal / Path(file).name)


def _sampled_of(told: Mapping[str, Any]) -> Sampled:
    about = told["sampled"]
    return Sampled(**{**about, "instants": tuple(about["instants"])})


def _spark_time(us: int | None) -> Any:
    return None if us is None else TimestampType().fromInternal(us)


def _moment(told: Iterable[Mapping[str, Any]], name: str, pick: Any) -> Any:
    known = [about[name] for about in told if about[name] is not None]
    return _spark_time(pick(known) if known else None)
