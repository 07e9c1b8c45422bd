"""Make the recording with planted trouble: a real broker, real clients, 22 minutes.

    python -m benchmarks.health.record [--only NAME ...] [--out FOLDER]

The recording replaces benchmarks/data/health. Scenarios play side by side, each in a group and a topic of its own; what was done
to them is in truth.jsonl. Nothing else should keep the machine busy: a member that gets no processor time is in real trouble.
"""

from __future__ import annotations

import argparse
import heapq
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from tests.java import java_home
from tests.kafka_broker import Broker

from benchmarks.health.scenarios import END_S, SCENARIOS, Play, Scenario
from benchmarks.health.stage import BROKER, Stage

__all__ = ["DATA", "main"]

DATA = Path(__file__).resolve().parent.parent / "data" / "health"
SAMPLE_S = 5


def record(folder: Path, scenarios: list[Scenario]) -> None:
    """Play all scenarios and record them into `folder`."""
    (folder / "kafka").mkdir()
    broker = Broker(folder / "kafka", Path(java_home()) / "bin" / "java", settings=BROKER)
    broker.start()
    command = [sys.executable, "-m", "counterpoise", "capture", "--follow"]
    command += ["--bootstrap-server", broker.bootstrap, "--out", str(folder / "capture"), "--sample-every", str(SAMPLE_S)]
    try:
        capture = subprocess.Popen(command)
        stage = Stage(broker, folder)
        try:
            _play(stage, scenarios)
            capture.send_signal(signal.SIGINT)
            capture.wait(60)
        finally:
            capture.kill()
            stage.close()
    finally:
        broker.stop()


def _play(stage: Stage, scenarios: list[Scenario]) -> None:
    stage.write(event="recording", begin_ms=int(stage.begin * 1000), end_ms=int((stage.begin + END_S) * 1000), sample_s=SAMPLE_S)
    queue: list[tuple[float, int, Play]] = []
    for number, scenario in enumerate(scenarios):
        stage.write(event="scenario", group=scenario.name, words=scenario.words)
        queue.append((0.0, number, scenario.play(stage, scenario.name)))
    while queue and queue[0][0] < END_S:
        at, number, play = heapq.heappop(queue)
        time.sleep(max(0.0, stage.begin + at - time.time()))
        sys.stdout.write(f"{stage.now:7.1f} s  {scenarios[number].name}\n")
        sys.stdout.flush()
        if (following := next(play, None)) is not None:
            heapq.heappush(queue, (following, number, play))
    time.sleep(max(0.0, stage.begin + END_S - time.time()))


def keep(folder: Path, out: Path) -> None:
    """Put the recording in its place, each table as one compressed file."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in ("consumer_offsets", "log_offsets"):
        table = pq.read_table(folder / "capture" / f"{name}.parquet")
        order = ["topic", "partition", "offset" if name == "consumer_offsets" else "sampled_at"]
        pq.write_table(table.sort_by([(column, "ascending") for column in order]), out / f"{name}.parquet", compression="zstd")
    for file in (folder / "capture").glob("*.json"):
        shutil.copyfile(file, out / file.name)
    lines = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    lines.sort(key=lambda row: (row["event"], row.get("group", ""), row.get("since_ms", 0)))
    (out / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))


def main() -> None:
    """Record."""
    options = argparse.ArgumentParser(description="Record groups with planted trouble.")
    options.add_argument("--only", nargs="+", metavar="NAME", help="these scenarios only")
    options.add_argument("--out", type=Path, default=DATA)
    given = options.parse_args()
    chosen = [one for one in SCENARIOS if given.only is None or one.name in given.only]
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder), chosen)
        keep(Path(folder), given.out)


if __name__ == "__main__":
    main()
