"""Decode rate of the offsets topic on one core: the batch kernel, its parts, and the row-wise decoder beside it.

    python benchmarks/decode_kernel.py [PARQUET] [--rounds N]

PARQUET holds `key` and `value` columns as recorded from __consumer_offsets; default: a million real commits. Arrow runs
with one thread. The kernel's time includes the dictionary encoding of the keys. Best and median of the rounds, first
round (cold memory) apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.wire.columns import BinaryColumn, pack_slices
from counterpoise.wire.offsets_topic.batch import CommitBatch, decode_commits
from counterpoise.wire.offsets_topic.batch_keys import decode_keys
from counterpoise.wire.offsets_topic.records import decode_record

__all__ = ["column", "decode_arrow", "main"]

COMMITS = Path(__file__).parent / "data" / "commits-1m.parquet"
ROW_WISE_ROWS = 50_000


def column(array: pa.BinaryArray) -> BinaryColumn:
    """The buffers of an Arrow binary array as NumPy views; nothing is copied."""
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    return BinaryColumn(starts, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), valid)


def decode_arrow(keys: pa.BinaryArray, values: pa.BinaryArray) -> CommitBatch:
    """The whole kernel: dictionary-encode the keys, decode each distinct one once, and all values by vectors."""
    encoded = keys.dictionary_encode()
    return decode_commits(decode_keys(column(encoded.dictionary)), np.asarray(encoded.indices.fill_null(-1)), column(values))


def seconds(work: Callable[[], object], rounds: int) -> tuple[float, float, float, float]:
    """(first, best, median, best in CPU time) of `rounds` runs; the last one does not see other programs."""
    taken, used = [], []
    for _ in range(rounds):
        start, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append(time.perf_counter() - start)
        used.append(time.process_time() - cpu)
    return taken[0], min(taken), statistics.median(taken), min(used)


def main() -> None:
    """Print a table of rates in million records per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parquet", nargs="?", type=Path, default=COMMITS)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    table = pq.read_table(given.parquet, columns=["key", "value"]).combine_chunks()
    keys, values = table["key"].chunk(0), table["value"].chunk(0)
    n, batch = len(keys), decode_arrow(keys, values)
    some = list(zip(keys[:ROW_WISE_ROWS].to_pylist(), values[:ROW_WISE_ROWS].to_pylist(), strict=True))
    print(f"{n} records, {len(batch.row)} commits, {len(batch.keys.record_type)} distinct keys, {len(batch.rest)} others")
    lines: list[tuple[str, int, Callable[[], object]]] = [
        ("kernel, keys' dictionary included", n, lambda: decode_arrow(keys, values)),
        (
            "kernel in batches of 10,000 rows",
            n,
            lambda: [decode_arrow(keys[at : at + 10_000], values[at : at + 10_000]) for at in range(0, n, 10_000)],
        ),
        ("of it, Arrow's dictionary_encode", n, keys.dictionary_encode),
        ("metadata to a string column", n, lambda: pack_slices(column(values).data, batch.metadata_start, batch.metadata_length)),
        ("row by row, for comparison", len(some), lambda: [decode_record(key, value) for key, value in some]),
    ]
    print(f"{'million records/s':40}{'first':>9}{'best':>9}{'median':>9}{'cpu best':>10}")
    for name, rows, work in lines:
        print(f"{name:40}" + "".join(f"{rows / max(taken, 1e-9) / 1e6:9.3f}" for taken in seconds(work, given.rounds)))


if __name__ == "__main__":
    main()
