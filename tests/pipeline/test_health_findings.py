"""A recording of real groups with planted trouble, cut off in the middle of it: the findings name these groups and no other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.source.capture import CaptureFiles
from tests.pipeline.in_process import audited_in_process

RECORDING = Path(__file__).parents[2] / "benchmarks" / "data" / "health"
SECONDS = 680
"""Of the recording: which trouble there is at that time is in its truth.jsonl."""
KINDS = FALLING, STALLED, STOPPED, LOSING = "falling_behind", "stalled_partition", "stopped_partition", "losing_data"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    until = pc.min(pq.read_table(RECORDING / "log_offsets.parquet")["sampled_at"]).as_py() + timedelta(seconds=SECONDS)
    for name, column in (("consumer_offsets", "timestamp"), ("log_offsets", "sampled_at")):
        rows = pq.read_table(RECORDING / f"{name}.parquet")
        rows = rows.filter(pc.less_equal(rows[column], pa.scalar(until, rows.schema.field(column).type)))
        pq.write_table(rows.sort_by([(column, "ascending")]), folder / f"{name}.parquet")
    others = [str(RECORDING / name) for name in ("topics.json", "aborted_offsets.json")]
    files = CaptureFiles((str(folder / "consumer_offsets.parquet"),), (str(folder / "log_offsets.parquet"),), *others)
    with pytest.MonkeyPatch.context() as patch:
        audited_in_process(files, folder / "out", patch)
    return folder / "out" / "tables"


def test_the_findings_name_each_group_in_trouble_and_no_other(tables: Path) -> None:
    rows = [row for file in (tables / "group_report").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    found = {(one.group_id, one.kind) for row in rows for one in findings_of({**row, "cluster": "default"}) if one.kind in KINDS}
    assert found == {
        ("hot-partition", FALLING),
        ("hung", STOPPED),
        ("hung-quiet", STOPPED),
        ("paused-partition", STOPPED),
        ("poison-commits", STALLED),
        ("poison-silent", STOPPED),
        ("poison-slow-topic", STALLED),
        ("retention-hung", LOSING),
        ("retention-slow", LOSING),
        ("slow-again-and-again", FALLING),
        ("slow-consumer", FALLING),
        ("slow-in-fits", FALLING),
    }
