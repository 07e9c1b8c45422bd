"""Racks on two real brokers of one cluster, each in a rack of its own: what members say of themselves reaches every leader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients.fleet import Fleet, fleet
from tests.clients.records import group_history
from tests.java import java_home
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka

NODES = [2, 2, 2, 2, 1, 1]
"""The node of each partition; without racks the first of two members would get the first three under `range`."""
IN_RACK_1, PARTITIONS = {4, 5}, 6
GROUPS = [
    ("RangeAssignor", "kafka_python", "java"),
    ("RangeAssignor", "java", "aiokafka"),
    ("StickyAssignor", "aiokafka", "kafka_python"),
    ("RangeAssignor", "aiokafka", "kafka_python"),
    ("CooperativeStickyAssignor", "kafka_python", "java"),
]
"""Strategy, the kind that leads and is in rack 1, the kind that follows and is in rack 2."""


@pytest.fixture
def two_racks(tmp_path: Path) -> Iterator[Broker]:
    """The first of two brokers, r1 and r2."""
    java = Path(java_home()) / "bin" / "java"
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first = Broker(folders[0], java, settings={"broker.rack": "r1"})
    second = Broker(folders[1], java, settings={"broker.rack": "r2"}, beside=first)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Broker.start, (first, second)))
        yield first
    finally:
        second.stop()
        first.stop()


def settings(kind: str, rack: str) -> dict[str, Any]:
    """How each client gets its rack: kafka-python 3 and Java by the consumer's own setting alone."""
    given: dict[str, Any] = {"config": {"client_rack": rack}}
    return given | {"options": {"rack": rack}} if kind == "aiokafka" else given


def test_members_read_from_their_own_rack_as_far_as_balance_allows_whoever_leads(two_racks: Broker, tmp_path: Path) -> None:
    """Ours leading ours, ours reading Java's rack, Java reading ours; the groups run side by side."""
    with ExitStack() as stack:
        groups: list[Fleet] = []
        for at in range(len(GROUPS)):
            two_racks.create_topic_on(f"racks-{at}", NODES)
            folder = tmp_path / f"group-{at}"
            folder.mkdir()
            groups.append(stack.enter_context(fleet(two_racks, folder, f"racks-{at}", session_ms=20_000)))
        for which, rack in (("a-first", "r1"), ("b-second", "r2")):
            for at, (members, (strategy, first, second)) in enumerate(zip(groups, GROUPS, strict=True)):
                kind = first if which == "a-first" else second
                members.start(which, kind, [strategy], [f"racks-{at}"], **settings(kind, rack))
            for at, members in enumerate(groups):
                members.wait_settled(f"racks-{at}", PARTITIONS)
        for at, (members, case) in enumerate(zip(groups, GROUPS, strict=True)):
            owned = {int(each.rpartition("-")[2]) for each in members.owned("a-first")}
            assert owned >= IN_RACK_1, (case, owned)
            last = group_history(two_racks, f"racks-{at}").generations[-1]
            assert last.clients[last.leader] == "a-first", case
