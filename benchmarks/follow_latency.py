"""How soon a rebalance and lag are in the tables, and on /metrics, while `counterpoise audit --follow` runs.

    python -m benchmarks.follow_latency [--rebalances N] [--trigger S] [--report-every S] [--json FILE]

Starts a broker, follows it with the command itself, lets one group rebalance all the while (a member stays, another joins and
leaves again and again) and another one commit twice a second, so that every look of the follower finds something new. Every 50 ms
the tables are read as any reader would, and /metrics is scraped. Latency is the time of the first look that shows something, less

- for a row of `rebalances`, and for the newest step on /metrics: the broker's timestamp of the group's record;
- for a row of `partition_lag`: the time at which the log ends were sampled.

All clocks are one, for all of it runs on this machine. Reports that are written meanwhile are part of it; the start is not: what
counts are steps that were recorded after the first one had come, and `start_s` says how long that one took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from tests.java import java_home
from tests.kafka_broker import Broker

__all__ = ["main"]

GROUP, TOPIC = "restless", "followed"
LOOK_S = 0.05
START_WITHIN_S = 600.0
NEWEST = b"counterpoise_newest_record_timestamp_seconds "


class Restless:
    """A group of two, of which one joins and leaves until it is stopped; and a group that only commits."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._done = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._stay, self._come_and_go, self._commit)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all."""
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

    def _commit(self) -> None:
        own = {"bootstrap.servers": self._bootstrap, "group.id": "steady", "enable.auto.commit": False}
        member, at = Consumer(own), 0
        while not self._done.wait(0.5):
            at += 1
            member.commit(offsets=[TopicPartition(TOPIC, 0, at)], asynchronous=False)
        member.close()


class Seen:
    """When each thing was first seen, by when it happened; seconds since the epoch."""

    def __init__(self) -> None:
        self.first: dict[float, float] = {}

    def add(self, happened: float, now: float) -> None:
        """Something is there."""
        self.first.setdefault(happened, now)

    def since(self, moment: float) -> list[float]:
        """Latency of what happened later than that, in order."""
        return [now - happened for happened, now in sorted(self.first.items()) if happened > moment]


class Watch:
    """Tables and metrics, looked at."""

    def __init__(self, out: Path, port: int) -> None:
        self._out, self._port = out, port
        self._known: set[Path] = set()
        self.steps, self.scraped, self.lag = Seen(), Seen(), Seen()

    def look(self) -> None:
        """Read the files that are new, and scrape."""
        for row in self._rows("rebalances", ["group_id", "log_ts"]):
            if row["group_id"] == GROUP:
                self.steps.add(row["log_ts"].timestamp(), time.time())
        for row in self._rows("partition_lag", ["at"]):
            self.lag.add(row["at"].timestamp(), time.time())
        with contextlib.suppress(OSError):
            link = HTTPConnection("127.0.0.1", self._port, timeout=10)
            link.request("GET", "/metrics")
            lines = link.getresponse().read().splitlines()
            link.close()
            for line in lines:
                if line.startswith(NEWEST):
                    self.scraped.add(round(float(line.removeprefix(NEWEST)), 3), time.time())

    def _rows(self, name: str, columns: list[str]) -> Iterator[dict[str, Any]]:
        # Hidden ones are still being written: no reader looks at them.
        for file in set((self._out / "tables" / name).rglob("[!.]*.parquet")) - self._known:
            with contextlib.suppress(FileNotFoundError):
                yield from pq.ParquetFile(file).read(columns=columns).to_pylist()
                self._known.add(file)

    def wait(self, steps: int, process: subprocess.Popen[bytes], since: float = 0.0) -> None:
        """Look until there are so many that were recorded later than `since`."""
        while len(self.steps.since(since)) < steps:
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
    run = [sys.executable, "-m", "counterpoise", "audit", "--follow", "--out", str(folder / "out")]
    run += ["--bootstrap-server", broker.bootstrap, "--trigger", str(trigger), "--report-every", str(report_every)]
    port = _free_port()
    run += ["--metrics-port", str(port)]
    log = folder / "log"
    group = Restless(broker.bootstrap)
    with log.open("w") as said:
        process = subprocess.Popen(run, stdout=said, stderr=said)
    try:
        _wait_for("following: ", log, process)
        started = time.monotonic()
        seen = Watch(folder / "out", port)
        seen.look()
        seen.wait(len(seen.steps.first) + 1, process)
        start, warm = time.monotonic() - started, time.time()
        seen.wait(rebalances, process, warm)
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
    found: dict[str, object] = {"trigger_s": trigger, "report_every_s": report_every, "start_s": round(start, 1)}
    for name, one in (("rebalances", seen.steps), ("metrics", seen.scraped), ("partition_lag", seen.lag)):
        found |= _figures(name, one.since(warm))
    files = {name: len(list((folder / "out" / "tables" / name).rglob("*.parquet"))) for name in ("offset_commits", "rebalances")}
    updates = json.loads((folder / "out" / "summary.json").read_text())["since_last"]
    return found | {
        "updates": updates,
        "files": files,
        "exit_code": code,
        "stopped_within_s": round(stopped, 1),
        "cores": os.cpu_count(),
        "load": load,
    }


def _figures(name: str, seconds: list[float]) -> dict[str, object]:
    ordered = sorted(seconds)
    return {
        f"{name}_n": len(ordered),
        f"{name}_p50_s": round(statistics.median(ordered), 2),
        f"{name}_p99_s": round(_share(ordered, 0.99), 2),
        f"{name}_seconds": [round(value, 2) for value in seconds],
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


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
    options = argparse.ArgumentParser(description="From the broker's record to the row in the table and the figure at /metrics.")
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
