"""`audit` and `audit --since last` killed at random moments, on a disk and on an object store. Minutes: in the long profile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.commands import command, command_line, family, is_jvm, started, wait_for_the_end
from tests.pipeline.incremental.pieces import comparable_rows, cut, until
from tests.s3_server import upload

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import list_files
from counterpoise.pipeline.tables.manifest import load_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, KILLS = 20_261_123, 4
STRATEGIES = "sticky,lag"
REFUSED, ENDED = "another audit is writing there", "none: it had ended"


@pytest.mark.spark
@pytest.mark.parametrize("since_last", [False, True])
@pytest.mark.parametrize("place", ["local", "s3"])
def test_killed_at_random_moments_the_tables_are_those_of_an_undisturbed_audit(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, place: str, since_last: bool
) -> None:
    """The driver, its JVM or a Python worker; what they have started ends with them, and the next audit completes it."""
    root = str(tmp_path) if place == "local" else request.getfixturevalue("s3")
    out, rng, log = f"{root}/out", random.Random(SEED), tmp_path / "log"
    victims = list[str]()
    for share in (0.3, 2.0) if since_last else (2.0,):
        folder = cut(tmp_path / "capture", until(share, "timestamp"), until(share, "sampled_at"))
        source = str(folder) if place == "local" else upload(folder, f"{root}/capture")
        options = ["audit", source, "--out", out, "--strategies", STRATEGIES, *(("--since", "last") if since_last else ())]
        victims += [_killed(log, options, rng) for _ in range(KILLS)]
        while REFUSED in (ended := command(*options)).stderr:
            time.sleep(5)
        assert ended.returncode == 1, ended.stderr
    whole = audit(spark, tmp_path / "capture", tmp_path / "whole", strategies=STRATEGIES.split(",")).out
    for name in TABLES:
        assert comparable_rows(out, name) == comparable_rows(whole, name), (name, victims)
    manifest = load_manifest(out)
    assert manifest is not None
    there = {file.removeprefix(f"{out}/") for folder in ("tables", ".state") for file in list_files(f"{out}/{folder}")}
    assert there == manifest.files
    hit = [one for one in victims if one != ENDED]
    assert len(hit) * 2 > len(victims), f"most had ended before: {victims}"
    assert len(set(hit)) > 1, f"all hit alike: {victims}"


def _killed(log: Path, options: list[str], rng: random.Random) -> str:
    """Start it, kill one of its processes some seconds later, and wait until all are gone; who was hit, or `ENDED`.

    It is started again while the lock of a killed writer on a store refuses it.
    """
    while True:
        log.write_text("")
        with started(log, *options) as process:
            try:
                code = process.wait(rng.uniform(2, 8))
            except subprocess.TimeoutExpired:
                return _kill_one_of(process, rng)
        said = log.read_text()
        if REFUSED not in said:
            assert code == 1, said
            return ENDED
        time.sleep(5)


def _kill_one_of(process: subprocess.Popen[bytes], rng: random.Random) -> str:
    everyone = family(process.pid)
    java = list(filter(is_jvm, everyone))
    workers = [pid for pid in everyone if b"pyspark.daemon" in command_line(pid)]
    who = rng.choice([name for name, pids in (("driver", [process.pid]), ("JVM", java), ("worker", workers)) if pids])
    with suppress(ProcessLookupError):
        os.kill({"driver": process.pid, "JVM": (java or [0])[0], "worker": (workers or [0])[-1]}[who], signal.SIGKILL)
    process.wait(120)
    wait_for_the_end(everyone)
    return who
