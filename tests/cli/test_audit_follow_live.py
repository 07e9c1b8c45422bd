"""`audit --follow` beside a broker: followed, scraped, ended. Minutes of work: in the long profile, or when the file is named."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.cli.commands import family, started, wait
from tests.kafka_broker import Broker, free_ports
from tests.pipeline.capture.traffic import commit
from tests.pipeline.conftest import rows_of

from counterpoise.pipeline.follow.openmetrics import PREFIX


@pytest.mark.kafka
def test_a_cluster_is_followed_scraped_and_left_in_good_order(broker: Broker, tmp_path: Path) -> None:
    """It ends quietly when all its processes get SIGTERM at once, as a service manager does."""
    broker.create_topic("followed", 4)
    commit(broker, "earlier", "followed", [0])  # Before its first group a broker has no offsets topic.
    out, log, (port,) = tmp_path / "out", tmp_path / "log", free_ports(1)
    options = ["--strategies", "sticky", "--bootstrap-server", broker.bootstrap, "--out", out, "--metrics-port", port]
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "followed", "client.id": "first", "enable.auto.commit": False}
    )
    with contextlib.closing(member), started(log, "audit", "--follow", "--report-every", 1, *options) as process:
        wait(lambda: "following: " in log.read_text(), process)
        member.subscribe(["followed"])
        wait(lambda: member.poll(0.2) is not None or len(member.assignment()) == 4, process)
        wait(lambda: any(row["n_members"] == 1 for row in _steps(out)), process)
        member.commit(offsets=[TopicPartition("followed", index, 0) for index in range(4)], asynchronous=False)
        wait(lambda: (f"{PREFIX}_sum_lag", "followed") in _scraped(port), process)
        found, row = _scraped(port), _steps(out)[-1]
        assert found[f"{PREFIX}_members", "followed"] == row["n_members"] == 1
        assert found[f"{PREFIX}_rebalances_total", "followed"] == sum(each["kind"] == "rebalance" for each in _steps(out))
        assert found[f"{PREFIX}_sum_lag", "followed"] == 0
        wait((out / "report.html").exists, process)
        everyone = family(process.pid)
        assert len(everyone) > 3
        for pid in reversed(everyone):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        assert process.wait(60) == 0
    assert len({row["log_offset"] for row in _steps(out)}) == len(_steps(out))
    about = json.loads((out / "capture" / "capture.json").read_text())
    assert about["topic"] == "__consumer_offsets"
    known = ("reading what is recorded: ", "following: ", "stopping: ")
    said = log.read_text(errors="replace").splitlines()
    assert all(line.startswith(known) for line in said), said


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
