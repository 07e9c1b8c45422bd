"""What is stored of groups that are made again: their records, and none of them is decoded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.tables import dataset, folder_of

__all__ = ["Group", "but_groups", "stored_commits", "stored_records"]

Group: TypeAlias = tuple[str, str]
"""Cluster and name."""
_RECORDS = ("group_generations", "modern_group_records")


def stored_records(out: str, cluster: str, groups: Collection[str], *, classic: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Group -> its rows of `group_generations` and `modern_group_records` (or of the first alone), in the order of the log."""
    found: dict[str, list[dict[str, Any]]] = {group: [] for group in sorted(groups)}
    for name in _RECORDS[:1] if classic else _RECORDS:
        for row in _of_groups(out, name, cluster, groups).to_pylist():
            found[row["group_id"]].append({"record_type": None, **row})
    for rows in found.values():
        rows.sort(key=lambda row: (row["log_partition"], row["log_offset"]))
    return found


def stored_commits(out: str, cluster: str, groups: Collection[str]) -> pa.Table:
    """The rows of groups in `offset_commits`."""
    return _of_groups(out, "offset_commits", cluster, groups)


def but_groups(file: Path, goal: Path, groups: Sequence[str]) -> bool:
    """Whether a file has rows of any of these groups; if so, the others are written to `goal`."""
    of = pa.array(groups, pa.string())
    with pq.ParquetFile(file) as opened:
        keep = [
            pc.invert(pc.is_in(opened.read_row_group(at, ["group_id"])["group_id"], of)).to_numpy()
            for at in range(opened.num_row_groups)
        ]
        if all(mask.all() for mask in keep):
            return False
        if any(mask.any() for mask in keep):
            goal.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(goal, opened.schema_arrow, compression="snappy", store_schema=False) as out:
                for at, mask in enumerate(keep):
                    if mask.any():
                        out.write_table(opened.read_row_group(at).take(pa.array(np.flatnonzero(mask))))
    return True


def _of_groups(out: str, name: str, cluster: str, groups: Collection[str]) -> pa.Table:
    columns = TABLES[name].names[1:]
    found = dataset(folder_of(out, name)) if groups else None
    if found is None or not found.files:
        return arrow_schema(StructType(TABLES[name].fields[1:])).empty_table()
    wanted = (ds.field("cluster") == cluster) & ds.field("group_id").isin(sorted(groups))
    return found.to_table(columns=columns, filter=wanted)
