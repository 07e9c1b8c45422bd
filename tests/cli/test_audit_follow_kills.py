"""`audit --follow` killed while it audits, and while it follows: nothing is lost or doubled. Minutes: in the long profile."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.commands import family, started, wait, wait_for_the_end
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import assert_exact, once
from tests.pipeline.capture.traffic import Busy, commit, held
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.pieces import comparable_rows

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.tables import folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20_261_122
AUDITING, FOLLOWING, BOTH = "auditing what is recorded: ", "following: ", "following, auditing: "
"""What it says of what it does."""
KILLS = ((AUDITING,), (FOLLOWING, BOTH))
"""What it has said when it is about to be killed."""
STRATEGIES = ["sticky", "lag"]


@pytest.mark.kafka
@pytest.mark.spark
def test_killed_at_random_moments_the_tables_are_those_of_one_audit(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    """In every phase, once there are live rows where it follows; at the end an audit takes over what was live, and more comes.

    Steps are those of one audit before another one has gone over them. What it has started ends with it.
    """
    broker.create_topic("killed", 6)
    out, log, rng = tmp_path / "out", tmp_path / "log", random.Random(SEED)
    options = ["audit", "--follow", "--bootstrap-server", broker.bootstrap, "--out", out, "--report-every", 15]
    options += ["--strategies", ",".join(STRATEGIES)]
    commit(broker, "steady", "killed", [0])
    busy, told = Busy(broker, "killed", SEED, calm=True), []
    try:
        for words in KILLS:
            with started(log, *options) as process:
                _until(log, words, out, process)
                time.sleep(rng.uniform(0, 6))
                told.append(f"{log.read_text().splitlines()[-1]}, {len(_live(out))} live files")
                everyone = family(process.pid)
                process.kill()
            wait_for_the_end(everyone)
        with started(log, *options) as process:
            _until(log, (AUDITING, FOLLOWING, BOTH, FOLLOWING), out, process)
            places = _places(out)
            assert len(places) == len(set(places)), "a row is there twice while an audit hands over"
            busy.stop()
            ends = dict(sorted(held(broker)))
            wait(lambda: _reaches(out, ends), process, "the last steps are missing")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        busy.stop()
    once(broker, out / "capture")
    assert_exact(broker, out / "capture")
    streamed = comparable_rows(out, "rebalances")
    whole = audit(spark, out / "capture", tmp_path / "whole", strategies=STRATEGIES).out
    assert streamed == comparable_rows(whole, "rebalances")
    update(spark, {"default": out / "capture"}, out, strategies=STRATEGIES)
    for name in TABLES:
        assert comparable_rows(out, name) == comparable_rows(whole, name), name
    print(f"killed at: {told}, {len(_places(out))} steps")  # noqa: T201


def _until(log: Path, words: tuple[str, ...], out: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a process that has just been started has said each of these, one after the other; and, following, has live rows."""
    at = len(log.read_text())
    for each in words:
        wait(_says(log, each, at), process, each)
        at = log.read_text().index(each, at) + len(each)
        if each == FOLLOWING:
            wait(lambda: bool(_live(out)), process, "no row came from the stream")


def _says(log: Path, words: str, since: int) -> Callable[[], bool]:
    return lambda: words in log.read_text()[since:]


def _live(out: Path) -> list[Path]:
    """Files of rows that no audit has gone over."""
    return list(folder_of(out, "rebalances").rglob("live-*.parquet"))


def _reaches(out: Path, ends: dict[int, int]) -> bool:
    """Whether the table has the last record of every log partition that it has a step of."""
    places = set(_places(out))
    return all((part, ends[part]) in places for part, _ in places)


def _places(out: Path) -> list[tuple[int, int]]:
    """Of the rows of the table; a file may go while it is read, because an audit has its rows."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return [(row["log_partition"], row["log_offset"]) for row in rows_of(out, "rebalances")]
