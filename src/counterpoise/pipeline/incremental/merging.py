"""Small files of a table's day merged into larger ones: updates every few seconds would leave thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["MOST_BYTES", "MOST_FILES", "files_to_merge", "merge_files"]

MOST_FILES = 32
"""So many files of a day are left as they are. To open one takes a reader 0.4 ms: of 32 files in each of eight tables 0.1 s."""
MOST_BYTES = 32 << 20
"""An update rewrites so many bytes at most, which takes about a second. A larger file is never rewritten."""
_ROW_GROUP = 16 << 20
"""So many bytes of rows are held in memory, about."""


def files_to_merge(files: Iterable[Path], most_bytes: int) -> list[Path]:
    """The files of one day that are worth merging into one; none if there are at most `MOST_FILES`.

    The smallest are taken, each at most twice as large as all before it together. So every row is rewritten O(log n) times in
    n updates.

    Parameters
    ----------
    files : iterable of Path
    most_bytes : int
        Bytes of all together, at most.
    """
    sized = sorted((file.stat().st_size, file) for file in files)
    chosen: list[Path] = []
    whole = 0
    for size, file in sized if len(sized) > MOST_FILES else ():
        if whole + size > most_bytes or (len(chosen) > 1 and size > 2 * whole):
            break
        chosen.append(file)
        whole += size
    return chosen if len(chosen) > 1 else []


def merge_files(files: Sequence[Path], goal: Path) -> None:
    """Write the rows of some Parquet files of one schema into one file, some megabytes at a time."""
    with pq.ParquetWriter(goal, pq.read_schema(files[0]), compression="snappy", store_schema=False) as writer:
        held, size = list[pa.RecordBatch](), 0
        for file in files:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches():
                    held.append(batch)
                    size += batch.nbytes
                    if size > _ROW_GROUP:
                        writer.write_table(pa.Table.from_batches(held))
                        held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held))
