"""A running capture and `audit --since last` beside it, again and again. Minutes of work: in the long profile."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.commands import command, started, wait
from tests.kafka_broker import Broker
from tests.pipeline.capture.live_groups import LiveGroup
from tests.pipeline.incremental.pieces import comparable_rows, plain

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
STRATEGIES = ["sticky", "lag"]


@pytest.mark.kafka
@pytest.mark.spark
def test_hour_by_hour_the_tables_are_those_of_one_audit(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    """Three times while members come and go, and once when the capture has ended."""
    broker.create_topic("hourly", 6)
    history, out = tmp_path / "history", tmp_path / "hourly"
    quick = ["--flush-every", 1, "--sample-every", 2]
    live = LiveGroup(broker, tmp_path / "live", "hourly", "live", 7)
    summaries = []
    try:
        live.wait(1)  # Before its first group a broker has no offsets topic.
        with started(
            tmp_path / "log", "capture", "--bootstrap-server", broker.bootstrap, "--out", history, "--follow", *quick
        ) as process:
            wait((history / "consumer_offsets.parquet").exists, process)
            for number in range(ROUNDS):
                live.wait(3 * (number + 1))
                summaries.append(_update(history, out))
                assert summaries[-1]["since_last"] == number + 1
            live.stop()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        live.stop()
    summaries.append(_update(history, out))
    sizes = [about["records"]["total"] for about in summaries]
    assert sizes == sorted(set(sizes))
    whole = audit(spark, history, tmp_path / "whole", strategies=STRATEGIES)
    for name in TABLES:
        assert comparable_rows(out, name) == comparable_rows(whole.out, name), name
    of_updates = {"source": "", "since_last": 0, "since_last_audit": {}}
    one, other = ({**about, **of_updates} for about in (summaries[-1], whole.summary))
    assert plain(one) == plain(other)


def _update(history: Path, out: Path) -> dict[str, Any]:
    done = command("audit", history, "--since", "last", "--out", out, "--strategies", ",".join(STRATEGIES), "--json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
