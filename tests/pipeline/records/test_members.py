"""A recording of kafka-python and aiokafka members, with counterpoise and without (`record_members`): who is who."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from counterpoise.wire.user_data import decode_sticky
from tests.pipeline.record_members import GROUPS, PARTITIONS
from tests.pipeline.rows import generation_rows

RECORDS = Path(__file__).parents[2] / "data" / "recorded" / "members" / "consumer_offsets.parquet"
LIBRARIES = {
    "own-range": "kafka-python",
    "own-cooperative": "kafka-python",
    "ours-range": "counterpoise (kafka-python)",
    "ours-sticky": "counterpoise (kafka-python)",
    "ours-cooperative": "counterpoise (kafka-python)",
    "aio-own-roundrobin": "aiokafka",
    "aio-ours-sticky": "counterpoise (aiokafka)",
}


def test_each_member_and_each_leader_is_of_the_library_it_was_started_with() -> None:
    found: dict[str, set[str | None]] = {}
    for batch in pq.read_table(RECORDS).to_batches():
        for row in generation_rows(batch):
            if row["members"]:
                of_group = found.setdefault(row["group_id"], set())
                of_group.update(member["library"] for member in row["members"])
                of_group.add(row["leader_library"])
    assert found == {group: {library} for group, library in LIBRARIES.items()}
    assert found.keys() == GROUPS.keys()


def test_the_bytes_that_counterpoise_is_recognised_by_hide_no_history() -> None:
    """What three members of the eager group claim in their second generation together is what the first one gave them."""
    rows = [row for batch in pq.read_table(RECORDS).to_batches() for row in generation_rows(batch) if row["members"]]
    ours = [(row, member) for row in rows for member in row["members"] if member["library"].startswith("counterpoise")]
    assert all(decode_sticky(member["user_data"]).readable for row, member in ours if row_is_eager(row))
    three = next(row for row in rows if row["group_id"] == "ours-sticky" and len(row["members"]) == 3)
    claimed = [index for member in three["members"] for _, found in decode_sticky(member["user_data"]).owned for index in found]
    assert sorted(claimed) == list(range(PARTITIONS))


def row_is_eager(row: dict[str, Any]) -> bool:
    return bool(row["protocol"] != "cooperative-sticky")
