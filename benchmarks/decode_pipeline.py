"""Decode rates on a million real offset commits: kernel, plain scan, Spark's identity mapInArrow, the decode stage.

Everything in one run and one session with one core; the rounds are interleaved, so a slow moment hits all of them, and the
best of each is told beside the median. Wanted: the kernel at 3 million records/s or more, the stage at 0.9 of identity or more.

    python benchmarks/decode_pipeline.py [--rounds N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from counterpoise.pipeline.decode import offset_commits
from counterpoise.pipeline.records.commits import commit_batch
from counterpoise.pipeline.session import local_session

CAPTURE = Path(__file__).parent / "data" / "commits-1m.parquet"
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Out what came in: the price of the way from the JVM to Python and back."""
    yield from batches


def timed(run: Callable[[], None]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def drain(frame: DataFrame) -> None:
    """Compute every row and column, keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def decode_all(batches: Iterable[pa.RecordBatch]) -> None:
    """The kernel over all batches."""
    for batch in batches:
        commit_batch(batch)


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds per round of each contender, the first round left out as warm-up."""
    batches = pq.read_table(CAPTURE, columns=COLUMNS).combine_chunks().to_batches(65536)
    spark, _ = local_session({"spark.master": "local[1]"})
    records = spark.read.parquet(str(CAPTURE))
    contenders: dict[str, Callable[[], None]] = {
        "kernel alone, no Spark": lambda: decode_all(batches),
        "plain scan": lambda: drain(records),
        "identity mapInArrow": lambda: drain(records.mapInArrow(identity, records.schema)),
        "decode stage": lambda: drain(offset_commits(records)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            took = timed(run)
            if turn:
                seconds[name].append(took)
    spark.stop()
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds after one warm-up (default 5)")
    seconds = measure(parser.parse_args().rounds)
    n = pq.read_metadata(CAPTURE).num_rows
    print(f"{n:,} records, one core; million records/s: best, median")
    for name, took in seconds.items():
        print(f"  {name:24s} {n / min(took) / 1e6:6.2f} {n / median(took) / 1e6:6.2f}")
    pairs = zip(seconds["identity mapInArrow"], seconds["decode stage"], strict=True)
    ratios = [one / other for one, other in pairs]
    best = min(seconds["identity mapInArrow"]) / min(seconds["decode stage"])
    print(f"  decode stage / identity: {best:.2f} by the best rounds, {median(ratios):.2f} by the median of pairs (0.9 wanted)")


if __name__ == "__main__":
    main()
