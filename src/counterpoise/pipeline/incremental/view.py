"""The tables while an update adds to them: staged files, where they go, and the files that go when they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq

from counterpoise.pipeline.fold.table_rows import REVISED
from counterpoise.pipeline.incremental.journal import Journal, files_in
from counterpoise.pipeline.incremental.merging import MOST_BYTES, files_to_merge, merge_files
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
        self._merged: list[tuple[Path, Path]] = []
        self._sources: list[Path] = []

    def merge(self) -> None:
        """Merge stored files of the days that get rows, if there are many; up to `MOST_BYTES` in all."""
        left = 0 if self._fresh else MOST_BYTES
        for staged in sorted(self.final.glob("*/cluster=*/date=*")):
            name, day = staged.parent.parent.name, staged.relative_to(staged.parent.parent)
            place = folder_of(self._journal.out, name) / day
            chosen = [] if name in _REPLACED else files_to_merge(place.glob("part-*.parquet"), left)
            if chosen:
                left -= sum(file.stat().st_size for file in chosen)
                goal = self._journal.staged / "merged" / f"{name}-{uuid4().hex}.parquet"
                goal.parent.mkdir(exist_ok=True)
                merge_files(chosen, goal)
                self._merged.append((goal, place))
                self._sources += chosen

    def span(self, name: str, column: str) -> tuple[datetime | None, datetime | None]:
        """The first and the last time in a table as it will be, by the footers of its files."""
        files = {file for folder in (self.final, self.open) for file in (folder / name).rglob("*.parquet")}
        if not self._fresh:
            files |= set(folder_of(self._journal.out, name).glob("cluster=*/date=*/part-*.parquet"))
        firsts, lasts = [], []
        for file in files:
            for first, last in _footer(file, column)[1]:
                firsts.append(first)
                lasts.append(last)
        return min(firsts, default=None), max(lasts, default=None)

    def moves(self, number: int) -> Iterator[tuple[Path, Path]]:
        """Staged files and where they go."""
        for kind, folder in (("part", self.final), ("open", self.open)):
            for name in TABLES:
                for file in sorted((folder / name).glob("cluster=*/date=*/*.parquet")):
                    place = folder_of(self._journal.out, name) / file.parent.parent.name / file.parent.name
                    yield file, place / f"{kind}-{number:08d}-{file.name}"
        yield from ((file, place / f"part-{number:08d}-{file.name}") for file, place in self._merged)

    def gone(self) -> Iterable[Path]:
        """Files that go when the staged ones come."""
        if self._fresh:
            return [place for name in TABLES for place in folder_of(self._journal.out, name).glob("*")]
        old = [file for name in REVISED for file in folder_of(self._journal.out, name).glob("cluster=*/date=*/open-*.parquet")]
        return [*old, *self._sources, *self._replaced_days()]

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
            sums[name] = sum(_footer(file)[0] for file in held)
        for file, goal in self.moves(number):
            sums[goal.parent.parent.parent.name] += _footer(file)[0]
        return sums


@lru_cache(maxsize=1 << 17)
def _footer(file: Path, column: str | None = None) -> tuple[int, list[tuple[datetime, datetime]]]:
    """Rows of a file, and the first and last time in each row group; remembered, for no file ever changes."""
    about = pq.read_metadata(file)
    if column is None or not about.num_rows:
        return about.num_rows, []
    at = about.schema.names.index(column)
    stamps = [about.row_group(number).column(at).statistics for number in range(about.num_row_groups)]
    return about.num_rows, [(_utc(one.min), _utc(one.max)) for one in stamps]


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
