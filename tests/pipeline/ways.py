"""The ways of an audit: each takes captures, by cluster, and leaves their tables somewhere. The tables are the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.pipeline.audit import Source, audit
from counterpoise.pipeline.follow.follower import Follow
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.storage.files import join
from tests.pipeline.conftest import data_frames
from tests.pipeline.follow.conftest import running, wait
from tests.pipeline.incremental.pieces import ENDS, RECORDS, saved_in
from tests.s3_server import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WAYS"]

PIECES = 5
FAR_OFF = 10_000_000
"""Offsets of records that a test has added: they come last, whatever their time."""
Way = Callable[["SparkSession", Mapping[str, Path], dict[str, Any], str], str]


def by_path(spark: SparkSession, captures: Mapping[str, Any], options: dict[str, Any], root: str) -> str:
    return audit(spark, dict(captures), join(root, "out"), **options).place


def by_pattern(spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str) -> str:
    scope = replace(options.get("scope", AuditScope()), groups=("*",))
    return by_path(spark, captures, {**options, "scope": scope}, root)


def of_data_frames(spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str) -> str:
    return by_path(spark, {name: data_frames(spark, folder) for name, folder in captures.items()}, options, root)


def on_an_object_store(spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str) -> str:
    places = {name: upload(folder, join(root, f"capture-{at}")) for at, (name, folder) in enumerate(captures.items())}
    return by_path(spark, places, options, root)


def in_five_updates(
    spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str, read: Callable[[Path], Source] = Path
) -> str:
    growing = [_Growing(folder, Path(root) / f"growing-{at}") for at, folder in enumerate(captures.values())]
    for _ in range(PIECES):
        for one in growing:
            one.grow()
        sources = {name: read(one.folder) for name, one in zip(captures, growing, strict=True)}
        made = audit(spark, sources, join(root, "out"), since_last=True, **options)
        assert not made.nothing_new
    return made.place


def of_data_frames_in_five_updates(spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str) -> str:
    return in_five_updates(spark, captures, options, root, lambda folder: data_frames(spark, folder))


def followed(spark: SparkSession, captures: Mapping[str, Path], options: dict[str, Any], root: str) -> str:
    out = join(root, "out")
    growing = [_Growing(folder, Path(root) / f"growing-{at}") for at, folder in enumerate(captures.values())]
    for one in growing:
        one.grow()
    sources = {name: one.folder for name, one in zip(captures, growing, strict=True)}
    with running(Follow(spark, sources, out, trigger=0.1, report_every=1e9, **options)) as follow:
        for _ in range(PIECES - 1):
            updates = follow.status.updates
            wait(lambda updates=updates: follow.status.updates > updates)  # type: ignore[misc]
            for one in growing:
                one.grow()
        wait(lambda: _read(out, private="salt" in options) == sum(one.files for one in growing))
    return out


WAYS: Mapping[str, Way] = {
    "path": by_path,
    "pattern *": by_pattern,
    "DataFrame": of_data_frames,
    "object store": on_an_object_store,
    "--since last, five cuts": in_five_updates,
    "DataFrame --since last, five cuts": of_data_frames_in_five_updates,
    "--follow": followed,
}


def _read(out: str, *, private: bool) -> int:
    """How many files of captures the last update has read."""
    saved = saved_in(out, private=private)
    return 0 if saved is None else sum(len(one.files) for one in saved.clusters.values())


class _Growing:
    """A capture as it may have looked while it was recorded: a file of records and one of samples for each fifth of it."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self.folder, self.files, self._done = folder, 0, 0
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns(RECORDS, ENDS))
        self._tables = {name: pq.read_table(whole / name) for name in (RECORDS, ENDS) if (whole / name).exists()}
        records = self._tables[RECORDS]
        regular = records.filter(pc.less(records["offset"], FAR_OFF))
        self._bounds = np.quantile(_micros(regular["timestamp"]), np.arange(1, PIECES) / PIECES)

    def grow(self) -> None:
        """The next fifth, by time."""
        for name, table in self._tables.items():
            piece = np.searchsorted(self._bounds, _micros(table["timestamp" if name == RECORDS else "sampled_at"]), "right")
            if name == RECORDS:
                piece[table["offset"].to_numpy() >= FAR_OFF] = PIECES - 1
            rows = table.filter(pa.array(piece == self._done))
            if rows.num_rows:
                # File and folder have their final names when they are whole: somebody may be reading.
                folder = self.folder / name
                fresh = folder if folder.exists() else folder.with_name(f".{name}")
                fresh.mkdir(exist_ok=True)
                file = fresh / f"part-{self._done}.parquet"
                pq.write_table(rows, file.with_name(f".{file.name}"))
                file.with_name(f".{file.name}").rename(file)
                fresh.rename(folder)
                self.files += 1
        self._done += 1


def _micros(times: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy()
