"""`audit --follow` killed at random moments, and its JVM: nothing is lost or doubled. Minutes: in the long profile."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.commands import WITHIN_S, family, is_jvm, started, wait, wait_for_the_end, wait_or_end
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import assert_exact, once
from tests.pipeline.capture.traffic import Busy, commit, held
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.pieces import comparable_rows

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import exists, join
from counterpoise.pipeline.tables.manifest import manifest_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20_261_122
STRATEGIES = ["sticky", "lag"]
REFUSED = "is writing there"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.kills
@pytest.mark.parametrize("place", ["local", "s3"])
def test_killed_at_random_moments_the_tables_are_those_of_one_audit(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, spark: SparkSession, place: str
) -> None:
    """While it reads what is recorded, and twice while it follows; then its JVM is killed: one line, and exit code 3.

    What it has started ends with it.
    """
    topic = f"killed-{place}"
    broker.create_topic(topic, 6)
    out = join(str(tmp_path) if place == "local" else request.getfixturevalue("s3"), "out")
    log, rng = tmp_path / "log", random.Random(SEED)
    options = ["audit", "--follow", "--bootstrap-server", broker.bootstrap, "--out", out, "--report-every", "15"]
    options += ["--strategies", ",".join(STRATEGIES)]
    commit(broker, "steady", topic, [0])
    busy, when = Busy(broker, topic, SEED, calm=True), []
    try:
        for words in ("reading what is recorded: ", "following: ", "following: "):
            with _said(log, words, options) as process:
                time.sleep(rng.uniform(0, 6))
                when.append(f"{words}{len(_places(out))} steps, manifests {manifest_numbers(out)}")
                assert process.poll() is None, log.read_text()
                everyone = family(process.pid)
                process.kill()
            wait_for_the_end(everyone)
        with _said(log, "following: ", options) as process:
            everyone = family(process.pid)
            os.kill(next(filter(is_jvm, everyone)), signal.SIGKILL)
            assert process.wait(60) == 3
        assert "start again, nothing is lost" in log.read_text().splitlines()[-1]
        wait_for_the_end(everyone)
        with _said(log, "following: ", options) as process:
            busy.stop()
            ends = dict(sorted(held(broker)))
            wait(lambda: _reaches(out, ends), process, "the last steps are missing")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    finally:
        busy.stop()
    capture = join(out, "capture")
    once(broker, capture)
    assert_exact(broker, capture)
    followed = comparable_rows(out, "rebalances")
    whole = audit(spark, capture, tmp_path / "whole", strategies=STRATEGIES).out
    assert followed == comparable_rows(whole, "rebalances")
    audit(spark, {"default": capture}, out, strategies=STRATEGIES, since_last=True)
    for name in TABLES:
        assert comparable_rows(out, name) == comparable_rows(whole, name), name
    print(f"killed at: {when}, {len(_places(out))} steps")  # noqa: T201


@contextlib.contextmanager
def _said(log: Path, words: str, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A new process that has said this. It is started again while the lock of a killed writer on a store refuses it."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        log.write_text("")
        with started(log, *options) as process:
            wait_or_end(lambda: words in log.read_text(), process)
            if REFUSED not in log.read_text():
                assert words in log.read_text(), log.read_text()
                yield process
                return
        time.sleep(5)
    raise AssertionError("the lock of a killed writer did not expire")


def _reaches(out: str, ends: dict[int, int]) -> bool:
    """Whether the table has the last record of every log partition that it has a step of."""
    places = set(_places(out))
    return all((part, ends[part]) in places for part, _ in places)


def _places(out: str) -> list[tuple[int, int]]:
    """Of the rows of the table; a file may go while it is read, because the next update replaces it."""
    while exists(join(out, "tables", "rebalances")):
        with contextlib.suppress(FileNotFoundError):
            return [(row["log_partition"], row["log_offset"]) for row in rows_of(out, "rebalances")]
    return []
