"""Audits of one capture in several ways, in turns, and of another checkout beside them: CPU time, wall time, peak memory.

    git worktree add ../before 5a19fe1
    python -m benchmarks.audit_ways CAPTURE [--before ../before] [--ways before path group frame] [--turns 2] [--json FILE]

| way | |
|---|---|
| before | the other checkout, from the path |
| path | from the path |
| group | from the path, with ``--group '*'`` |
| frame | the records as a DataFrame of Spark's Parquet reader |
| small | from the path, each Python worker limited to 450 MB of memory by Spark |

Every audit runs in a process of its own. CPU time is that of all its processes: driver, JVM, Python workers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.dataset as ds

from benchmarks.process_watch import Watch

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("before", "path", "group", "frame", "small")


def one(capture: Path, out: Path, way: str) -> dict[str, Any]:
    """One audit in this process, by the package that it imports."""
    from counterpoise.pipeline.audit import audit
    from counterpoise.pipeline.session import local_session

    shutil.rmtree(out, ignore_errors=True)
    settings = {"spark.master": "local[2]", "spark.driver.memory": "3g"}
    if way == "small":
        settings["spark.executor.pyspark.memory"] = "450m"
    watch = Watch()
    spark, _ = local_session(settings, records=ds.dataset(capture / "consumer_offsets.parquet").count_rows())
    source: Any = capture
    if way == "frame":
        from counterpoise.pipeline.source.capture import Capture, read_capture

        records = spark.read.parquet(str(capture / "consumer_offsets.parquet"))
        source = Capture(replace(read_capture(capture).files, records=()), records)
    options: dict[str, Any] = {}
    if way == "group":
        from counterpoise.pipeline.source.scope import AuditScope

        options["scope"] = AuditScope(("*",))
    begin, before = time.perf_counter(), watch.cpu()
    audit(spark, source, out, **options)
    wall, after = time.perf_counter() - begin, watch.cpu()
    spark.stop()
    watch.stop()
    cpu = {kind: after[kind] - before[kind] for kind in after}
    peaks = {kind: usage.peak_one for kind, usage in watch.usage.items()}
    return {"way": way, "wall": wall, "cpu": cpu, "sum": sum(cpu.values()), "peak": peaks, "all": watch.peak_together}


def main() -> None:
    """Measure and print a line per audit, then medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["path", "group"])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "scale")
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(one(given.capture, given.folder / "audited", given.one)))
        return
    runs = []
    for _ in range(given.turns):
        for way in given.ways:
            tree = given.before if way == "before" else ROOT
            path = os.pathsep.join([str(tree.resolve() / "src"), str(ROOT)])
            program = [sys.executable, "-m", "benchmarks.audit_ways", str(given.capture.resolve()), "--one", way]
            program += ["--folder", str(given.folder.resolve())]
            env = {**os.environ, "PYTHONPATH": path}
            done = subprocess.run(program, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
            _show(runs[-1])
    for way in given.ways:
        mine = [run for run in runs if run["way"] == way]
        wall, cpu = (median(run[what] for run in mine) for what in ("wall", "sum"))
        print(f"{way:8s} median of {len(mine)}: {wall:.1f} s, {cpu:.1f} s of CPU time")
    if given.json is not None:
        known = json.loads(given.json.read_text()) if given.json.exists() else []
        given.json.write_text(json.dumps([*known, {"capture": given.capture.name, "runs": runs}], indent=1) + "\n")


def _show(run: dict[str, Any]) -> None:
    cpu, peak = (" ".join(f"{kind} {run[what][kind]:.0f}" for kind in sorted(run[what])) for what in ("cpu", "peak"))
    print(
        f"{run['way']:8s} wall {run['wall']:6.1f} s, cpu {run['sum']:6.1f} s ({cpu}), peak MB {peak}, all {run['all']:.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
