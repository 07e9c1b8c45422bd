"""An audit whose object store or workers fail: the tables of an undisturbed one, or one line and exit code 3, then those."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from counterpoise.cli.app import app
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage import files
from counterpoise.pipeline.tables.manifest import load_manifest
from tests.cli.commands import python_workers
from tests.faulty_store import Fault, FaultyStore, Kind
from tests.pipeline.incremental.pieces import comparable_rows
from tests.s3_server import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: tuple[Kind, ...] = ("busy", "request lost", "answer lost")
CAPTURE = Path(__file__).parents[1] / "data" / "recorded" / "kip848"


@pytest.fixture
def source(spark: SparkSession, store: FaultyStore, s3: str) -> Iterator[str]:
    """A capture on the store; requests of Spark's tasks go through the proxy too."""
    environment = spark.sparkContext.environment
    environment["AWS_ENDPOINT_URL"] = store.endpoint
    yield upload(CAPTURE, f"{s3}/capture")
    del environment["AWS_ENDPOINT_URL"]


def test_an_audit_that_fails_is_one_line_and_run_again_it_gives_the_same_tables(
    source: str, store: FaultyStore, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed; a task cannot write; then tasks write at the second attempt, and the answer to the manifest is lost."""
    whole, out = str(tmp_path / "whole"), f"{s3}/out"
    assert audit(str(CAPTURE), whole).exit_code < 2
    monkeypatch.setattr(files, "_RETRIES", 0)  # of the driver
    files._connected.cache_clear()
    store.slowly = kill_workers
    passing = [Fault(kind, "PUT .*/part-", 2) for kind in KINDS]
    ends: list[tuple[list[Fault], str]] = [
        ([Fault("slow", "PUT .*/part-", 1)], f"{source}: a Python worker of Spark was killed"),
        ([Fault("busy", "PUT .*/part-", 99)], f"{out}/tables/"),
        ([*passing, Fault("answer lost", "PUT .*/manifest-0*5.json", 1)], f"{out}/.transaction/manifest-"),
    ]
    for faults, message in ends:
        before = load_manifest(out)
        assert before is None or not before.files
        store.faults, store.hit = faults, []
        failed = audit(source, out)
        store.faults = []
        assert (failed.exit_code, failed.stderr.count("\n")) == (3, 1), failed.stderr
        assert failed.stderr.startswith(f"counterpoise: {message}"), failed.stderr
    assert len(store.hit) == 7
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []


def audit(source: str, out: str) -> Result:
    return CliRunner().invoke(app, ["audit", source, "--out", out, "--strategies", "sticky"])


def kill_workers() -> None:
    """Kill Spark's Python workers."""
    for pid in python_workers(os.getpid()):
        os.kill(pid, signal.SIGKILL)
