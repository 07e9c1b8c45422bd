"""Figures to begin with: where there is nothing yet there are none, and the newest sample is found at the end of its file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.follow.gauges import Now
from counterpoise.pipeline.follow.seed import Samples, begin_with
from counterpoise.pipeline.stored.tables import folder_of


def test_tables_without_rows_give_no_figures(tmp_path: Path) -> None:
    for name in ("rebalances", "offset_commits"):
        folder_of(tmp_path, name).mkdir(parents=True)
    now = Now()
    begin_with(now, tmp_path, "default")
    assert (now.groups, now.last_record) == ({}, None)


def test_the_newest_sample_is_read_and_only_when_there_is_a_newer_one(tmp_path: Path) -> None:
    samples = Samples(tmp_path)
    assert samples.newest() is None
    _write(tmp_path, [(1, 5), (2, 7), (2, 8)])
    (tmp_path / "topics.json").write_text('{"t": {"topic_id": "a"}, "u": {}}')
    assert samples.newest() == ([("t", 1, 0, 7), ("t", 2, 0, 8)], {"t": "a"})
    assert samples.newest() is None
    _write(tmp_path, [(1, 5), (2, 7), (2, 8), (3, 9)])
    assert samples.newest() == ([("t", 3, 0, 9)], {"t": "a"})


def _write(folder: Path, rows: list[tuple[int, int]]) -> None:
    """Samples: minute and log end, in row groups of one row; the row's place is its partition."""
    table = pa.table(
        {
            "topic": ["t"] * len(rows),
            "partition": pa.array(range(len(rows)), pa.int32()),
            "log_start": pa.array([0] * len(rows), pa.int64()),
            "log_end": pa.array([end for _, end in rows], pa.int64()),
            "sampled_at": [datetime(2026, 11, 21, 1, minute, tzinfo=UTC) for minute, _ in rows],
        }
    )
    pq.write_table(table, folder / "log_offsets.parquet", row_group_size=1)
