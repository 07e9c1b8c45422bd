"""Where the audit's Parquet tables lie, and how they are read by Arrow: for whoever has no Spark at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.dataset as ds

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


def dataset(table: Path) -> ds.Dataset:
    """A table as an Arrow dataset, with the columns that are folders.

    Notes
    -----
    The types of the two are told, not guessed: a cluster may be called 2026.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    kinds = pa.schema([("cluster", pa.string()), ("date", pa.date32())])
    return ds.dataset(table, format="parquet", partitioning=ds.partitioning(kinds, flavor="hive"), exclude_invalid_files=False)
