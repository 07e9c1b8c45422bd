"""The state of a group grows with its partitions and members, not with how often members left and joined."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.fold.bucket import Bucket, Chunk, FoldSpec
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.scan.aggregation import AGGREGATE_COLUMNS
from tests.pipeline.fold.histories import log_ends

Row = dict[str, Any]
SECOND = 1_000_000
PARTITIONS = 3
ROUNDS = 20
"""In a chunk, after which the state is saved."""
TOPIC_ID = "A" * 22


class Ignored:
    """Takes rows of tables."""

    def add_step(self, row: Any) -> None: ...

    def add_lag(self, parts: Any, rows: Any) -> None: ...

    def add_health(self, parts: Any, rows: Any) -> None: ...

    def add_replay(self, replay: Any) -> None: ...

    def add_change(self, row: Any) -> None: ...

    def take_metrics(self) -> pa.Table | None: ...


def place(offset: int) -> Row:
    log_ts = datetime.fromtimestamp(offset, UTC)
    return {"group_id": "g", "log_partition": 0, "log_offset": offset, "log_ts": log_ts, "deleted": False}


def assigned(members: list[str]) -> dict[str, list[int]]:
    return {member: list(range(PARTITIONS))[at :: len(members)] for at, member in enumerate(members)}


def classic(members: list[str], generation: int, offsets: Iterator[int]) -> Iterator[Row]:
    """A generation, eager; the client id is the first letter of the member id."""
    listed = [
        {
            **dict.fromkeys(("group_instance_id", "user_data")),
            "member_id": member,
            "client_id": member[0],
            "rebalance_timeout_ms": 300_000,
            "topics": ["t"],
            "owned": [],
            "owned_generation": -1,
            "subscription_version": 1,
            "assigned": [{"topic": "t", "partitions": held}],
            "library": "java",
        }
        for member, held in assigned(members).items()
    ]
    about = {"generation": generation, "protocol_type": "consumer", "protocol": "range", "leader": members[0]}
    more = {"leader_library": "java", "record_type": None, "members": listed}
    row = place(next(offsets))
    yield {**row, **about, **more, "state_ts": row["log_ts"]}


def modern(members: list[str], epoch: int, offsets: Iterator[int], before: list[str]) -> Iterator[Row]:
    """An epoch of a KIP-848 group and the records of the members that changed."""

    def record(kind: int, member: str | None, value: Row | None) -> Row:
        about = {"client_id": (member or "-")[0], "rebalance_timeout_ms": 300_000, "epoch": None}
        payload = None if value is None else json.dumps(value)
        return {
            **place(next(offsets)),
            **about,
            "record_type": kind,
            "member_id": member,
            "payload": payload,
            "deleted": not value,
        }

    for member in before:
        if member not in members:
            yield from (record(kind, member, None) for kind in (8, 7, 5))
    for member in members:
        if member not in before:
            yield record(5, member, {"client_id": member[0], "subscribed_topic_names": ["t"]})
    yield record(3, None, {"epoch": epoch})
    for member, held in assigned(members).items():
        yield record(7, member, {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": held}]})
    yield record(6, None, {"assignment_epoch": epoch})
    for member in members:
        yield record(8, member, {"member_epoch": epoch, "state": 0})


def commit(partition: int, offset: int) -> Row:
    time = offset * SECOND
    of_time = dict.fromkeys(("ts", "max_ts", "live_ts", "live_until"), time)
    about = {"group_id": "g", "topic": "t", "partition": partition, "topic_id": None, "deleted": False}
    return {**about, **of_time, "offset": offset, "live_offset": offset, "committed": offset, "live": 1, "dead": 0}


def size_after(rounds: int, kind: str, *, new_ids: bool) -> int:
    """Bytes of the state after a member has left and joined again that often, under its own id or another one."""
    bucket, offsets, epoch = (
        Bucket(FoldSpec((), {TOPIC_ID: "t"}), log_ends([]), PlanCache()),
        count(1_700_000_000),
        100,
    )
    members, before = ["a-0000", "b-0000", "c-0000"], list[str]()
    for first in range(0, rounds, ROUNDS):
        rows, commits = list[Row](), list[Row]()
        for number in range(first, first + ROUNDS):
            back = f"c-{number + 1:04}" if new_ids else "c-0000"
            for now in (members, members[:2], [*members[:2], back]):
                epoch += 1
                rows += classic(now, epoch, offsets) if kind == "classic" else modern(now, epoch, offsets, before)
                commits += [commit(partition, next(offsets)) for partition in range(PARTITIONS)]
                before = members = now
        taken: Any = Ignored()
        bucket.advance(Chunk(rows, pa.Table.from_pylist(commits, AGGREGATE_COLUMNS), next(offsets) * SECOND), taken)
        bucket = Bucket(bucket._spec, bucket._ends, bucket._plans, bucket.state())
    return len(bucket.state())


@pytest.mark.parametrize("kind", ["classic", "modern"])
def test_six_hundred_leaves_and_joins_take_no_more_than_eighty(kind: str) -> None:
    """A few bytes more are digits of larger counts."""
    assert size_after(300, kind, new_ids=False) <= size_after(40, kind, new_ids=False) + 64


@pytest.mark.parametrize("kind", ["classic", "modern"])
def test_of_a_member_that_never_comes_back_a_few_bytes_stay(kind: str) -> None:
    """Eight bytes as Base64, because the report counts distinct members."""
    few, many = (size_after(rounds, kind, new_ids=True) for rounds in (40, 300))
    assert many - few <= 260 * 12 + 64
