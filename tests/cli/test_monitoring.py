"""examples/monitoring beside a broker, with Prometheus itself: planted trouble fires its alert, every panel has figures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from benchmarks.health.members import Member
from benchmarks.health.stage import Stage
from confluent_kafka import Consumer, TopicPartition
from tests.cli.commands import started, wait
from tests.kafka_broker import Broker, free_ports

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS, EXAMPLE = ROOT / ".prometheus", ROOT / "examples" / "monitoring"
EXPECTED = {
    ("KafkaGroupLosesData", "overtaken"),
    ("KafkaGroupStalled", "poisoned"),
    ("KafkaGroupUnowned", "shut-down"),
    ("KafkaGroupStopped", "hung"),
    ("KafkaGroupFallsBehind", "slow"),
}


def promtool(*arguments: object) -> str:
    """What it prints, when it has found nothing wrong."""
    if not (PROGRAMS / "promtool").exists():
        pytest.fail("Prometheus is missing: run `make prometheus`", pytrace=False)
    done = subprocess.run([PROGRAMS / "promtool", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_configuration_and_rules_and_their_unit_tests_pass() -> None:
    rules = (EXAMPLE / "alerts.yml").read_text().count("- alert: ")
    assert f"SUCCESS: {rules} rules found" in promtool("check", "config", "prometheus.yml")
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


@pytest.mark.kafka
def test_planted_trouble_fires_its_alert_and_a_healthy_group_none(broker: Broker, tmp_path: Path) -> None:
    promtool("--version")
    stage, (port,) = Stage(broker, tmp_path), free_ports(1)
    options = ["--bootstrap-server", broker.bootstrap, "--out", tmp_path / "out", "--metrics-port", port]
    try:
        of = members(stage)
        with started(tmp_path / "log", "audit", "--follow", *options) as follower:
            wait(lambda: "following: " in (tmp_path / "log").read_text(), follower)
            wait(lambda: all(len(one.committed) == 2 for one in of.values()), follower)
            with prometheus(tmp_path, port) as ask:
                make_trouble(stage, of)
                wait(lambda: deleted_unread(broker, "overtaken", of["overtaken"].committed), follower)
                fired: set[tuple[str, str]] = set()

                def all_fire() -> bool:
                    fired.update(firing(ask))
                    return fired >= EXPECTED

                wait(all_fire, follower, "the alerts do not fire")
                assert fired == EXPECTED
                empty = [text for text in panels() if not ask(f"query?query={quote(text)}")["result"]]
                assert empty == []
    finally:
        stage.close()


def members(stage: Stage) -> dict[str, Member]:
    """A member of each group; all are well."""
    settings: dict[str, Any] = {"max.poll.interval.ms": 1_800_000}  # that which hangs stays a member
    of = {}
    for group in ("healthy", "poisoned", "shut-down", "hung", "slow", "overtaken"):
        stage.topic(group, 2, 10)
        of[group] = stage.member(group, per_second=60, repeats=group == "poisoned", **settings)
    return of


def make_trouble(stage: Stage, of: Mapping[str, Member]) -> None:
    """All groups but one become ill; that one gets another member."""
    of["poisoned"].poisoned = {0}
    of["shut-down"].stop()
    of["hung"].hangs = of["overtaken"].hangs = True
    of["slow"].per_second = 8
    stage.member("healthy", "healthy-2")


def deleted_unread(broker: Broker, topic: str, committed: Mapping[int, int]) -> bool:
    """Deletes all records of a topic once two or more of each partition were not read; whether it has."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "nobody"})
    ends = {at: reader.get_watermark_offsets(TopicPartition(topic, at), timeout=30)[1] for at in (0, 1)}
    reader.close()
    if any(end < committed[at] + 2 for at, end in ends.items()):
        return False
    admin = broker.admin()
    deleted = admin.delete_records([TopicPartition(topic, at, end) for at, end in ends.items()])
    return all(one.result(60).low_watermark == ends[at.partition] for at, one in deleted.items())


@contextmanager
def prometheus(folder: Path, scraped: int) -> Iterator[Callable[[str], Any]]:
    """The example's configuration, scraping every second; yields how to ask its API for data."""
    (port,) = free_ports(1)
    config = (EXAMPLE / "prometheus.yml").read_text().replace("localhost:9308", f"127.0.0.1:{scraped}")
    (folder / "prometheus.yml").write_text(config.replace("_interval: 15s", "_interval: 1s"))
    (folder / "alerts.yml").write_text((EXAMPLE / "alerts.yml").read_text())
    command = [str(PROGRAMS / "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
    with (folder / "prometheus.log").open("wb") as said:
        listen = f"--web.listen-address=127.0.0.1:{port}"
        process = subprocess.Popen([*command, listen], stdout=said, stderr=said, cwd=folder)

    def ask(path: str) -> Any:
        link = HTTPConnection("127.0.0.1", port, timeout=30)
        link.request("GET", f"/api/v1/{path}")
        answer = json.loads(link.getresponse().read())
        link.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    try:
        wait(lambda: "Server is ready" in (folder / "prometheus.log").read_text(), process)
        yield ask
    finally:
        process.terminate()
        process.wait(60)


def firing(ask: Callable[[str], Any]) -> set[tuple[str, str]]:
    """Alert and group of all that fire."""
    alerts = [one for one in ask("alerts")["alerts"] if one["state"] == "firing"]
    return {(one["labels"]["alertname"], one["labels"].get("group", "")) for one in alerts}


def panels() -> list[str]:
    """The queries of the dashboard, for all clusters and groups."""
    board = json.loads((EXAMPLE / "dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [text.replace("$cluster", ".*").replace("$group", ".*") for text in queries]
