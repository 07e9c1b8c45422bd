"""Commands of README.md and docs that need a cluster run against a broker, and print what is expected of them.

Replaced: addresses, paths, buckets, Kafka's scripts by their classes, captures from elsewhere by examples/shop, synthetic
records by a thousandth, and with `--follow` the seconds between files. Of NEEDS_MORE, catalogs and a
Spark cluster are in test_spark_pages.py, a recording and its audit in one command in tests/cli/test_audit_once.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from counterpoise.cli.app import app
from counterpoise.pipeline.storage.files import exists, join
from tests.cli.commands import wait
from tests.java import java_home
from tests.kafka_broker import LIBS, Broker
from tests.pipeline.conftest import SHOP
from tests.pipeline.spark_cluster import free_port
from tests.pipeline.test_pages import ALONE, PAGES, ROOT, text
from tests.s3_server import upload

RECORDED = ROOT / "tests" / "data" / "recorded"
CAPTURES = {
    "examples/shop": SHOP,
    "shop": SHOP,
    "captures/prod": RECORDED / "kip848",
    "captures/west": RECORDED / "kip848",
    "captures/east": RECORDED / "kicked",
}
"""What is there of the captures that pages name."""
TOOLS = {
    "kafka-acls": "AclCommand",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-dump-log": "DumpLogSegments",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EXPECTED = {  # By the beginning of a command: what it prints, or writes into the file behind `>`.
    "counterpoise capture --bootstrap-server": r"[1-9]\d* records written, 0 behind, 1 groups seen",
    "counterpoise capture --from-segments": r"[1-9]\d* records from 8 segments of 8 partitions",
    "counterpoise lag": r"(?s)orders: stable, range.*in all 8 behind",
    "kafka-consumer-groups": r"orders +0 +3 +5 +2 ",
    "counterpoise plan group.txt --strategy": r"(?s)proven: no plan is more balanced.*cooperative-sticky",
    "counterpoise explain": "orders-3 stays with rdkafka-.*, which owns it",
    "counterpoise plan group.txt --json": '"orders"',
    "counterpoise verify": "proven: valid, complete",
    "kafka-acls": "(?s)Adding ACLs for resource .*User:audit, host=\\*, operation=DESCRIBE, permissionType=ALLOW",
    "kafka-dump-log": '"group":"orders","topic":"orders","partition":3',
    "counterpoise doctor": "__consumer_offsets +ok +can be read",
    r"counterpoise audit (--follow|history --follow)": "following: 1 updates, 1 groups",
    r"counterpoise audit (history (?!--follow)|dump\.txt)": (r"(?s)1 group made \d+ rebalance.* 4 of them commits; 0 unreadable"),
    "counterpoise audit (shop --anon|examples/shop)": "30 groups made 125 rebalances",
    "counterpoise audit (captures/prod|s3:)": "4 groups made 27 rebalances",
    "counterpoise audit captures/east captures/west": "11 groups made 45 rebalances",
    "counterpoise audit shop --group": "2 groups made 9 rebalances",
    "counterpoise synthesize": "20,019 records, 2 groups, 20 rebalances in fleet",
    "counterpoise audit fleet": "2 groups made 20 rebalances",
}


NEEDS_MORE = r"/mnt/|audit .*--into|audit --bootstrap|token\.function"
WANTED = re.compile(rf"(?!.*({NEEDS_MORE}))(?!counterpoise ({'|'.join(ALONE)}) (?!group\.txt))(counterpoise|kafka-)")


def lines(section: str) -> list[str]:
    """The commands of a section that neither run alone (test_pages.py) nor need more than a broker, its files and captures."""
    found = re.findall(r"^(?: {4,}|\$ )(.*)", section.replace("\\\n", " "), re.MULTILINE)
    commands = [re.sub(r"\s+# .*| &$|^while sleep 3600; do |; done$|^AWS_ENDPOINT_URL=\S+ ", "", line) for line in found]
    return [command for command in commands if WANTED.match(command)]


def asked(commands: list[str]) -> set[str]:
    """What they do, whichever local folder it is written to."""
    return {re.sub(r"--out [\w/]+( |$)", r"--out\1", command) for command in commands}


SECTIONS = {
    f"{page}: {part.splitlines()[0]}": commands
    for page in PAGES
    for part in re.split(r"^#+ (?!.*#)", text(page), flags=re.MULTILINE)
    if (commands := lines(part))
}
SECTIONS = {
    section: commands
    for section, commands in SECTIONS.items()
    if not any(other < section and asked(commands) <= asked(more) for other, more in SECTIONS.items())
}
"""Without those whose commands another one has, too."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A cluster with one group, `orders`: one member, four partitions, five records and a commit at the third in each."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), Path(java_home()) / "bin" / "java", settings=AUTHORIZER)
    broker.start()
    address = {"bootstrap.servers": broker.bootstrap}
    member, producer = Consumer(address | {"group.id": "orders"}), Producer(address)
    try:
        broker.create_topic("orders", 4)
        for partition in [0, 1, 2, 3] * 5:
            producer.produce("orders", b"x", partition=partition)
        assert producer.flush(60) == 0
        member.subscribe(["orders"])
        while len(member.assignment()) < 4:
            member.poll(0.1)
        member.commit(offsets=[TopicPartition("orders", partition, 3) for partition in range(4)], asynchronous=False)
        yield broker
    finally:
        member.close()
        broker.stop()


