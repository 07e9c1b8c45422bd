"""Compaction: small files of a table's day are merged, because updates every few seconds would write thousands of files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from counterpoise.pipeline.storage.files import file_infos, in_row_groups, parquet_file, parquet_writer, storage_errors
from counterpoise.pipeline.tables.paths import by_partition
from counterpoise.pipeline.tables.transaction import TableTransaction

__all__ = ["MOST_BYTES", "MOST_FILES", "compacted", "files_to_merge", "merge_files"]

MOST_FILES = 32
"""Up to this number the files of a day are not merged. Opening one takes 0.4 ms: 32 files in each of eight tables 0.1 s."""
MOST_BYTES = 32 << 20
"""Maximal bytes that an update rewrites, in about a second. A larger file is never rewritten."""
_ROW_GROUP = 16 << 20
"""Approximate bytes of rows in memory."""


def compacted(
    work: TableTransaction, name: str, partitions: Collection[str], others: Collection[str]
) -> tuple[list[str], list[str]]:
    """Merge stored files of the days to which an update adds rows, if they are many.

    `partitions`: table partitions ``cluster=<name>/date=<day>`` to which the update adds rows. `others`: files that the update
    removes anyway. Returns the files to add and to remove. The removed files have at most `MOST_BYTES` in all.
    """
    left, added, removed = MOST_BYTES, list[str](), list[str]()
    stored = by_partition(file for file in work.manifest.below("tables", name) if file not in others)
    for partition in sorted(set(partitions) & stored.keys()):
        if len(stored[partition]) > MOST_FILES:
            folder = stored[partition][0].rpartition("/")[0]
            sizes = {file: about.size for file, about in file_infos(folder).items() if file in set(stored[partition])}
            chosen = files_to_merge(sizes, left)
            if chosen:
                left -= sum(sizes[file] for file in chosen)
                added.append(f"{folder}/{work.new_files.file_name()}")
                merge_files(chosen, added[-1])
                removed += chosen
    return added, removed


def files_to_merge(sizes: Mapping[str, int], most_bytes: int) -> list[str]:
    """The files of one day to merge into one, with at most `most_bytes` in all; none if there are at most `MOST_FILES`.

    `sizes`: file -> its bytes. The two smallest files, then each next one that is at most twice as large as those chosen so far
    together. So every row is rewritten O(log n) times in n updates.
    """
    chosen: list[str] = []
    whole = 0
    for size, file in sorted((size, file) for file, size in sizes.items()) if len(sizes) > MOST_FILES else ():
        if whole + size > most_bytes or (len(chosen) > 1 and size > 2 * whole):
            break
        chosen.append(file)
        whole += size
    return chosen if len(chosen) > 1 else []


def merge_files(files: Sequence[str], goal: str) -> None:
    """Write the rows of Parquet files of one schema to one file, some megabytes at a time."""
    with parquet_file(files[0]) as first:
        schema = first.schema_arrow
    with parquet_writer(goal, schema, compression="snappy", store_schema=False) as writer:
        for table in in_row_groups(chain.from_iterable(map(_batches, files)), _ROW_GROUP, lambda batch: batch.nbytes):
            with storage_errors(goal):
                writer.write_table(table)


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    with parquet_file(file) as opened:
        yield from opened.iter_batches()
