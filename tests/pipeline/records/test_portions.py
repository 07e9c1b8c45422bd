"""A huge group costs no more memory than many small ones: what becomes Python objects at once is bounded in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.pipeline import dataframe_api
from counterpoise.pipeline.records.group_records import AT_ONCE, portions
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan
from counterpoise.pipeline.synthetic.group_records import group_records
from counterpoise.pipeline.synthetic.lives import life
from tests.pipeline.rows import generation_batches, generation_rows

MEMBERS, PARTITIONS = 600, 3000


@pytest.fixture(scope="module")
def raw() -> pa.RecordBatch:
    """Generations of one huge group, some hundred kilobytes each, as one batch of raw records."""
    fleet = Fleet(1000, 1, 30)
    topics = [TopicPlan("busy", bytes(16), np.zeros(PARTITIONS, np.int64), np.ones(PARTITIONS))]
    plan = GroupPlan(0, "huge", "range", "java", (0,), MEMBERS, 30, 0, 5000, 4, static=False, deleted=False)
    rows = [
        {"key": key, "value": value, "partition": 0, "offset": offset, "timestamp": at * 1000}
        for offset, (at, key, value) in enumerate(group_records(plan, topics, life(fleet, plan, topics)))
    ]
    types = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "offset": pa.int64()}
    schema = pa.schema([*types.items(), ("timestamp", pa.timestamp("us", tz="UTC"))])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def test_huge_generations_are_decoded_a_few_at_a_time(raw: pa.RecordBatch) -> None:
    of_row = raw.nbytes / raw.num_rows
    assert raw.nbytes > 2 * AT_ONCE
    batches = list(generation_batches([raw]))
    assert max(batch.num_rows for batch in batches) * of_row <= AT_ONCE
    assert [row for batch in batches for row in batch.to_pylist()] == pa.RecordBatch.from_pylist(
        list(generation_rows(raw)), schema=batches[0].schema
    ).to_pylist()


def test_portions_are_bounded_in_bytes_and_in_rows(raw: pa.RecordBatch) -> None:
    small = pa.RecordBatch.from_pydict({"cluster": ["c"] * 200, "group_id": [f"g{at // 70}" for at in range(200)]})
    assert [part.num_rows for part in portions(small)] == [64, 64, 64, 8]
    large = list(portions(raw))
    assert all(part.num_rows == 1 or raw.nbytes / raw.num_rows * part.num_rows <= AT_ONCE for part in large)
    assert sum(part.num_rows for part in large) == raw.num_rows
    assert list(portions(small.slice(0, 0))) == []


def test_groups_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[int] = []
    real = portions

    def counted(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for part in real(batch):
            cut.append(part.num_rows)
            yield part

    monkeypatch.setattr(dataframe_api, "portions", counted)
    payload = b"x" * (AT_ONCE // 4)
    rows = pa.RecordBatch.from_pydict({"cluster": ["c"] * 10, "group_id": ["a"] * 6 + ["b"] * 4, "payload": [payload] * 10})
    read: list[list[str]] = []

    def no_steps(of: Iterator[dict[str, str]]) -> tuple[()]:
        read.append([row["group_id"] for row in islice(of, 1, None)])
        return ()

    monkeypatch.setattr(dataframe_api, "steps_of_group", no_steps)
    assert list(dataframe_api._fold_batches({}, [rows])) == []
    assert read == [["a"] * 6, ["b"] * 4]
    assert max(cut) <= 4
