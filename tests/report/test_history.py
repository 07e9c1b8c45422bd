"""One group's life as arrays: every partition under its own topic, whatever numbers the records hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from counterpoise.pipeline.schemas import ASSIGNMENT
from counterpoise.report.history import history_of


@pytest.mark.parametrize(
    ("held", "partitions"),
    [
        ([("u", [0, 2]), ("t", [1])], [("t", 1), ("u", 0), ("u", 2)]),
        ([("t", [-1])], [("t", -1)]),  # a damaged record: no number that is really one
        ([("u", [-1, 4]), ("t", [4, 2**31 - 1])], [("t", 4), ("t", 2**31 - 1), ("u", -1), ("u", 4)]),
        ([("t", [])], []),
    ],
)
def test_every_partition_stands_under_its_topic(held: list[tuple[str, list[int]]], partitions: list[tuple[str, int]]) -> None:
    pairs = [{"topic": topic, "partitions": numbers} for topic, numbers in held]
    assignment = pa.array([[{"member_id": "a-1", "client_id": "a", "assigned": pairs}]], ASSIGNMENT)
    history = history_of([{}], 0, assignment)
    assert history.partitions == partitions
    assert sorted(history.partitions[code] for code in history.held.partition.tolist()) == partitions
