"""One audit on a standalone Spark cluster of one worker with one core, and of two such workers, in turns: wall time.

    python -m benchmarks.audit_workers CAPTURE [--turns 2]

Master, workers and driver are all on this machine, so a second worker needs a second core. The time is that of the audit alone:
the program is submitted with `spark-submit`, and its session has its executors before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from tests.pipeline.spark_cluster import standalone

_PROGRAM = """
import json, sys, time
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.session import local_session

spark, _ = local_session()
spark.range(0, 8, 1, 8).mapInArrow(lambda rows: rows, "id long").count()
begin = time.perf_counter()
audit(spark, sys.argv[1], sys.argv[2])
print(json.dumps({"wall": time.perf_counter() - begin}))
spark.stop()
"""


def seconds(capture: Path, workers: int) -> float:
    """One audit on a new cluster."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "audit.py").write_text(_PROGRAM, encoding="utf-8")
        with standalone(folder, workers) as cluster:
            code = cluster.run("audit", cluster.submit("audit.py", str(capture.resolve()), str(folder / "out")))
            if code:
                raise SystemExit(cluster.text("audit")[-3000:])
            line = next(line for line in cluster.text("audit").splitlines() if line.startswith('{"wall"'))
            wall: float = json.loads(line)["wall"]
            return wall


def main() -> None:
    """Measure and print a line per audit, then the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    given = parser.parse_args()
    runs: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(given.turns):
        for workers, walls in runs.items():
            walls.append(seconds(given.capture, workers))
            print(f"workers {workers}: {walls[-1]:.1f} s", flush=True)
    one, two = (median(walls) for walls in runs.values())
    print(f"two workers are {one / two:.2f} times as fast as one")


if __name__ == "__main__":
    main()
