"""How long after a group's SyncGroup record its rebalance is in the table, while `counterpoise audit --follow` runs.

    python -m benchmarks.follow_latency [--rebalances N] [--trigger S] [--report-every S] [--json FILE]

Starts a broker, follows it with the command itself, and lets one group rebalance all the while: a member stays, another joins and
leaves again and again. Every step is looked for in the table every 50 ms, as any reader would see it. Latency is the time of that
look less the broker's timestamp of the record (one clock: all of it runs on this machine). The audits that follow makes meanwhile
are part of it; its start is not: what counts are steps that were recorded when the first one had come through the stream, and
`start_s` says how long that one took.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer
from tests.java import java_home
from tests.kafka_broker import Broker

from counterpoise.pipeline.stored.tables import folder_of

__all__ = ["main"]

GROUP, TOPIC = "restless", "followed"
LOOK_S = 0.05
START_WITHIN_S = 600.0


class Restless:
    """A group of two, of which one joins and leaves until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._done = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._stay, self._come_and_go)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both."""
        self._done.set()
        for thread in self._threads:
            thread.join(60)

    def _member(self, name: str) -> Consumer:
        own = {"bootstrap.servers": self._bootstrap, "group.id": GROUP, "client.id": name, "auto.offset.reset": "earliest"}
        member = Consumer({**own, "session.timeout.ms": 6000, "heartbeat.interval.ms": 300})
        member.subscribe([TOPIC])
        return member

    def _stay(self) -> None:
        member = self._member("stays")
        while not self._done.is_set():
            member.poll(0.1)
        member.close()

    def _come_and_go(self) -> None:
        while not self._done.wait(1.0):
            member = self._member("comes-and-goes")
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                member.poll(0.1)
            member.close()


class Table:
    """When each step of the group was first seen."""

    def __init__(self, out: Path) -> None:
        self._folder = folder_of(out, "rebalances")
        self._known: dict[Path, int] = {}
        self.latency: dict[int, float] = {}
        self.recorded: dict[int, float] = {}

    def look(self) -> None:
        """Read the files that are new or were replaced."""
        for file in self._folder.rglob("*.parquet"):
            try:
                age = file.stat().st_mtime_ns
                if file.name.startswith(".") or self._known.get(file) == age:
                    continue
                rows = pq.ParquetFile(file).read(columns=["group_id", "log_offset", "log_ts"]).to_pylist()
            except FileNotFoundError:
                continue
            now = time.time()
            self._known[file] = age
            for row in rows:
                if row["group_id"] == GROUP:
                    moment: datetime = row["log_ts"]
                    self.latency.setdefault(row["log_offset"], now - moment.timestamp())
                    self.recorded[row["log_offset"]] = moment.timestamp()

    def since(self, moment: float) -> list[float]:
        """Latency of the steps that were recorded later than that, in the order of the log."""
        return [value for offset, value in sorted(self.latency.items()) if self.recorded[offset] > moment]

    def wait(self, steps: int, process: subprocess.Popen[bytes], since: float = 0.0) -> None:
        """Look until there are so many that were recorded later than `since`."""
        while len(self.since(since)) < steps:
            if process.poll() is not None:
                raise EOFError
            self.look()
            time.sleep(LOOK_S)


def measure(folder: Path, rebalances: int, trigger: float, report_every: float) -> dict[str, object]:
    """One run: the figures."""
    (folder / "kafka").mkdir()
    broker = Broker(folder / "kafka", Path(java_home()) / "bin" / "java")
    broker.start()
    broker.create_topic(TOPIC, 8)
    run = [sys.executable, "-c", "from counterpoise.cli import main; main()", "audit", "--follow", "--out", str(folder / "out")]
    run += ["--bootstrap-server", broker.bootstrap, "--trigger", str(trigger), "--report-every", str(report_every)]
    log = folder / "log"
    group = Restless(broker.bootstrap)
    with log.open("w") as said:
        process = subprocess.Popen(run, stdout=said, stderr=said)
    try:
        _wait_for("following: ", log, process)
        started = time.monotonic()
        table = Table(folder / "out")
        table.look()
        table.wait(len(table.latency) + 1, process)
        start, warm = time.monotonic() - started, time.time()
        table.wait(rebalances, process, warm)
        load = round(os.getloadavg()[1], 1)
        process.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        code = process.wait(120)
        stopped = time.monotonic() - asked
    except EOFError:
        raise SystemExit(f"follow has ended:\n{log.read_text()}") from None
    finally:
        process.kill()
        process.wait()
        group.stop()
        broker.stop()
    in_order = table.since(warm)
    seconds = sorted(in_order)
    found: dict[str, object] = {"rebalances": len(seconds), "trigger_s": trigger, "report_every_s": report_every}
    found["start_s"] = round(start, 1)
    found |= {
        "p50_s": round(statistics.median(seconds), 2),
        "p99_s": round(_share(seconds, 0.99), 2),
        "max_s": round(seconds[-1], 2),
    }
    audits = log.read_text().count("following, auditing: ")
    return found | {
        "audits_meanwhile": audits,
        "exit_code": code,
        "stopped_within_s": round(stopped, 1),
        "cores": os.cpu_count(),
        "load": load,
        "seconds": [round(value, 2) for value in in_order],
    }


def _share(ordered: list[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def _wait_for(words: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while words not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"follow did not start:\n{log.read_text()}")
        time.sleep(0.2)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description="From SyncGroup on the broker to the rebalance in the table.")
    options.add_argument("--rebalances", type=int, default=80)
    options.add_argument("--trigger", type=float, default=1.0)
    options.add_argument("--report-every", type=float, default=60.0)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.rebalances, given.trigger, given.report_every)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, value in found.items():
        sys.stdout.write(f"{name:18} {value}\n")


if __name__ == "__main__":
    main()
