"""The whole audit on made-up fleets of rising size: seconds, CPU time, peak memory; Kafka's classes beside it.

    python -m benchmarks.audit_scale --records 1000000 5000000 20000000 [--folder DIR] [--json FILE] [--chart FILE]

Fleets have a group per 10,000 records and ten rebalances per group; they are made first and kept in DIR. Every audit runs in a
process of its own, with two cores and a driver of 3 GB, and starts with its tables empty; session start is told apart.
All its processes together may take 6 GB: an audit that takes more ends the benchmark with an error.
CPU time is that of the JVM and of all Python workers, so that other work on the machine hardly shows in it.
Kafka's classes (a warm loop that decodes, and the formatter of the console consumer) get the first million records of the
smallest fleet, from memory. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.process_watch import Watch
from benchmarks.scale_chart import scale_chart
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = 1_000_000
SETTINGS = {"spark.master": "local[2]", "spark.driver.memory": "3g"}
MOST_MB = 6_000


def made(records: int, folder: Path) -> Path:
    """The fleet of that size, made if it is not there yet."""
    out = folder / f"fleet-{records}"
    if not (out / "planted.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        groups = max(1, records // 10_000)
        synthesize(Fleet(records, groups, 10 * groups), out)
    return out


def one(capture: Path, out: Path, strategies: Sequence[str] | None = None) -> dict[str, Any]:
    """One audit in this process."""
    shutil.rmtree(out, ignore_errors=True)
    watch = Watch()
    begin = time.perf_counter()
    spark, _ = local_session(SETTINGS, records=read_capture(capture).n_records)
    started = time.perf_counter() - begin
    marks: list[tuple[str, float, dict[str, float]]] = []

    def progress(stage: str, _done: int, _total: int) -> None:
        marks.append((stage, time.perf_counter(), watch.cpu()))

    first = (time.perf_counter(), watch.cpu())
    summary = audit(spark, capture, out, strategies=strategies, progress=progress).summary
    marks.append(("", time.perf_counter(), watch.cpu()))
    spark.stop()
    watch.stop()
    stages = [
        {"stage": name, "wall": then - begin, **{kind: after[kind] - before[kind] for kind in after}}
        for (name, begin, before), (_, then, after) in pairwise(marks)
    ]
    return {
        "records": summary["records"]["total"],
        "groups": summary["groups"]["total"],
        "rebalances": summary["rebalances"]["total"],
        "session": started,
        "wall": marks[-1][1] - first[0],
        "cpu": {kind: marks[-1][2][kind] - first[1][kind] for kind in first[1]},
        "peak": {kind: usage.peak_one for kind, usage in watch.usage.items()},
        "peak_together": watch.peak_together,
        "load": os.getloadavg()[1],
        "stages": stages,
    }


def peers(capture: Path, folder: Path) -> list[dict[str, Any]]:
    """Kafka's own classes on the same bytes; the last round of each counts."""
    sample = folder / "sample.bin"
    batch = next(pq.ParquetFile(capture / "consumer_offsets.parquet").iter_batches(SAMPLE, columns=["key", "value"]))
    with sample.open("wb") as file:
        file.write(struct.pack(">i", batch.num_rows))
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            body = struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
            file.write(struct.pack(">i", len(key)) + key + body)
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    program = [java, "-Xmx1g", "-XX:+UseSerialGC", "-cp", f"{ROOT}/.kafka/libs/*"]
    program += [f"{ROOT}/benchmarks/peer_programs/offsets/Offsets.java", str(sample)]
    found = []
    for what, rounds in (("decode", "6"), ("formatter", "3")):
        told = subprocess.run([*program, what, rounds], check=True, capture_output=True, text=True).stdout
        found.append({"peer": what, **json.loads([line for line in told.splitlines() if line.startswith("{")][-1])})
    sample.unlink()
    return found


def show(runs: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Tables for the terminal, in Markdown."""
    names = ("records", "groups", "rebalances", "wall s", "JVM cpu s", "Python cpu s", "cpu us/record", "JVM MB", "worker MB")
    print(f"| {' | '.join((*names, 'all MB', 'load', 'session s'))} |\n{'|---' * (len(names) + 3)}|")
    for run in runs:
        cpu, peak = run["cpu"], run["peak"]
        of_record = 1e6 * (cpu["java"] + cpu["worker"]) / run["records"]
        cells = [f"{run[name]:,}" for name in ("records", "groups", "rebalances")]
        cells += [f"{run['wall']:.0f}", f"{cpu['java']:.0f}", f"{cpu['worker']:.0f}", f"{of_record:.1f}"]
        cells += [f"{peak['java']:.0f}", f"{peak['worker']:.0f}", f"{run['peak_together']:.0f}", f"{run['load']:.0f}"]
        cells.append(f"{run['session']:.0f}")
        print(f"| {' | '.join(cells)} |")
    for run in runs:
        print(f"\n{run['records']:,} records, by stage: wall s, JVM cpu s, Python cpu s")
        for stage in run["stages"]:
            print(f"  {stage['stage']:12s} {stage['wall']:8.1f} {stage['java']:8.1f} {stage['worker']:8.1f}")
    for other in others:
        rate, of_record = other["records"] / other["seconds"], 1e6 * other["cpu"] / other["records"]
        print(f"\nKafka's classes, {other['peer']}: {rate:,.0f} records/s, {of_record:.2f} us of CPU time per record")


def main() -> None:
    """Measure and print; with --one only one audit, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "scale")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chart", type=Path, help="Where to draw what a record costs, as SVG.")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(one(given.one, given.folder / "audited")))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for records in given.records:
        capture = made(records, given.folder)
        words = [sys.executable, "-m", "benchmarks.audit_scale", "--folder", str(given.folder), "--one", str(capture)]
        told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
        runs.append(json.loads(told.splitlines()[-1]))
        shutil.rmtree(given.folder / "audited", ignore_errors=True)
        print(f"{records:,}: {runs[-1]['wall']:.0f} s", file=sys.stderr, flush=True)
        if runs[-1]["peak_together"] > MOST_MB:
            sys.exit(f"{records:,} records took {runs[-1]['peak_together']:,.0f} MB; {MOST_MB:,} are allowed")
    others = peers(made(given.records[0], given.folder), given.folder)
    show(runs, others)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"runs": runs, "peers": others}, indent=1) + "\n", encoding="utf-8")
    if given.chart is not None:
        sizes = " and ".join(f"{run['records']:,}" for run in runs)
        told = f"A bar for each of the audits of {sizes} records, divided by stages"
        given.chart.write_text(scale_chart(runs, "What a record costs in an audit", told), encoding="utf-8")


if __name__ == "__main__":
    main()
