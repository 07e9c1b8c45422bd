"""Tables while an audit adds to them, in a folder that was given as a path from here: as most people give it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.incremental.journal import Journal
from counterpoise.pipeline.incremental.view import View
from tests.pipeline.conftest import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHEN = datetime(2026, 11, 22, tzinfo=UTC)


def test_rows_of_groups_that_are_made_again_go(spark: SparkSession, tmp_path: Path) -> None:
    out = Path(os.path.relpath(tmp_path / "out"))
    journal, stored = Journal(out), out / "tables" / "rebalances" / "cluster=c" / "date=2026-11-22"
    stored.mkdir(parents=True)
    stamps = pa.array([WHEN] * 2, pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"group_id": ["g", "h"], "log_ts": stamps}), stored / "part-1.parquet")
    with journal.open():
        view = View(spark, journal, fresh=False)
        view.redo({("c", "g")})
        assert list(view.gone()) == [stored / "part-1.parquet"]
        journal.commit(list(view.moves(2)), view.gone())
    assert [row["group_id"] for row in rows_of(out, "rebalances", "group_id")] == ["h"]
