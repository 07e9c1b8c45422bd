"""The tables while an audit adds to them: what was final before, what is staged, and the files to move when it is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from counterpoise.pipeline.direct.tasks import work_on
from counterpoise.pipeline.incremental.journal import Journal, files_in
from counterpoise.pipeline.incremental.kept.stored_rows import but_groups
from counterpoise.pipeline.incremental.touched import Group
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored import store
from counterpoise.pipeline.stored.keyed import stored
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import day_folder, folder_of

__all__ = ["REVISED", "View"]

REVISED = ("rebalances", "partition_lag", "replays", "metrics")
"""Tables whose newest rows later records may still change: such rows are in files of their own, ``open-*``."""
_REPLACED = ("group_report", "findings")

T = TypeVar("T")


class View:
    """Tables of an audit that is under way.

    Parameters
    ----------
    spark : SparkSession
    journal : Journal
    fresh : bool
        Whether what is in the folder is replaced as a whole.
    anew : bool
        Whether what is in the folder is replaced, but for what was said of earlier days.
    """

    def __init__(self, spark: SparkSession, journal: Journal, *, fresh: bool, anew: bool = False) -> None:
        self._spark, self._journal, self._fresh, self._anew = spark, journal, fresh or anew, anew
        self._final = Folder(journal.staged / "final")
        self._open = Folder(journal.staged / "open")
        self._redone = Folder(journal.staged / "redone")
        self._rewritten: list[Path] = []
        self._whole: dict[str, DataFrame] = {}

    def stage(self, name: str, table: DataFrame) -> DataFrame:
        """Write new rows that will not change; read back."""
        store.put(table, name, self._final)
        self._whole.pop(name, None)
        return store.read(self._spark, name, self._final)

    def stage_by(self, name: str, write: Callable[[Folder], T]) -> tuple[T, DataFrame]:
        """The same with rows that `write` puts into the folder it is given: what it returns, and the table."""
        returned = write(self._final)
        self._whole.pop(name, None)
        return returned, store.read(self._spark, name, self._final)

    def stage_open(self, name: str, table: DataFrame) -> None:
        """Write rows that may still change: all of them, they replace those of the last audit."""
        store.put(table, name, self._open)
        self._whole.pop(name, None)

    def redo(self, groups: Collection[Group]) -> None:
        """Rows of `REVISED` of these groups are made again from the start: those that were final are left out from now on."""
        self._whole.clear()
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

    def before(self, name: str) -> DataFrame:
        """Rows that were final when the last audit ended, but for those of groups that are made again."""
        if not any(file.is_relative_to(folder_of(self._journal.out, name)) for file in self._rewritten):
            held = self._stored(name, "part-*")
            return self._spark.createDataFrame([], stored(name)) if held is None else held
        kept = store.read(self._spark, name, self._redone)
        base = folder_of(self._journal.out, name)
        rest = sorted(set(base.glob("cluster=*/date=*/part-*.parquet")) - set(self._rewritten))
        if not rest:
            return kept
        # Plain scans and no join: whatever reads the table is planned many times over.
        schema = stored(name)
        others = self._spark.read.schema(schema).option("basePath", str(base)).parquet(*map(str, rest))
        return kept.unionByName(others.select(*schema.names))

    def opened(self, name: str) -> DataFrame | None:
        """Rows that the last audit left open."""
        return self._stored(name, "open-*")

    def whole(self, name: str) -> DataFrame:
        """The table as it will be: `before`, and all that is staged."""
        if name not in self._whole:
            table = store.read(self._spark, name, self._final)
            if self._stored(name, "part-*") is not None:
                table = table.unionByName(self.before(name))
            if name in REVISED:
                table = table.unionByName(store.read(self._spark, name, self._open))
            self._whole[name] = table.drop("date")
        return self._whole[name]

    def span(self, name: str, column: str) -> tuple[datetime | None, datetime | None]:
        """The first and the last time in `whole`, by the footers of its files."""
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

    def aside(self, name: str, table: DataFrame) -> DataFrame:
        """What is read many times from now on, written down for this audit only: a plain scan in the place of its plan."""
        place = str(self._journal.staged / "aside" / name)
        table.write.parquet(place)
        return self._spark.read.schema(table.schema).parquet(place)

    def rows_aside(self, name: str, rows: pa.Table) -> DataFrame:
        """The same with rows that are known here: no job is needed for them."""
        place = self._journal.staged / "aside" / name
        place.mkdir(parents=True)
        pq.write_table(rows, place / "part-0.parquet")
        schema = ", ".join(f"{column} string" for column in rows.column_names)
        return self._spark.read.schema(schema).parquet(str(place))

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

    def folders(self, name: str) -> list[Path]:
        """The folders of a table to which rows are only added: as stored, if it goes on, and as staged."""
        stored = folder_of(self._journal.out, name)
        return [self.staged(name)] if self._fresh or not stored.exists() else [stored, self.staged(name)]

    def has_rows(self, name: str) -> bool:
        """Whether such a table has any."""
        return any(pq.read_metadata(file).num_rows for folder in self.folders(name) for file in folder.rglob("*.parquet"))

    def moves(self, number: int) -> Iterator[tuple[Path, Path]]:
        """Staged files and where they go."""
        for kind, folder in (("part", self._final), ("part", self._redone), ("open", self._open)):
            for name in TABLES:
                for file in sorted((folder.path / name).glob("cluster=*/date=*/*.parquet")):
                    place = folder_of(self._journal.out, name) / file.parent.parent.name / file.parent.name
                    yield file, place / f"{kind}-{number:08d}-{folder.path.name}-{file.name}"

    def gone(self) -> Iterable[Path]:
        """Files that go when the staged ones come."""
        if self._fresh and not self._anew:
            return [place for name in TABLES for place in folder_of(self._journal.out, name).glob("*")]
        if self._anew:
            made = [place for name in TABLES if name not in _REPLACED for place in folder_of(self._journal.out, name).glob("*")]
            return [*made, *self._replaced_days()]
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

    def _stored(self, name: str, pattern: str) -> DataFrame | None:
        folder = folder_of(self._journal.out, name)
        if self._fresh or next(folder.glob(f"cluster=*/date=*/{pattern}.parquet"), None) is None:
            return None
        schema = stored(name)
        held = self._spark.read.schema(schema).option("pathGlobFilter", pattern).parquet(str(folder))
        return held.select(*schema.names)


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
