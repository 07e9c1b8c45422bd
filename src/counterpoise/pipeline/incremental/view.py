"""The tables while an update adds to them: staged files, where they go, and the files that go when they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from counterpoise.pipeline.fold.table_rows import REVISED
from counterpoise.pipeline.incremental.journal import Journal, files_in
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.tables import folder_of

__all__ = ["View"]

_REPLACED = ("group_report", "findings")


class View:
    """Tables of an update that is under way.

    Attributes
    ----------
    final, open : Path
        Staged rows that will not change, and rows of `REVISED` that later records may still change.

    Parameters
    ----------
    journal : Journal
    fresh : bool
        Whether what is in the folder is replaced as a whole.
    """

    def __init__(self, journal: Journal, *, fresh: bool) -> None:
        self._journal, self._fresh = journal, fresh
        self.final, self.open = journal.staged / "final", journal.staged / "open"

    def span(self, name: str, column: str) -> tuple[datetime | None, datetime | None]:
        """The first and the last time in a table as it will be, by the footers of its files."""
        files = {file for folder in (self.final, self.open) for file in (folder / name).rglob("*.parquet")}
        if not self._fresh:
            files |= set(folder_of(self._journal.out, name).glob("cluster=*/date=*/part-*.parquet"))
        firsts, lasts = [], []
        for about in map(pq.read_metadata, files):
            at = about.schema.names.index(column) if about.num_rows else 0
            for number in range(about.num_row_groups):
                stamps = about.row_group(number).column(at).statistics
                firsts.append(_utc(stamps.min))
                lasts.append(_utc(stamps.max))
        return min(firsts, default=None), max(lasts, default=None)

    def moves(self, number: int) -> Iterator[tuple[Path, Path]]:
        """Staged files and where they go."""
        for kind, folder in (("part", self.final), ("open", self.open)):
            for name in TABLES:
                for file in sorted((folder / name).glob("cluster=*/date=*/*.parquet")):
                    place = folder_of(self._journal.out, name) / file.parent.parent.name / file.parent.name
                    yield file, place / f"{kind}-{number:08d}-{file.name}"

    def gone(self) -> Iterable[Path]:
        """Files that go when the staged ones come."""
        if self._fresh:
            return [place for name in TABLES for place in folder_of(self._journal.out, name).glob("*")]
        old = [file for name in REVISED for file in folder_of(self._journal.out, name).glob("cluster=*/date=*/open-*.parquet")]
        old += folder_of(self._journal.out, "rebalances").glob("cluster=*/date=*/live-*.parquet")
        return [*old, *self._replaced_days()]

    def _replaced_days(self) -> Iterator[Path]:
        """Of days that are reported again: findings that no longer hold go too if no other came in their place."""
        staged = [day for name in _REPLACED for day in (self.final / name).glob("cluster=*/date=*")]
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
