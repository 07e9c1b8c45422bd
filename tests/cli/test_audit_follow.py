"""`audit --follow`: what goes together, told before anything starts; and the command itself, beside a broker."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.kafka_broker import Broker
from tests.pipeline.conftest import rows_of

from counterpoise.cli.app import app
from counterpoise.pipeline.follow.openmetrics import PREFIX

WITHIN_S = 240.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "--since", "last", "--follow"], "--since and --follow: give one of them"),
        (["a", "--follow", "--topic", "t"], "--topic does not go with --follow"),
        (["a", "--follow", "--from", "2026-01-01"], "--from does not go with --follow"),
        (["a", "--follow", "--anonymize"], "--anonymize does not go with --follow"),
        (["a", "--follow", "--into", "s"], "--into does not go with --follow"),
        (["a", "--follow", "--json"], "--json does not go with --follow"),
        (["a", "--bootstrap-server", "h:1"], "--bootstrap-server goes with --follow"),
        (["a", "--metrics-port", "9308"], "--metrics-port goes with --follow"),
        (["a", "--trigger", "2"], "--trigger goes with --follow"),
        (["a", "--report-every", "60"], "--report-every goes with --follow"),
        (["--follow"], "--follow: give one capture folder that is being written, or --bootstrap-server"),
        (["a", "--follow", "--bootstrap-server", "h:1"], "--follow: give one capture folder that is being written, or"),
        (["a", "b", "--follow"], "--follow: several captures or clusters were given; give one"),
        ([], "no SOURCE; give the folder of a capture, or --follow with --bootstrap-server"),
        (["no-such-folder", "--follow"], "no-such-folder: no such file or folder"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"])
def test_a_session_of_others_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    result = CliRunner().invoke(app, ["audit", "a", "--follow", "--out", str(tmp_path / "out")])
    assert (result.exit_code, "--follow needs a Spark session of its own" in result.output) == (2, True)


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        if name == "google.protobuf":
            raise ModuleNotFoundError(name)
        return None if name == "prometheus_client" else object()

    monkeypatch.setattr("counterpoise.cli.audit_follow.find_spec", find)
    result = CliRunner().invoke(app, ["audit", "a", "--follow", "--metrics-port", "9308", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "--follow needs protobuf, prometheus-client: pip install 'counterpoise[follow]'" in result.output


@pytest.mark.kafka
def test_a_cluster_is_followed_scraped_and_left_in_good_order(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("followed", 4)
    out, port = tmp_path / "out", _free_port()
    run = [sys.executable, "-c", "from counterpoise.cli import main; main()", "audit", "--follow", "--strategies", "sticky"]
    run += ["--bootstrap-server", broker.bootstrap, "--out", str(out), "--metrics-port", str(port)]
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "followed", "client.id": "first", "enable.auto.commit": False}
    )
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(run, stdout=log, stderr=log)
    try:
        _wait(lambda: "following: " in _text(tmp_path / "log"), process)
        member.subscribe(["followed"])
        _wait(lambda: member.poll(0.2) is not None or len(member.assignment()) == 4, process)
        began = time.monotonic()
        _wait(lambda: any(row["n_members"] == 1 for row in _steps(out)), process)
        assert time.monotonic() - began < 60
        member.commit(offsets=[TopicPartition("followed", index, 0) for index in range(4)], asynchronous=False)
        _wait(lambda: (f"{PREFIX}_sum_lag", "followed") in _scraped(port), process)
        found, row = _scraped(port), _steps(out)[-1]
        assert found[f"{PREFIX}_members", "followed"] == row["n_members"] == 1
        assert found[f"{PREFIX}_rebalances_total", "followed"] == sum(each["kind"] == "rebalance" for each in _steps(out))
        assert found[f"{PREFIX}_sum_lag", "followed"] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        member.close()
    assert len({row["log_offset"] for row in _steps(out)}) == len(_steps(out))
    about = json.loads((out / "capture" / "capture.json").read_text())
    assert about["topic"] == "__consumer_offsets"
    said = _text(tmp_path / "log").splitlines()
    assert all(line.startswith(("auditing what is recorded: ", "following: ")) for line in said), said


def _steps(out: Path) -> list[dict[str, Any]]:
    rows = [row for row in rows_of(out, "rebalances") if row["group_id"] == "followed"]
    return sorted(rows, key=lambda row: row["log_offset"])


def _scraped(port: int) -> dict[tuple[str, str], float]:
    link = HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("GET", "/metrics")
    families = text_string_to_metric_families(link.getresponse().read().decode())
    found = {(one.name, one.labels.get("group", "")): one.value for family in families for one in family.samples}
    link.close()
    return found


def _wait(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.3)


def _text(file: Path) -> str:
    return file.read_text(errors="replace")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
