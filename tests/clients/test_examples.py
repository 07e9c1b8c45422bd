"""The consumers of the examples: members that come, go, crash and sleep lose and skip no record, and leave no member behind.

Each thing happens once here; the long profile (`make soak`) does them in random order for ten minutes.
"""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients.records import Feeder, group_history
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parent.parent.parent
LONG_S = 600 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 0
SESSION_MS = 6_000
PARTITIONS = 6
RECORD = re.compile(r"(.+-\d+): (\d+)$")
log = logging.getLogger(__name__)


class Members:
    """Three processes of one example in one group, what they print, and what is written for them."""

    def __init__(self, broker: Broker, folder: Path, name: str, feeder: Feeder) -> None:
        self.broker, self.folder, self.name, self.feeder = broker, folder, name, feeder
        self.running: dict[Path, subprocess.Popen[bytes]] = {}
        self.logs: list[Path] = []
        self.done: Counter[str] = Counter()
        for _ in range(3):
            self.start()

    def start(self) -> None:
        self.logs.append(self.folder / f"{self.name}-{len(self.logs)}.log")
        command = [sys.executable, f"examples/{self.name}.py", "--bootstrap-server", self.broker.bootstrap]
        command += ["--topic", self.feeder.topic, "--session-timeout-ms", str(SESSION_MS)]
        with self.logs[-1].open("wb") as out, self.logs[-1].with_suffix(".err").open("wb") as errors:
            self.running[self.logs[-1]] = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=errors, start_new_session=True)

    def do(self, event: str, rng: random.Random) -> None:
        """One thing that happens to a member; where it ends, another one is started."""
        self.done[event] += 1
        path = rng.choice(list(self.running))
        process = self.running[path]
        if event in ("nap", "sleep"):
            process.send_signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 * (0.4 if event == "nap" else 1.7))
            process.send_signal(signal.SIGCONT)
            return
        del self.running[path]
        process.send_signal({"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}[event])
        assert process.wait(60) == (-9 if event == "kill" else 0), self.errors()
        self.start()

    def lines(self, path: Path) -> list[str]:
        """Whole lines: a killed member's last one may be cut off."""
        return path.read_text().split("\n")[:-1]

    def printed(self) -> Counter[tuple[str, int]]:
        """How often each record was processed."""
        found = (RECORD.match(line) for path in self.logs for line in self.lines(path))
        return Counter((match[1], int(match[2])) for match in found if match)

    def wait_read(self) -> None:
        """Until every member has partitions, and all that had been written by now has been processed."""
        wanted = {(partition, value) for partition, values in self.feeder.delivered.copy().items() for value in values.copy()}
        deadline = time.monotonic() + 240
        while (missing := wanted - self.printed().keys()) or not all(map(self.lines, self.running)):
            assert all(each.poll() is None for each in self.running.values()), f"a member ended by itself: {self.errors()}"
            assert time.monotonic() < deadline, f"{len(missing)} records are missing: {sorted(missing)[:5]}; {self.errors()}"
            time.sleep(0.3)

    def errors(self) -> str:
        return "\n".join(f"--- {path.stem}: {path.with_suffix('.err').read_text()[-2000:]}" for path in self.logs)

    def end(self) -> None:
        """All end in good order."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            assert process.wait(60) == 0, self.errors()

    def kill(self) -> None:
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def members(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Members]:
    topic = f"example-{request.param.partition('_')[0]}"
    broker.create_topic(topic, PARTITIONS)
    made = Members(broker, tmp_path, request.param, Feeder(broker, topic, PARTITIONS))
    try:
        yield made
    finally:
        made.kill()
        made.feeder.stop()


def events(rng: random.Random) -> Iterator[str]:
    """Each once, then any until the time is over."""
    end = time.monotonic() + LONG_S
    yield from ("kill", "sleep", "terminate", "interrupt")
    while time.monotonic() < end:
        yield rng.choice(["kill", "nap", "sleep", "terminate", "interrupt"])


@pytest.mark.parametrize("members", ["kafka_python_consumer", "aiokafka_consumer"], indirect=True)
def test_members_that_come_go_crash_and_sleep_lose_and_skip_nothing(members: Members) -> None:
    rng = random.Random(members.name)
    members.wait_read()
    for event in events(rng):
        members.do(event, rng)
        members.wait_read()
    delivered = members.feeder.stop()
    members.wait_read()
    members.end()
    printed = members.printed()
    assert {partition: {value for at, value in printed if at == partition} for partition in delivered} == delivered
    nothing_is_skipped(members, delivered)
    group = f"{members.feeder.topic}-{members.name.removesuffix('_consumer').replace('_', '-')}"
    commits = group_history(members.broker, group, with_commits=True).commits
    assert {at: offsets[-1] for at, offsets in commits.items()} == {at: len(values) for at, values in delivered.items()}
    admin = members.broker.admin()
    left = admin.describe_consumer_groups([group])[group].result(30).members
    assert [member.client_id for member in left] == []
    twice = sum(printed.values()) - len(printed)
    log.info("%s: %s; %d records, %d processed twice", members.name, dict(members.done), len(printed), twice)


def nothing_is_skipped(members: Members, delivered: dict[str, set[int]]) -> None:
    """No member went from one record of a partition to a later one than the next, between a gain and a loss of it.

    Except over records that others have processed: a member that sleeps, and has not noticed yet that the group goes on without
    it, may begin at the offset that the next owner has committed.
    """
    # A producer that tries again may write a record after later ones: offsets count.
    place = {
        (partition, value): at
        for partition, values in delivered.items()
        for at, value in enumerate(sorted(values, key=lambda each: members.feeder.offsets[partition, each]))
    }
    by_place = {(partition, at): value for (partition, value), at in place.items()}
    printed = {path: {line for line in members.lines(path) if RECORD.match(line)} for path in members.logs}
    for path in members.logs:
        others = set[str]().union(*(lines for other, lines in printed.items() if other != path))
        last: dict[str, int] = {}
        for line in members.lines(path):
            match = RECORD.match(line)
            if match:
                at = place[match[1], int(match[2])]
                over = {f"{match[1]}: {by_place[match[1], between]}" for between in range(last.get(match[1], at) + 1, at)}
                assert over <= others, f"{path.stem} went from {last[match[1]]} to {at} of {match[1]}"
                last[match[1]] = at
            else:
                for partition in line.partition(" ")[2].split(", "):
                    last.pop(partition, None)
