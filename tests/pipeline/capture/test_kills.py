"""A capture killed with SIGKILL at random moments, while Java and Python groups rebalance: exact, and the audit of it is true."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.source.capture import read_capture
from tests.kafka_broker import Broker
from tests.pipeline.capture.live_groups import LiveGroup
from tests.pipeline.capture.test_capture import (
    Fill,
    assert_exact,
    eventually,
    fill_up,
    following,
    grows,
    once,
    recorded,
    small_disk,
)
from tests.pipeline.capture.traffic import Busy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.kills]
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
KILLS = 20 if LONG else 3
SEED = 20_260_721
Disk = tuple[Path, Fill]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A folder on a disk of 64 MB; and what fills it."""
    with small_disk(tmp_path / "disk", 64) as found:
        yield found


def given(tables: Path, group: str) -> dict[tuple[str, int], set[frozenset[str]]]:
    """(Client id, generation) -> the partitions that the audit says were handed out."""
    found: dict[tuple[str, int], set[frozenset[str]]] = {}
    rows: list[dict[str, Any]] = pq.read_table(tables / "group_generations").to_pylist()
    for row in rows:
        for member in row["members"] if row["group_id"] == group else ():
            parts = frozenset(f"{each['topic']}-{index}" for each in member["assigned"] or () for index in each["partitions"])
            found.setdefault((member["client_id"], row["generation"]), set()).add(parts)
    return found


def merged(out: Path) -> bool:
    """Whether files were merged: the link names a later set of them than the first."""
    return int((out / "consumer_offsets.parquet").readlink().name.rpartition("-")[2]) > 0


def disturb(broker: Broker, number: int) -> None:
    """In the long profile the broker is restarted in order once, and crashes once."""
    if LONG and number == KILLS // 3:
        broker.restart()
    if LONG and number == 2 * KILLS // 3:
        broker.kill()
        broker.start()


def test_killed_at_random_moments_nothing_is_lost_or_doubled_and_the_audit_is_true(
    broker: Broker, disk: Disk, tmp_path: Path, spark: SparkSession
) -> None:
    """At any time no double, at the end no gap; small files were merged; every assignment that a member saw is in the tables.

    One of the kills comes while the disk is full. A capture made in one go, of the same topic, gives the same tables.
    """
    broker.create_topic("restless", 6)
    (out, fill), rng = disk, random.Random(SEED)
    live = LiveGroup(broker, tmp_path / "live", "restless", "live", SEED)
    busy = Busy(broker, "restless", SEED)
    moments = []
    try:
        for number in range(KILLS):
            disturb(broker, number)
            with following(broker, out) as process:
                if number == KILLS // 2 or rng.random() < 0.7:
                    grows(out, process)
                if number == KILLS // 2:
                    fill_up(process, fill)
                moments.append(rng.uniform(0, 1.5))
                time.sleep(moments[-1])
                assert process.poll() is None, process.communicate()
                process.kill()
                process.wait()
            if number == KILLS // 2:
                fill(process.pid, False)
            there = recorded(out)
            assert len(there) == len(set(there))
        with following(broker, out) as process:
            live.wait(3)
            grows(out, process)
            eventually(lambda: merged(out), "small files were never merged", process)
    finally:
        busy.stop()
        live.stop()
    once(broker, out)
    assert_exact(broker, out)
    assert busy.commits > 50
    once(broker, tmp_path / "at-once")
    read_capture(out)
    about = json.loads((out / "capture.json").read_text())
    assert about["gaps"] == []
    assert about["complete"] == (about["missing_before"] == 0)
    tables = audit(spark, out, tmp_path / "audit", strategies=["sticky"]).out / "tables"
    seen, assigned = given(tables, live.group), live.assignments()
    assert len({generation for _, generation, _ in assigned}) >= 3
    assert [each for each in assigned if each[2] not in seen[each[:2]]] == []
    print(f"{KILLS} kills, {len(assigned)} assignments seen by members, {len(recorded(out))} records")  # noqa: T201
    again = pq.read_table(tmp_path / "at-once" / "consumer_offsets.parquet").sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    first = pq.read_table(out / "consumer_offsets.parquet").sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert first.select(["key", "value", "timestamp"]).equals(again.select(["key", "value", "timestamp"]))
