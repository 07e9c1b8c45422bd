"""The shop capture as it might have looked while it was recorded, and tables compared row by row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.pipeline.incremental.saved import SavedState, load_state
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.manifest import load_manifest
from counterpoise.pipeline.tables.transaction import TableTransaction
from tests.pipeline.conftest import SHOP, rows_of

RECORDS, ENDS = "consumer_offsets.parquet", "log_offsets.parquet"
LATEST = ("group_report", "changes", "findings", "actions")
"""Tables with the state of a day: of earlier days they keep what an audit of then said."""


def moment_at(share: float) -> Any:
    """The time at which so much of the recording was over."""
    stamps = pq.read_table(SHOP / RECORDS, columns=["timestamp"])["timestamp"]
    first, last = (pc.min(stamps).as_py(), pc.max(stamps).as_py())
    return first + (last - first) * share


def cut(folder: Path, records: Callable[[pa.Table], Any], ends: Callable[[pa.Table], Any]) -> Path:
    """Replace what is in `folder` by the rows of the shop capture for which the masks hold, and its companions."""
    folder.mkdir(exist_ok=True)
    for name, keep in ((RECORDS, records), (ENDS, ends)):
        table = pq.read_table(SHOP / name)
        pq.write_table(table.filter(keep(table)), folder / name)
    for name in ("topics.json", "aborted_offsets.json"):
        shutil.copy(SHOP / name, folder / name)
    return folder


def until(share: float, column: str) -> Callable[[pa.Table], Any]:
    """Rows of before that time."""
    return lambda table: pc.less(table[column], pa.scalar(moment_at(share), table[column].type))


def ragged(table: pa.Table) -> Any:
    """Of every log partition another share of its records: a quarter of them are far behind the others."""
    last = {row["partition"]: row["offset_max"] for row in table.group_by("partition").aggregate([("offset", "max")]).to_pylist()}
    share = [0.55 if at % 4 == 3 else 0.85 + 0.01 * (at % 10) for at in range(50)]
    end = [int(last[partition] * share[partition]) for partition in table["partition"].to_pylist()]
    return pc.less(table["offset"], pa.array(end, pa.int64()))


def saved_in(out: Path | str, *, private: bool = False) -> SavedState | None:
    """What the last audit into a folder left; `private` if names are hashed."""
    work, manifest = TableTransaction(str(out), private=private), load_manifest(str(out))
    work.manifest = manifest or work.manifest
    return load_state(work)


def comparable_rows(out: Path | str, name: str) -> list[str]:
    """The rows of a stored table as sorted text; of `LATEST` those of the last day; sums of floats to nine digits."""
    rows = rows_of(out, name, *TABLES[name].names, "date")
    if name in LATEST and rows:
        day = max(row["date"] for row in rows)
        rows = [row for row in rows if row["date"] == day]
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def rows_by_number(out: Path, name: str, number: int) -> list[dict[str, Any]]:
    """The rows that one audit added to a table of records."""
    files = sorted((out / "tables" / name).rglob(f"part-{number:010d}-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def plain(value: Any) -> Any:
    """As JSON can hold it; floats to nine digits."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | bool | None) else str(value)
