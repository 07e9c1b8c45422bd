"""Golden tables: what audits of the test captures gave when they were frozen, small enough for the repository.

Of each table and group a golden file holds the number of rows, a digest of every column, and some whole rows: of `rebalances`,
`group_report` and `changes` all, of other tables the first and the last. A difference names the table, the group, the columns
and the rows.
`python -m tests.pipeline.freeze_golden [CASE ...]` freezes the audits as they are now; the commit says why they differ.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.keyed import KEYS
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.pieces import plain

__all__ = ["differences", "freeze", "frozen", "summed_up"]

FOLDER = Path(__file__).parents[1] / "data" / "golden"
WHOLE = ("rebalances", "group_report", "changes")
"""Tables of which every row is kept."""
TEXTS = ("suggested_strategy", "suggestion", "migration_note", "fidelity_note")
"""Columns of advice in words, which have tests of their own; so have the tables `findings` and `actions`."""
Golden = dict[str, dict[str, dict[str, Any]]]


def summed_up(out: Path | str) -> Golden:
    """The golden form of the tables in an audit's output folder."""
    return {name: _table(out, name) for name in TABLES if name not in ("findings", "actions")}


def _table(out: Path | str, name: str) -> dict[str, dict[str, Any]]:
    columns = [column for column in (*TABLES[name].names, "date") if column not in TEXTS]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(out, name, *columns):
        groups.setdefault(f"{row['cluster']}/{row.get('group_id')}", []).append(plain(row))
    return {group: _group(name, sorted(rows, key=lambda row: _place(name, row))) for group, rows in sorted(groups.items())}


def _place(name: str, row: Mapping[str, Any]) -> list[tuple[bool, Any]]:
    return [(row[column] is not None, row[column]) for column in KEYS.get(name, ("date",))]


def _group(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    digests = {column: _digest([row[column] for row in rows]) for column in rows[0]}
    return {"rows": len(rows), "columns": digests, "sample": rows if name in WHOLE else rows[:: max(len(rows) - 1, 1)]}


def _digest(values: list[Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def frozen(case: str) -> Golden:
    """The golden tables of a case."""
    found: Golden = json.loads(gzip.decompress((FOLDER / f"{case}.json.gz").read_bytes()))
    return found


def freeze(case: str, found: Golden) -> None:
    """Keep them as the golden ones."""
    (FOLDER / f"{case}.json.gz").write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), 9, mtime=0))


def differences(found: Golden, golden: Golden) -> list[str]:
    """A line for each table and group that differs: numbers of rows, columns, and the first sampled row that differs."""
    lines = []
    for name in golden:
        for group in sorted({*golden[name], *found[name]}):
            was, now = golden[name].get(group), found[name].get(group)
            if was is None or now is None:
                lines.append(f"{name} {group}: {'not expected' if was is None else 'missing'}")
            elif was["columns"] != now["columns"]:
                columns = [column for column, digest in was["columns"].items() if now["columns"].get(column) != digest]
                lines.append(f"{name} {group}: {was['rows']} rows expected, {now['rows']} found; {columns}{_example(was, now)}")
    return lines


def _example(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    for one, other in zip(was["sample"], now["sample"], strict=False):
        for column, value in one.items():
            if other.get(column) != value:
                return f"; for example {column} {other.get(column)!r}, expected {value!r}"
    return ""
