"""The stages of an update: `direct`, gone on with from what the last audit left of every bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from counterpoise.pipeline.direct.commits.decoding import Wanted
from counterpoise.pipeline.direct.direct import Direct
from counterpoise.pipeline.direct.files.buckets import together
from counterpoise.pipeline.direct.groups.rest import MARKS, marks_in
from counterpoise.pipeline.direct.tasks import Stretch, scratch, work_on
from counterpoise.pipeline.incremental.kept.kept_file import Kept
from counterpoise.pipeline.incremental.kept.kept_places import save_places
from counterpoise.pipeline.incremental.kept.kept_sums import tail_of
from counterpoise.pipeline.incremental.kept.stored_rows import Group
from counterpoise.pipeline.incremental.news import Looked
from counterpoise.pipeline.incremental.saved import ClusterState, micros_of
from counterpoise.pipeline.incremental.tasks.judging_on import News, judge_on
from counterpoise.pipeline.incremental.tasks.replaying_on import ToReplay, replay_on
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import day_folder

__all__ = ["ByTasks", "Places"]


@dataclass(frozen=True)
class Places:
    """Where an update by tasks reads and writes.

    Attributes
    ----------
    out, kept, steps : Path
        The tables so far, and what the last audit left: states of steps, and all else.
    base : Path
        What is left for the next one.
    final, open : Folder
        New rows that will not change, and rows that may.
    scratch : Path
        For files of this audit alone.
    """

    out: Path
    kept: Path
    steps: Path
    base: Path
    final: Folder
    open: Folder
    scratch: Path


class ByTasks(Direct):
    """The stages, in the order `decode`, `tails`, `judge_news`, `replay_news`, `rank`.

    Parameters
    ----------
    spark : SparkSession
    captures : mapping
        Cluster name -> its files.
    choice : Choice
        Patterns of groups, and the reset policy.
    places : Places
    was : mapping
        Cluster name -> how far the last audit came.
    looked : Looked
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Local],
        choice: Choice,
        places: Places,
        was: Mapping[str, ClusterState],
        looked: Looked,
    ) -> None:
        new = {name: Stretch(_positions(one), _positions(looked.now[name])) for name, one in was.items()}
        begun = {name: stretch for name, stretch in new.items() if stretch.begin}
        super().__init__(spark, captures, places.scratch, choice, stretches=begun, ends=looked.ends)
        self._samples, self._seen_in = looked.ends, looked.places
        self._places, self._was, self._now = places, was, looked.now
        self._left: dict[str, Kept] = {name: _kept(places, one) for name, one in was.items()}
        self._news: dict[str, News] = {}
        self._decoded = 0
        self._tails: dict[str, list[tuple[str, Sequence[int]]]] = {name: [] for name in captures}

    def tails(self) -> None:
        """Set the commits apart that are later than what is settled, after `decode`."""
        listed = [
            (name, str(file.absolute()))
            for name in self._captures
            for file in sorted((self._places.final.path / "offset_commits").glob(f"{_folder(name)}/date=*/*.parquet"))
        ]
        after = {name: micros_of(one.final_until) for name, one in self._now.items()}
        aborted = {name: one.aborted for name, one in self._captures.items()}
        folder = str(self._folder)
        told = work_on(
            self._spark, len(listed), lambda at: tail_of(listed[at][1], after[listed[at][0]], aborted[listed[at][0]], folder)
        )
        for (name, _), about in zip(listed, told, strict=True):
            self._tails[name] += [(file, tuple(marks)) for file, marks in about["tail"]]

    def judge_news(self) -> set[Group]:
        """Write the tables that no strategy is asked for; the groups that were made again from their stored records."""
        names = self.names()
        self._decide_at_once()
        of = self._news = {name: self._news_of(name, names) for name in self._captures}
        shares = self._shares()
        self._judged = work_on(self._spark, len(shares), lambda number: judge_on(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, self._judged, strict=True):
            about["cluster"] = name
            about["tables"]["partition_lag"] = about["lag"]
        tables = ("group_generations", "modern_group_records", "rebalances", "partition_lag", "decode_errors")
        self._keep(self._judged, self._places.final, tables)
        self._keep_open(self._judged, ("rebalances", "partition_lag"))
        return {(about["cluster"], group) for about in self._judged for groups in about["again"].values() for group in groups}

    def replay_news(self, strategies: Sequence[str], ends: Mapping[str, int]) -> None:
        """Write `replays`, `metrics` and `group_report`."""
        of = {
            name: ToReplay(
                news,
                handed=self._marked(name, "handed"),
                strategies=tuple(strategies),
                asked=self._marked(name, "asked"),
                instants=news.sampled.instants,
                groups=self._marked(name, "groups"),
                again=self._again(name),
                until=self._until(name),
                end=ends[name],
            )
            for name, news in self._news.items()
        }
        shares = self._shares()
        told = work_on(self._spark, len(shares), lambda number: replay_on(of[shares[number][0]], shares[number][1]))
        for (name, _), about in zip(shares, told, strict=True):
            about["cluster"] = name
        self._replayed = told
        self._keep(told, self._places.final, ("replays", "metrics", "group_report"))
        self._keep_open(told, ("replays", "metrics"))

    def leave(self) -> dict[str, list[Path]]:
        """Put into `now` what the next audit goes on from; the files of it, by the folder they belong into."""
        found: dict[str, list[Path]] = {"kept": [], "steps": [], "ends": []}
        for name, now in self._now.items():
            now.names = [list(pair) for pair in sorted(self._names)]
            kept: dict[str, list[Any]] = {"marks": [[str(file), []] for file in self._marks(name)]}
            for about in (*self._judged, *self._replayed):
                for kind, files in about["kept"].items() if about["cluster"] == name else ():
                    kept.setdefault(kind, []).extend(files)
            for kind, files in kept.items():
                found["steps" if kind == "states" else "kept"] += [Path(file) for file, _ in files]
            ends = self._settled_ends(name)
            if ends is not None:
                kept["ends"] = [[str(ends), []]]
                found["kept"].append(ends)
                found["ends"].append(Path(self._samples[name].file))
            files_seen = scratch(str(self._places.base.absolute()), "kept").with_suffix(".json")
            save_places(self._seen_in[name], files_seen)
            kept["places"] = [[str(files_seen), []]]
            found["kept"].append(files_seen)
            now.kept = {kind: [[Path(file).name, marks] for file, marks in files] for kind, files in kept.items()}
        return found

    def _decide_at_once(self) -> None:
        super()._decide_at_once()
        for name, left in self._left.items():
            self._left[name] = replace(left, now=self._at_once[name])
            self._now[name].buckets_at_once = self._at_once[name]

    def _read_back(self, name: str) -> list[str]:
        return [*super()._read_back(name), *(file for told in self._left[name].files.values() for file, _ in told)]

    def _settled_ends(self, name: str) -> Path | None:
        """Which samples the next audit need not read again: a later one of the others may still be to come."""
        settled = micros_of(self._now[name].final_until)
        if settled is None:
            return None
        place = scratch(str(self._places.base.absolute()), "kept").with_suffix(".json")
        self._samples[name].up_to(settled).save(place)
        return place

    def names(self) -> dict[str, str]:
        """Topic id -> name, by commits of all audits and by metadata."""
        self._names |= {(one, topic) for was in self._was.values() for one, topic in was.names}
        return self._topic_names()

    def decode(self, target: Folder) -> dict[str, Any]:
        """As `Direct.decode`."""
        told = super().decode(target)
        self._decoded = int(told["decoded"])
        return told

    def work(self) -> dict[str, int]:
        """How many commits were decoded, records of groups folded, and generations replayed."""
        of = {"folded": self._judged, "replayed": self._replayed}
        return {"decoded": self._decoded, **{kind: sum(one[kind] for one in told) for kind, told in of.items()}}

    def _news_of(self, name: str, names: Mapping[str, str]) -> News:
        was, now = self._was[name], self._now[name]
        rest, sums = self._together(name)
        return News(
            name=name,
            folder=str(self._folder),
            base=str(self._places.base.absolute()),
            out=str(self._places.out.absolute()),
            rest=rest,
            sums=sums,
            tail=together(self._tails[name], self._at_once[name]),
            kept=self._left[name],
            sampled=self._sampled[name],
            names=names,
            was_settled=micros_of(was.final_until),
            settled=micros_of(now.final_until),
            aborted=self._captures[name].aborted,
            reset=self._choice.reset,
            anew=frozenset(one for one in {**was.topics, **now.topics} if was.topics.get(one) != now.topics.get(one)),
        )

    def _again(self, name: str) -> dict[int, list[str]]:
        mine = [about["again"] for about in self._judged if about["cluster"] == name]
        return {int(bucket): groups for again in mine for bucket, groups in again.items()}

    def _keep_open(self, told: Sequence[Mapping[str, Any]], tables: Sequence[str]) -> None:
        self._keep([{"tables": about["open"], "cluster": about["cluster"]} for about in told], self._places.open, tables)

    def _filled(self, name: str) -> set[int]:
        """All that has something new, or of which the last audit left something."""
        return super()._filled(name) | self._left[name].marks

    def _wanted(self, name: str, rest: Sequence[str]) -> Wanted:
        """No sum reaches across a record that the last audit read either, if it is so late that a commit may come before it."""
        return super()._wanted(name, [*rest, *(file for file, _ in self._left[name].files.get("marks", ()))])

    def _marks(self, name: str) -> list[Path]:
        """A file of the records that the next commits may come before."""
        settled = micros_of(self._now[name].final_until)
        parts = [pq.read_table(file, columns=MARKS.names).cast(MARKS) for file, _ in self._left[name].files.get("marks", ())]
        rows = pa.concat_tables([*parts, pa.Table.from_batches(marks_in(self._rests[name]), MARKS)])
        if settled is not None:
            rows = rows.filter(pc.greater(rows["timestamp"].cast(pa.int64()), settled))
        if not len(rows):
            return []
        place = scratch(str(self._places.base.absolute()), "kept")
        pq.write_table(rows, place)
        return [place]


def _kept(places: Places, was: ClusterState) -> Kept:
    folders = {kind: places.steps if kind == "states" else places.kept for kind in was.kept}
    return Kept(
        {
            kind: tuple((str((folders[kind] / file).absolute()), tuple(marks)) for file, marks in files)
            for kind, files in was.kept.items()
        },
        was.buckets_at_once,
    )


def _positions(state: ClusterState) -> dict[int, int]:
    return {int(index): at for index, at in state.positions.items()}


def _folder(cluster: str) -> str:
    return day_folder(cluster, "").partition("/")[0]
