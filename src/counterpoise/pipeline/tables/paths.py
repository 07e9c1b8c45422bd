"""Paths of the audit's Parquet tables, and their datasets for Arrow without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import absolute, exists, filesystem_of, first_line, join, list_files
from counterpoise.pipeline.tables.manifest import Manifest, load_manifest

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "NO_DAY",
    "PARTITIONS",
    "by_partition",
    "cluster_folder",
    "dataset",
    "day_folder",
    "read_table",
    "rows_of_group",
    "table_files",
]

PARTITIONS = ("cluster", "date")
"""Columns that are folders (``cluster=shop/date=2026-11-21/``), in this order."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a date, by Spark's and Hive's convention."""

_ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"}
"""Characters that Spark escapes in the name of a folder."""
_TRIES = 4


def cluster_folder(cluster: str) -> str:
    """The folder of one cluster in a table, escaped as Spark does."""
    return f"cluster={''.join(f'%{ord(sign):02X}' if sign in _ESCAPED else sign for sign in cluster)}"


def day_folder(cluster: str, day: str) -> str:
    """The folder of one cluster and day in a table, escaped as Spark does."""
    return f"{cluster_folder(cluster)}/date={day}"


def by_partition(files: Iterable[str]) -> dict[str, list[str]]:
    """Files of a table by the names of their two folders."""
    partitions: dict[str, list[str]] = {}
    for file in files:
        partitions.setdefault("/".join(file.split("/")[-3:-1]), []).append(file)
    return partitions


def table_files(table: str | Path, manifest: Manifest | None = None) -> list[str]:
    """The files of a table, as paths or URIs, sorted. Raises `CaptureError` if it does not exist.

    `table` is its folder, ``OUT/tables/NAME``; `manifest` is that of the output folder, if the caller has it. If the folder has
    no manifest, all files that are not hidden are returned.
    """
    place = absolute(table)
    out, _, name = place.rpartition("/tables/")
    manifest = manifest or (load_manifest(out) if out else None)
    if manifest is not None:
        return manifest.below("tables", name)
    if not exists(place):
        raise CaptureError(f"{table}: no such table; run the audit again")
    return [file for file in list_files(place, ".parquet") if "/." not in file.removeprefix(place)]


def rows_of_group(out: str | Path, table: str, group: str, cluster: str | None = None) -> pa.Table:
    """The rows of a group in a table of an audit's output folder `out`; an empty table if there are none.

    Raises `CaptureError` if the folder is no audit's output, and `OptionError` if several clusters have rows of a group of this
    name and `cluster` is None, or if a given `cluster` has none.
    """
    path = join(str(out), "tables", table)
    condition = pc.field("group_id") == group
    if cluster is not None:
        condition &= pc.field("cluster") == cluster
    try:
        rows = read_table(path, condition)
    except (pa.ArrowException, OSError) as error:
        raise CaptureError(f"{path}: no table of an audit ({first_line(error)}); run `counterpoise audit` first") from None
    clusters = pc.unique(rows.column("cluster")).to_pylist()
    if len(clusters) > 1:
        raise OptionError(f"group {group} is in the clusters {', '.join(sorted(clusters))}; name one with --cluster")
    if cluster is not None and not clusters:
        raise OptionError(f"{out}: cluster {cluster} has no rows of group {group} in table {table}")
    return rows


def read_table(table: str | Path, condition: pc.Expression | None = None) -> pa.Table:
    """The rows of a table that meet the condition; errors as for `dataset`.

    If an update deletes a file before it is read, the files of the new manifest are read.
    """
    for _ in range(_TRIES):
        try:
            return dataset(table).to_table(filter=condition)
        except (FileNotFoundError, CaptureError) as error:
            if not any(isinstance(one, FileNotFoundError) for one in (error, error.__cause__)):
                raise
    return dataset(table).to_table(filter=condition)


def dataset(table: str | Path, manifest: Manifest | None = None) -> ds.Dataset:
    """A table as an Arrow dataset, with the columns that are in paths; parameters and errors as for `table_files`.

    The types of these two columns are fixed and not inferred: the name of a cluster may be 2026.
    """
    import pyarrow.dataset as ds

    store, root = filesystem_of(str(table))
    files = [filesystem_of(file)[1] for file in table_files(table, manifest)]
    kinds = pa.schema([("cluster", pa.string()), ("date", pa.date32())])
    if not files:
        known = TABLES.get(absolute(table).rpartition("/")[2], pa.schema([]))
        schema = pa.unify_schemas([known, kinds])
        return ds.FileSystemDataset.from_paths([], schema=schema, format=ds.ParquetFileFormat(), filesystem=store)
    # Below `root` only: a folder above it may be called ``date=...``, too.
    options = {"partitioning": ds.partitioning(kinds, flavor="hive"), "partition_base_dir": root, "exclude_invalid_files": False}
    try:
        return ds.dataset(files, format="parquet", filesystem=store, **options)
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise CaptureError(f"{table}: cannot be read ({first_line(error)}); run the audit again") from error
