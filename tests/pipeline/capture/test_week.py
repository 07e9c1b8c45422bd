"""A week in fast motion: capture and broker are killed in turns, the disk is full twice, the broker compacts its log meanwhile.

Minutes: in the long profile.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.capture.backup.segments import SegmentCounts, partition_folders, read_partition
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.source.capture import read_capture
from tests.java import java_home
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import fill_up, following, grows, once, recorded, small_disk
from tests.pipeline.capture.traffic import Busy, Where, held

pytestmark = pytest.mark.kafka
SEED = 20_261_125
KILLS = 20
FULL = (6, 13)
"""The turns in which the disk is full."""
COMPACTING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "2000",
    "log.roll.ms": "3000",
    "log.segment.delete.delay.ms": "500",
}


@pytest.fixture
def compacting(tmp_path: Path) -> Iterator[Broker]:
    """A broker that compacts its offsets topic every few seconds."""
    folder = tmp_path / "node"
    folder.mkdir()
    node = Broker(folder, Path(java_home()) / "bin" / "java", settings=COMPACTING)
    try:
        node.start()
        yield node
    finally:
        node.stop()


def gaps(there: set[Where], out: Path) -> set[Where]:
    """Records that the broker has now, and that a capture which has recorded later ones of their partition lacks."""
    mine = set(recorded(out))
    last = {partition: max(offset for at, offset in mine if at == partition) for partition, _ in mine}
    return {(partition, offset) for partition, offset in there if offset <= last.get(partition, -1)} - mine


def content(table: pa.Table) -> dict[Where, tuple[Any, ...]]:
    """Key, value and time by place."""
    columns = [table[name].to_pylist() for name in ("partition", "offset", "key", "value", "timestamp")]
    return {(partition, offset): rest for partition, offset, *rest in zip(*columns, strict=True)}  # type: ignore[misc]


def test_nothing_that_was_there_at_two_polls_is_lost_and_nothing_is_twice(compacting: Broker, tmp_path: Path) -> None:
    """After each kill of the capture, and of the broker; in the end what is recorded is what the broker's own files have."""
    compacting.create_topic("week", 6)
    rng, busy = random.Random(SEED), Busy(compacting, "week", SEED)
    with small_disk(tmp_path / "disk", 64) as (out, fill):
        try:
            for turn in range(KILLS):
                with following(compacting, out) as process:
                    grows(out, process)
                    compacting.kill()
                    compacting.start()
                    grows(out, process)
                    if turn in FULL:
                        fill_up(process, fill)
                    time.sleep(rng.uniform(0, 2))
                    process.kill()
                    process.wait()
                    if turn in FULL:
                        fill(process.pid, False)
                there = recorded(out)
                assert len(there) == len(set(there)), f"turn {turn}: {Counter(there).most_common(3)}"
                lost = gaps(held(compacting), out)
                assert lost == set(), f"turn {turn}: {sorted(lost)[:5]}"
        finally:
            busy.stop()
        once(compacting, out)
        read_capture(out)
        mine = content(pq.read_table(out / "consumer_offsets.parquet"))
        assert held(compacting) <= mine.keys()
        compacting.stop()
        folders = partition_folders(compacting.folder / "data")
        logs = (read_partition(where, index, SegmentCounts()) for index, where in folders.items())
        own = content(pa.Table.from_batches(in_batches(itertools.chain.from_iterable(logs))))
        assert own
        assert [place for place, record in own.items() if mine.get(place) != record] == []
        compacted = len(mine.keys() - own.keys())
        print(f"{KILLS} kills each; {len(mine)} records, {len(own)} of them still in the broker's log")  # noqa: T201
        assert compacted > len(mine) / 2, "the log was hardly compacted"
