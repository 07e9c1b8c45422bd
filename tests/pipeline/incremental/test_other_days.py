"""Which stored files an audit that continues another one replaces: the day that it reports again, and provisional rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.engine import Job
from counterpoise.pipeline.run import Run
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.storage.files import parquet_writer
from counterpoise.pipeline.tables.paths import day_folder
from counterpoise.pipeline.tables.transaction import NewFiles, TableTransaction

OLD, NEW = "2026-01-01", "2026-01-02"


def put(names: NewFiles, table: str, day: str) -> str:
    file = names.table_file(table, "default", day)
    rows = pa.table({"group_id": ["g"]})
    with parquet_writer(file, rows.schema) as writer:
        writer.write_table(rows)
    return file


@pytest.mark.parametrize("fresh", [False, True])
def test_files_of_earlier_days_and_provisional_rows(tmp_path: Path, fresh: bool) -> None:
    work = TableTransaction(str(tmp_path))
    with work.open():
        names = work.new_files
        old = {table: put(names, table, OLD) for table in ("group_report", "findings", "rebalances", "offset_commits")}
        today = {table: put(names, table, NEW) for table in ("group_report", "findings")}
        provisional = put(names, "rebalances", NEW)
        work.publish([*old.values(), *today.values(), provisional], (), {})
        places = {file: work.place_of(work.name_of(file)) for file in (*old.values(), *today.values(), provisional)}
        saved = SimpleNamespace(provisional_files=[work.name_of(provisional)])
        update: Any = SimpleNamespace(saved=None if fresh else saved)
        run = Run(None, Job({}, work, (), AuditScope(), None, None), None, update)  # type: ignore[arg-type]
        final: dict[str, dict[str, list[str]]] = {name: {} for name in TABLES}
        final["group_report"][day_folder("default", NEW)] = ["report"]
        final["rebalances"][day_folder("default", NEW)] = ["steps"]
        changed = {
            name: run._file_changes(name, final, {day_folder("default", NEW): ["open"]} if name == "rebalances" else {})
            for name in TABLES
        }
    assert changed["group_report"][0] == ["report"]
    assert changed["rebalances"][0] == ["steps", "open"]
    gone = {file for _, removed in changed.values() for file in removed}
    # A finding that no longer holds goes too; what was said at the end of an earlier day stays, even if all is read again.
    again = (old["rebalances"], old["offset_commits"]) if fresh else ()
    assert gone == {places[file] for file in (*today.values(), provisional, *again)}
