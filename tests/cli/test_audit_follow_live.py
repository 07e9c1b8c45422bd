"""`audit --follow` beside a broker: followed, scraped, ended. Minutes of work: in the long profile, or when the file is named."""

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
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.kafka_broker import Broker
from tests.pipeline.conftest import rows_of

from counterpoise.pipeline.follow.openmetrics import PREFIX

WITHIN_S = 600.0


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
        _wait(lambda: any(row["n_members"] == 1 for row in _steps(out)), process)
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
