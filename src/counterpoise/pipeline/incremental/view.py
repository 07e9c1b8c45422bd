"""The tables while an audit adds to them: what was final before, what is staged, and the files to move when it is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from counterpoise.pipeline.direct.tasks import work_on
from counterpoise.pipeline.incremental.journal import Journal, files_in
from counterpoise.pipeline.incremental.kept.stored_rows import Group, but_groups
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import day_folder, folder_of

__all__ = ["REVISED", "View"]

REVISED = ("rebalances", "partition_lag", "replays", "metrics")
"""Tables whose newest rows later records may still change: such rows are in files of their own, ``open-*``."""
_REPLACED = ("group_report", "findings")


class View:
    """Tables of an audit that is under way.

    Parameters
    ----------
    spark : SparkSession
    journal : Journal
    fresh : bool
        Whether what is in the folder is replaced as a whole.
    """

    def __init__(self, spark: SparkSession, journal: Journal, *, fresh: bool) -> None:
        self._spark, self._journal, self._fresh = spark, journal, fresh
        self._final = Folder(journal.staged / "final")
        self._open = Folder(journal.staged / "open")
        self._redone = Folder(journal.staged / "redone")
        self._rewritten: list[Path] = []

    def redo(self, groups: Collection[Group]) -> None:
        """Rows of `REVISED` of these groups are made again from the start: those that were final are left out from now on."""
        of: dict[str, list[str]] = {}
        for cluster, group in sorted(groups):
            of.setdefault(day_folder(cluster, "").partition("/")[0], []).append(group)
        files: list[tuple[Path, Path, list[str]]] = []
        for name in () if self._fresh else REVISED:
            base = folder_of(self._journal.out, name)
            (self._redone.path / name).mkdir(parents=True, exist_ok=True)
            for cluster, mine in of.items():
                found = sorted(base.glob(f"{cluster}/date=*/part-*.parquet"))
                files += [(file, self._redone.path / name / file.relative_to(base), mine) for file in found]
        whole = [(file.absolute(), goal.absolute(), mine) for file, goal, mine in files]
        told = work_on(self._spark, len(whole), lambda number: {"has": but_groups(*whole[number])})
        self._rewritten += [file for (file, *_), one in zip(files, told, strict=True) if one["has"]]

    def span(self, name: str, column: str) -> tuple[datetime | None, datetime | None]:
        """The first and the last time in a table as it will be, by the footers of its files."""
        folders = [self._final, self._open, self._redone]
        files = {file for folder in folders for file in (folder.path / name).rglob("*.parquet")}
        if not self._fresh:
            files |= set(folder_of(self._journal.out, name).glob("cluster=*/date=*/part-*.parquet")) - set(self._rewritten)
        firsts, lasts = [], []
        for about in map(pq.read_metadata, files):
            at = about.schema.names.index(column) if about.num_rows else 0
            for number in range(about.num_row_groups):
                told = about.row_group(number).column(at).statistics
                firsts.append(_utc(told.min))
                lasts.append(_utc(told.max))
        return min(firsts, default=None), max(lasts, default=None)

    @property
    def final(self) -> Folder:
        """Where new rows go that will not change."""
        return self._final

    @property
    def open(self) -> Folder:
        """Where rows go that may still change."""
        return self._open

    @property
    def records(self) -> Path:
        """A folder for what tasks on local files leave to one another."""
        return self._journal.staged / "records"

    def staged(self, name: str) -> Path:
        """The folder of the new rows that will not change."""
        return self._final.path / name

    def moves(self, number: int) -> Iterator[tuple[Path, Path]]:
        """Staged files and where they go."""
        for kind, folder in (("part", self._final), ("part", self._redone), ("open", self._open)):
            for name in TABLES:
                for file in sorted((folder.path / name).glob("cluster=*/date=*/*.parquet")):
                    place = folder_of(self._journal.out, name) / file.parent.parent.name / file.parent.name
                    yield file, place / f"{kind}-{number:08d}-{folder.path.name}-{file.name}"

    def gone(self) -> Iterable[Path]:
        """Files that go when the staged ones come."""
        if self._fresh:
            return [place for name in TABLES for place in folder_of(self._journal.out, name).glob("*")]
        old = [file for name in REVISED for file in folder_of(self._journal.out, name).glob("cluster=*/date=*/open-*.parquet")]
        old += folder_of(self._journal.out, "rebalances").glob("cluster=*/date=*/live-*.parquet")
        return [*old, *self._replaced_days(), *self._rewritten]

    def _replaced_days(self) -> Iterator[Path]:
        """Of days that are told of anew: findings that no longer hold go too where no other came in their place."""
        staged = [day for name in _REPLACED for day in (self._final.path / name).glob("cluster=*/date=*")]
        for cluster, day in sorted({(day.parent.name, day.name) for day in staged}):
            for name in _REPLACED:
                yield from (folder_of(self._journal.out, name) / cluster / day).glob("*.parquet")

    def rows(self, number: int) -> dict[str, int]:
        """How many rows each table will have, by the footers of its files."""
        gone = {file for place in self.gone() for file in files_in(place)}
        sums = {}
        for name in TABLES:
            held = set(folder_of(self._journal.out, name).glob("cluster=*/date=*/*.parquet")) - gone
            sums[name] = sum(pq.read_metadata(file).num_rows for file in held)
        for file, goal in self.moves(number):
            sums[goal.parent.parent.parent.name] += pq.read_metadata(file).num_rows
        return sums


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
