"""`audit --since last` after each hour of a day: CPU and wall time of every update, and the 24th beside the 2nd.

    python -m benchmarks.audit_updates [--records 2400000] [--groups 200] [--folder DIR] [--json FILE]

A made-up fleet of 24 hours is cut by time into 24 files of records and of samples; each update finds one more of both. All
updates run in one session. CPU time is that of driver, JVM and Python workers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.audit_scale import ROOT, SETTINGS
from benchmarks.process_watch import Watch
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet

HOURS = 24
FILES = (("consumer_offsets.parquet", "timestamp"), ("log_offsets.parquet", "sampled_at"))


def made(out: Path, records: int, groups: int) -> Path:
    """The whole day, if it is not there yet."""
    if not (out / "planted.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        synthesize(Fleet(records, groups, 10 * groups, 3600.0 * HOURS), out)
    return out


def add_hour(day: Path, growing: Path, hour: int) -> None:
    """One more file of each kind."""
    for name, column in FILES:
        rows = pq.read_table(day / name)
        first = pc.cast(pc.min(pq.read_table(day / FILES[0][0], columns=["timestamp"])["timestamp"]), rows[column].type).value
        unit = {"ms": 1_000, "us": 1_000_000}[rows[column].type.unit] * 3600
        at = pc.cast(rows[column], pa.int64())
        low, high = (pa.scalar(first + unit * edge, pa.int64()) for edge in (hour, hour + 1))
        later = pc.greater_equal(at, low) if hour else pc.is_valid(at)
        mine = pc.and_(later, pc.less(at, high)) if hour < HOURS - 1 else later
        (growing / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.filter(mine), growing / name / f"part-{hour:02d}.parquet")
    shutil.copy(day / "topics.json", growing)


def main() -> None:
    """Measure, and print a line per update."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_400_000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "scale")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    day, growing, out = (given.folder / name for name in (f"day-{given.records}", "growing", "updated"))
    made(day, given.records, given.groups)
    for folder in (growing, out):
        shutil.rmtree(folder, ignore_errors=True)
    watch = Watch()
    spark, _ = local_session(SETTINGS, records=given.records)
    runs = []
    for hour in range(HOURS):
        add_hour(day, growing, hour)
        begin, before = time.perf_counter(), sum(watch.cpu().values())
        summary = audit(spark, growing, out, since_last=True).summary
        runs.append({"wall": time.perf_counter() - begin, "cpu": sum(watch.cpu().values()) - before})
        print(
            f"{hour + 1:2d} {runs[-1]['wall']:6.1f} s, cpu {runs[-1]['cpu']:6.1f} s, {summary['records']['total']:,}", flush=True
        )
    spark.stop()
    watch.stop()
    early, late = (sum(run["cpu"] for run in some) / 3 for some in (runs[1:4], runs[-3:]))
    print(f"the last three beside the second to fourth: {late / early:.2f} x the CPU time")
    if given.json is not None:
        given.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
