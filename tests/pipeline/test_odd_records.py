"""Records of many megabytes, and clocks that jump: everything is accounted for, and an update loses no row."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from counterpoise.wire.consumer_protocol import decode_subscription, encode_subscription
from counterpoise.wire.offsets_topic.keys import RecordType
from counterpoise.wire.offsets_topic.records import Record, decode_record, encode_value
from counterpoise.wire.offsets_topic.values import GroupMetadataValue
from tests.pipeline.conftest import data_frames, rows_of
from tests.pipeline.incremental.pieces import ENDS, RECORDS, comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURE = Path(__file__).parents[1] / "data" / "recorded" / "kip848"
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
BIG = bytes(50_000_000 if LONG else 10_000_000)
STRATEGIES = ["sticky"]
HOUR = 3_600_000_000
BY_RECORDS = ("offset_commits", "group_generations", "modern_group_records", "rebalances")
"""Tables whose rows follow from records alone, not from what lies between two of them in time."""


def with_large_records(out: Path) -> Path:
    """The capture and three large records: a subscription, a value and a key."""
    shutil.copytree(CAPTURE, out)
    records = pq.read_table(out / RECORDS)
    rows = records.to_pylist()
    commit = next(row for row in rows if row["key"][:2] == b"\x00\x01")
    groups = [(row, decode_record(row["key"], row["value"])) for row in rows if row["key"][:2] == b"\x00\x02"]
    row, value = next(
        (row, record.value)
        for row, record in reversed(groups)
        if isinstance(record, Record) and isinstance(record.value, GroupMetadataValue) and record.value.members
    )
    first, *others = value.members
    subscription = encode_subscription(replace(decode_subscription(first.subscription), user_data=BIG))
    larger = replace(value, generation=99, members=(replace(first, subscription=subscription), *others))
    large: list[dict[str, Any]] = [
        row | {"value": encode_value(RecordType.GROUP_METADATA, larger, 3), "offset": 10_000_000},
        commit | {"value": BIG, "offset": 10_000_001},
        commit | {"key": b"\x00\x01" + BIG, "offset": 10_000_002},
    ]
    large = [one | {"timestamp": rows[-1]["timestamp"]} for one in large]
    pq.write_table(pa.concat_tables([records, pa.Table.from_pylist(large, records.schema)]), out / RECORDS)
    return out


@pytest.mark.parametrize("way", ["DataFrame", "path"] if LONG else ["DataFrame"])
def test_records_of_megabytes_are_accounted_for_and_change_nothing_else(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """The subscription is read; value and key are decode errors."""
    capture, out = with_large_records(tmp_path / "capture"), tmp_path / "out"
    made = audit(spark, capture if way == "path" else data_frames(spark, capture), out, strategies=STRATEGIES)
    assert made.summary["records"]["total"] == pq.read_metadata(capture / RECORDS).num_rows == 379
    assert sorted(row["log_offset"] for row in rows_of(out, "decode_errors")) == [10_000_001, 10_000_002]
    assert 99 in {row["generation"] for row in rows_of(out, "group_generations")}
    whole = audit(spark, CAPTURE, tmp_path / "whole", strategies=STRATEGIES).out
    assert comparable_rows(out, "offset_commits") == comparable_rows(whole, "offset_commits")
    assert comparable_rows(out, "modern_group_records") == comparable_rows(whole, "modern_group_records")


def micros(times: pa.ChunkedArray) -> Any:
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()


def grow(folder: Path, table: pa.Table, keep: Any, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.filter(pa.array(keep)), folder / f"part-{number}.parquet")


@pytest.mark.parametrize(
    ("hours", "equal"),
    [
        pytest.param((-1, -1), (*BY_RECORDS, "partition_lag"), id="set back", marks=pytest.mark.long),
        pytest.param((-1, 0), (*BY_RECORDS, "partition_lag"), id="back for a while"),
        pytest.param((24 * 365, 0), BY_RECORDS, id="a year ahead for a while"),
    ],
)
def test_an_update_loses_nothing_if_clocks_of_brokers_jump(
    spark: SparkSession, tmp_path: Path, hours: Sequence[int], equal: Sequence[str]
) -> None:
    """A third and two thirds into the log; the first jump is within the second update. Samples of log ends keep their times."""
    synthesize(Fleet(records=2_000, groups=5, rebalances=30, seconds=900.0, sample_every=60.0, seed=3), tmp_path / "steady")
    records, ends = (pq.read_table(tmp_path / "steady" / name) for name in (RECORDS, ENDS))
    times, sampled = micros(records["timestamp"]), micros(ends["sampled_at"])
    phase = np.searchsorted(np.quantile(times, [1 / 3, 2 / 3]), times)
    moved = pa.array(times + np.array([0, *hours])[phase] * HOUR).cast(pa.timestamp("us", "UTC"))
    records = records.set_column(records.schema.get_field_index("timestamp"), "timestamp", moved)
    cut = np.quantile(times, 0.25)
    out = tmp_path / "out"
    for number in range(2):
        for name, table, at in ((RECORDS, records, times), (ENDS, ends, sampled)):
            grow(tmp_path / "jumping" / name, table, (at >= cut) == bool(number), number)
        made = audit(spark, {"default": tmp_path / "jumping"}, out, strategies=STRATEGIES, since_last=True)
        assert not made.nothing_new
    whole = audit(spark, tmp_path / "jumping", tmp_path / "whole", strategies=STRATEGIES)
    assert whole.summary["records"]["total"] == len(records)
    assert {name for name in TABLES if name in equal and comparable_rows(out, name) != comparable_rows(whole.out, name)} == set()
    commits = {(row["log_partition"], row["log_offset"]) for row in rows_of(out, "offset_commits")}
    kept = records.filter(pc.equal(pc.binary_slice(records["key"], 0, 2), b"\x00\x01"))
    assert commits == set(zip(kept["partition"].to_pylist(), kept["offset"].to_pylist(), strict=True))
