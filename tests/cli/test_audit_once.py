"""`audit --bootstrap-server` without --follow: a cluster is recorded into OUT/capture and audited, in one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.kafka_broker import Broker
from tests.pipeline.capture.traffic import commit

from counterpoise.cli.app import app


@pytest.mark.kafka
def test_a_cluster_is_recorded_and_audited_and_the_next_run_adds_what_is_new(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    assert SparkSession.getActiveSession() is spark
    broker.create_topic("audited-once")
    out = tmp_path / "out"
    words = ["audit", "--bootstrap-server", broker.bootstrap, "--out", str(out), "--group", "once-*", "--cluster", "shop"]
    for name in ("once-1", "once-2"):
        commit(broker, name, "audited-once", [1, 2])
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (0, 1), done.output
        said = done.stdout.replace("\n", "")
        assert f"capture  {out}/capture: the same command continues it; `audit {out}/capture` needs no cluster" in said
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["clusters"], summary["groups"]["total"], summary["source"]) == (["shop"], 2, f"{out}/capture")
    assert {file.name for file in out.iterdir() if file.name[0] != "."} == {"capture", "report.html", "summary.json", "tables"}


@pytest.mark.kafka
def test_with_hashed_names_the_capture_is_beside_the_folder(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    assert SparkSession.getActiveSession() is spark
    broker.create_topic("audited-hashed")
    commit(broker, "once-hashed", "audited-hashed", [1, 2])
    words = ["--out", str(tmp_path / "out"), "--group", "once-hashed", "--anonymize", "--salt", "s"]
    done = CliRunner().invoke(app, ["audit", "--bootstrap-server", broker.bootstrap, *words])
    assert done.exit_code in (0, 1), done.output
    assert f"capture  {tmp_path}/.out-capture: the same command" in done.stdout.replace("\n", "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["groups"]["total"] == 1
    assert (tmp_path / ".out-capture" / "consumer_offsets.parquet").exists()
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert [file for file in files if b"once-hashed" in file.read_bytes() or b"audited-hashed" in file.read_bytes()] == []
    assert not (tmp_path / "out" / "capture").exists()
