"""Where the audit's Parquet tables lie, and how they are read by Arrow: for whoever has no Spark at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.errors import CaptureError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from counterpoise.pipeline.stored.manifest import Manifest

__all__ = ["NO_DAY", "PARTITIONS", "STAGED", "dataset", "day_folder", "days", "folder_of"]

PARTITIONS = ("cluster", "date")
"""Columns that are folders (``cluster=shop/date=2026-11-21/``), in this order."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a date, as Spark and Hive call it."""
STAGED = ".new"
"""Beside the tables: what an audit that is not finished has made so far; no reader looks into it."""


_ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"}
"""What Spark does not take into the name of a folder as it is."""


def folder_of(out: str | Path, name: str) -> Path:
    """The folder of one table in an audit's output folder."""
    return Path(out) / "tables" / name


def day_folder(cluster: str, day: str) -> str:
    """Where the rows of one cluster and day lie in the folder of a table; written as Spark writes it."""
    return f"cluster={''.join(f'%{ord(sign):02X}' if sign in _ESCAPED else sign for sign in cluster)}/date={day}"


def days(table: Path) -> set[str]:
    """The partitions that a table has, as the names of their two folders (``cluster=shop/date=2026-11-21``)."""
    return {f"{day.parent.name}/{day.name}" for day in table.glob("cluster=*/date=*")}


def dataset(table: str | Path, manifest: Manifest | None = None) -> ds.Dataset:
    """A table as an Arrow dataset, with the columns that are folders.

    Parameters
    ----------
    table : path or URI
        Its folder, ``OUT/tables/NAME``.
    manifest : Manifest, optional
        Of the output folder, if it was read before. The files that it names count; where there is none, all do.

    Raises
    ------
    CaptureError
        There is no such table.

    Notes
    -----
    The types of the two columns are given, not guessed: a cluster may be called 2026.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    from counterpoise.pipeline.storage.files import absolute, exists, filesystem_of
    from counterpoise.pipeline.stored.manifest import load_manifest

    place = absolute(table)
    out, _, name = place.rpartition("/tables/")
    manifest = manifest or (load_manifest(out) if out else None)
    store, root = filesystem_of(place)
    if manifest is None and not exists(place):
        raise CaptureError(f"{table}: no such table; run the audit again")
    files = root if manifest is None else [filesystem_of(file)[1] for file in manifest.below("tables", name)]
    kinds = pa.schema([("cluster", pa.string()), ("date", pa.date32())])
    if not files:
        return ds.FileSystemDataset.from_paths([], schema=kinds, format=ds.ParquetFileFormat(), filesystem=store)
    by_folder = ds.partitioning(kinds, flavor="hive")
    return ds.dataset(files, format="parquet", filesystem=store, partitioning=by_folder, exclude_invalid_files=False)