@pytest.mark.kafka
@pytest.mark.usefixtures("spark")  # One session, so one worker: tests/conftest.py reads this line.
@pytest.mark.parametrize("commands", SECTIONS.values(), ids=SECTIONS)
def test_commands_of(
    commands: list[str], cluster: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In the order of a section, in a folder of its own; what runs for ever gets SIGTERM after its first file or report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("COLUMNS", "200")
    Path("client.properties").write_text("security.protocol=PLAINTEXT\n")
    if any("s3://" in command for command in commands):
        bucket = request.getfixturevalue("s3")
        commands = [command.replace("s3://", f"{bucket}/") for command in commands]
        upload(RECORDED / "kip848", f"{bucket}/captures/shop" if "audit" in commands[0] else f"{bucket}/elsewhere")
    for name, capture in CAPTURES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(capture)
    earlier = ["counterpoise capture --bootstrap-server broker:9092 --out history"] * ("audit history" in commands[0])
    for command in earlier + commands:
        (expected,) = [expected for start, expected in EXPECTED.items() if re.match(start, command)]
        assert re.search(expected, printed := run(command, cluster)), (command, printed)


def run(command: str, cluster: Broker) -> str:
    """What it prints or writes into a file; its exit code is 0, or 1 from an audit with findings."""
    given = command.replace("broker:9092", cluster.bootstrap).replace("000000 ", "000 ").replace("9308", str(free_port()))
    given = re.sub(" capture (.*) --follow", r" capture \1 --follow --flush-every 1", given)
    for name, tool in TOOLS.items():
        given = given.replace(name, f"{java_home()}/bin/java -cp '{LIBS}/*' org.apache.kafka.tools.{tool}")
    given = re.sub("/backup(/kafka-data)?", str(cluster.folder / "data"), given).replace("/var/lib", "lib")
    if " audit " in given and "--follow" not in given:  # In the session of the tests: Spark starts once.
        result = CliRunner().invoke(app, shlex.split(given)[1:], catch_exceptions=False)
        assert result.exit_code in (0, 1), (command, result.output)
        return result.output
    shutil.rmtree("live", ignore_errors=True)  # docs/follow.md has two ways to follow: one instead of the other
    log = Path("printed.log")
    with log.open("w") as printed:
        process = subprocess.Popen(f"exec {given}", shell=True, stdout=printed, stderr=subprocess.STDOUT)
    try:
        if "--follow" in given:
            out = re.findall(r"--out (\S+)", given)[0]
            first = join(out, "report.html" if " audit " in given else "consumer_offsets.parquet")
            wait(lambda: exists(first), process, first)
            process.terminate()
        process.wait(120)
    finally:
        process.kill()
    assert process.returncode == 0, (command, log.read_text(encoding="utf-8"))
    return (Path(given.split(" > ")[1]) if " > " in given else log).read_text(encoding="utf-8")


def test_every_expectation_is_of_a_command() -> None:
    assert [start for start in EXPECTED if not re.search(start, str(SECTIONS))] == []
