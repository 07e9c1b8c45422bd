"""Commands of README.md and docs that need a cluster run against a broker, and print what is expected of them.

Only the address and the places of a broker's files are replaced. `audit --follow` has test_audit_follow_live.py. Not run:
`kafka-acls`, object stores, clusters of Spark.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from counterpoise.cli.app import app
from tests.java import java_home
from tests.kafka_broker import LIBS, Broker
from tests.pipeline.test_pages import PAGES, text

TOOLS = {"kafka-consumer-groups": "consumer.group.ConsumerGroupCommand", "kafka-dump-log": "DumpLogSegments"}
NEEDS_MORE = re.compile(r"s3://|kafka-acls|audit .*--follow|audit --follow")
RECORDED = r"[1-9]\d* records written, 0 behind, 1 groups seen"
READABLE = "__consumer_offsets +ok +can be read"
AUDITED = r"(?s)1 group made \d+ rebalances?.*2 members, .*\d+ records, 4 of them commits; 0 unreadable"
EXPECTED = {
    "counterpoise capture --bootstrap-server broker:9092 --out history": RECORDED,
    "counterpoise capture --bootstrap-server broker:9092 --out history --follow --keep-days 30": RECORDED,
    "counterpoise capture --bootstrap-server broker:9092 --out history --follow --flush-every 1": RECORDED,
    "counterpoise capture --bootstrap-server broker:9092 --out history --follow --poll --poll-every 5": RECORDED,
    "counterpoise capture --from-segments /backup/kafka-data --out history": r"\d+ records from 8 segments of 8 partitions",
    "counterpoise lag --bootstrap-server broker:9092 --group orders": r"(?s)orders: stable, range.*in all 8 behind",
    "kafka-consumer-groups --bootstrap-server broker:9092 --describe --group orders > group.txt": r"orders +0 +3 +5 +2 ",
    "counterpoise plan group.txt --strategy sticky --compare all": r"(?s)proven: no plan is more balanced.*cooperative-sticky",
    "counterpoise explain group.txt orders 3": "orders-3 stays with two-.*, which owns it",
    "counterpoise plan group.txt --json > plan.json": '"orders"',
    "counterpoise verify group.txt plan.json": "proven: valid, complete",
    "kafka-dump-log --offsets-decoder --files $(ls /backup/__consumer_offsets-*/*.log | paste -sd,) > dump.txt": "orders",
    "counterpoise doctor --bootstrap-server broker:9092 --command-config client.properties": READABLE,
    "counterpoise doctor --bootstrap-server broker:9092 --command-config client.properties --out /var/lib/counterpoise": READABLE,
    "counterpoise audit history --since last --out out/prod": AUDITED,
    "counterpoise audit history --since last --out report": AUDITED,
    "counterpoise audit history --since last --out hourly": AUDITED,
    "counterpoise audit dump.txt --out report": AUDITED,
    "counterpoise audit --bootstrap-server broker:9092 --out out/now": AUDITED,
}


def lines(section: str) -> Iterator[str]:
    """The commands of a section for which a broker, its files, or what an earlier command wrote is needed."""
    for line in re.findall(r"^(?: {4,}|\$ )(.*)", section.replace("\\\n", " "), re.MULTILINE):
        command = re.sub(r"\s+# .*| &$|^while sleep 3600; do |; done$", "", line)
        of_broker = re.search(r"broker:9092|/backup/|\b(?:history|group\.txt|dump\.txt)\b", command)
        if of_broker and re.match(r"(\w+=\S+ )*(counterpoise|kafka-)", command) and not NEEDS_MORE.search(command):
            yield command


SECTIONS = {
    f"{page}: {part.splitlines()[0]}": commands
    for page in PAGES
    for part in re.split(r"^#+ (?!.*#)", text(page), flags=re.MULTILINE)
    if (commands := list(lines(part)))
}


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Broker]:
    """Topic and group `orders`: two members, four partitions, five records and a commit at the third in each."""
    broker.create_topic("orders", 4)
    places = [TopicPartition("orders", partition, 3) for partition in range(4)]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for place in places * 5:
        producer.produce("orders", b"x", partition=place.partition)
    assert producer.flush(60) == 0
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "orders", "enable.auto.commit": False}
    config |= {"partition.assignment.strategy": "range", "session.timeout.ms": 60_000, "max.poll.interval.ms": 3_600_000}
    with ExitStack() as ending:
        members = [Consumer(config | {"client.id": name}) for name in ("one", "two")]
        for member in members:
            ending.callback(member.close)
            member.subscribe(["orders"])
        while [len(member.assignment()) for member in members] != [2, 2]:
            for member in members:
                member.poll(0.1)
        for member in members:
            mine = {one.partition for one in member.assignment()}
            member.commit(offsets=[place for place in places if place.partition in mine], asynchronous=False)
        yield broker


@pytest.fixture(scope="module")
def recorded(cluster: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture that earlier sections of a page have made."""
    folder = tmp_path_factory.mktemp("recorded") / "history"
    words = ["capture", "--bootstrap-server", cluster.bootstrap, "--out", str(folder)]
    assert re.search(RECORDED, CliRunner().invoke(app, words).output)
    return folder


@pytest.mark.kafka
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("commands", SECTIONS.values(), ids=SECTIONS)
def test_commands_that_need_only_a_broker_run(
    commands: list[str],
    cluster: Broker,
    recorded: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the order of a section, in a folder of its own; what records for ever gets SIGTERM after its first flush."""
    monkeypatch.chdir(tmp_path)
    Path("bin").mkdir()
    for name, tool in TOOLS.items():
        script = Path("bin", name)
        script.write_text(f'#!/bin/sh\nexec {java_home()}/bin/java -cp "{LIBS}/*" org.apache.kafka.tools.{tool} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "200")
    Path("client.properties").write_text("security.protocol=PLAINTEXT\n")
    if not any("--out history" in command for command in commands):
        shutil.copytree(recorded, "history")
    for command in commands:
        code, printed = run(command, cluster)
        assert code == 0 or (code == 1 and " audit " in command), (command, printed)
        assert re.search(EXPECTED[command], printed), (command, printed)


def run(command: str, cluster: Broker) -> tuple[int, str]:
    """Its exit code and what it prints."""
    data = cluster.folder / "data"
    replaced = {"broker:9092": cluster.bootstrap, "/backup/kafka-data": data, "/backup": data, "/var/lib/counterpoise": "lib"}
    given = command
    for old, new in replaced.items():
        given = given.replace(old, str(new))
    if " audit " in given:  # In the session of the tests: Spark starts once.
        result = CliRunner().invoke(app, shlex.split(given)[1:])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output
    process = subprocess.Popen(f"exec {given}", shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        if "--follow" in given:
            records = Path("history", "consumer_offsets.parquet")
            while not records.exists() and process.poll() is None:
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, printed + (Path(given.split(" > ")[1]).read_text(encoding="utf-8") if " > " in given else "")


def test_every_command_for_a_broker_is_expected() -> None:
    assert {command for commands in SECTIONS.values() for command in commands} == set(EXPECTED)
