"""`audit --follow` killed again and again while groups rebalance: nothing is lost or doubled. Minutes: in the long profile."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.commands import started, wait
from tests.kafka_broker import Broker
from tests.pipeline.capture.live_groups import LiveGroup
from tests.pipeline.capture.test_capture import assert_exact, once
from tests.pipeline.capture.traffic import Busy
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.pieces import comparable_rows

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20_261_122
PHASES = ("auditing what is recorded: ", "following: ", "following, auditing: ")
"""What it says when it is about to be killed."""
STRATEGIES = ["sticky", "lag"]


@pytest.mark.kafka
@pytest.mark.spark
def test_killed_at_random_moments_the_tables_are_those_of_one_audit(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    """Twice in every phase; between kills audits take over what was live, while members come and go."""
    broker.create_topic("killed", 6)
    out, log, rng = tmp_path / "out", tmp_path / "log", random.Random(SEED)
    options = ["audit", "--follow", "--bootstrap-server", broker.bootstrap, "--out", out, "--report-every", 8]
    options += ["--strategies", ",".join(STRATEGIES)]
    live, busy = LiveGroup(broker, tmp_path / "live", "killed", "live", SEED), Busy(broker, "killed", SEED)
    phases = [*PHASES, *rng.sample(PHASES, len(PHASES))]
    moments = []
    try:
        for phase in phases:
            with started(log, *options) as process:
                wait(_says(log, phase), process)
                moments.append(rng.uniform(0, 12))
                time.sleep(moments[-1])
        with started(log, *options) as process:
            for said in PHASES + PHASES[1:]:
                wait(_says(log, said), process)
            wait(lambda: {g for _, g, _ in live.told()[:-6]} <= _generations(out), process, "a rebalance is missing")
            places = _places(out)
            assert len(places) == len(set(places)), "a row is there twice while an audit hands over"
            live.stop()
            busy.stop()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        busy.stop()
        live.stop()
    once(broker, out / "capture")
    assert_exact(broker, out / "capture")
    update(spark, {"default": out / "capture"}, out, strategies=STRATEGIES)
    whole = audit(spark, out / "capture", tmp_path / "whole", strategies=STRATEGIES).out
    for name in TABLES:
        assert comparable_rows(out, name) == comparable_rows(whole, name), name
    assert {g for _, g, _ in live.told()} <= _generations(out)
    killed = [f"{phase.strip(': ')} + {seconds:.1f} s" for phase, seconds in zip(phases, moments, strict=True)]
    print(f"killed {killed}, {len(_places(out))} steps")  # noqa: T201


def _says(log: Path, words: str) -> Callable[[], bool]:
    """Whether the log says this from now on."""
    before = log.read_text().count(words) if log.exists() else 0
    return lambda: log.read_text().count(words) > before


def _places(out: Path) -> list[tuple[int, int]]:
    return [(row["log_partition"], row["log_offset"]) for row in rows_of(out, "rebalances")]


def _generations(out: Path) -> set[int]:
    """Of the live group, those that the table has."""
    return {row["generation"] for row in rows_of(out, "rebalances") if row["group_id"] == "live"}
