"""On a real broker: partitions that stay with a kafka-python 3 consumer are read while its group waits for another member."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.live.scenario import LINES, SESSION_S, Group

from tests.kafka_broker import Broker


@pytest.mark.kafka
@pytest.mark.long  # in process, against the host itself: test_kafka_python_joining.py
def test_kept_partitions_are_read_while_a_round_waits_for_a_member_that_sleeps(broker: Broker, tmp_path: Path) -> None:
    """The round lasts until the sleeper's session ends. Without counterpoise's part nobody would read anything meanwhile."""
    line = next(
        each for each in LINES if (each.library, each.strategy) == ("kafka-python 3.0", "counterpoise cooperative-sticky")
    )
    group = Group(line, broker, tmp_path / "group", static=False)
    with group.producing():
        begin = time.time()
        group.pause(1)
        group.start(3)
        time.sleep(SESSION_S)
        end = time.time()
        received = [each for each in group.received() if begin <= each.time <= end]
    awake = [each for each in received if each.member[0] in "02"]
    kept = {each.partition for each in awake} - {each.partition for each in received if each.member[0] == "3"}
    times = [[each.time for each in awake if each.partition == partition] for partition in kept]
    assert len(kept) >= 4
    assert max(later - before for each in times for before, later in pairwise([begin, *each, end])) < SESSION_S / 3
