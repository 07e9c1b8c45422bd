"""An audit without Spark: the scan and fold tasks of a local capture, one after the other in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.fold import task
from counterpoise.pipeline.fold.bucket import Bucket, Chunk, FoldSpec
from counterpoise.pipeline.fold.ends_file import samples_of
from counterpoise.pipeline.fold.table_rows import TableRows
from counterpoise.pipeline.fold.task import ClusterFold, fold
from counterpoise.pipeline.history.replay_fold import comparable
from counterpoise.pipeline.scan import scan as scanning
from counterpoise.pipeline.scan.offset_spans import chunk_starts
from counterpoise.pipeline.scan.read import InputSplit, plan_splits, raw_batches
from counterpoise.pipeline.scan.scan import ScanSpec, scan
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.shuffle.blocks import MANIFEST, Block, ClusterTask
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.tables.paths import day_folder
from counterpoise.pipeline.tables.transaction import NewFiles

BUCKETS = 8


def audited_in_process(
    files: CaptureFiles,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rows: int = 1 << 17,
    chunk: int | None = None,
    saved: bool = False,
    gaps: tuple[tuple[int, int, int], ...] = (),
) -> int:
    """Write the tables of an audit into ``out/tables``; returns how many chunks were folded.

    Parameters
    ----------
    files : CaptureFiles
    out : Path
    monkeypatch : MonkeyPatch
    rows : int
        A scan task flushes after so many records.
    chunk : int, optional
        So many bytes of blocks are a chunk.
    saved : bool
        Between two chunks a bucket's state is put away and read back.
    gaps : tuple
        As `Capture.gaps`.
    """
    if chunk is not None:
        monkeypatch.setattr(task, "_CHUNK", chunk)
    monkeypatch.setattr(scanning, "_Scan", _Flushing)
    counted = [0]
    monkeypatch.setattr(task, "Bucket", _bucket(counted, saved=saved))
    work = out / "work"
    work.mkdir(parents=True)
    ends = samples_of(files, str(work / "ends.bin"))
    splits, _ = plan_splits({"default": files.records}, 2, {})
    names = NewFiles(str(work), 1)
    of_cluster = ClusterTask("default", names, 0, BUCKETS)
    spec = ScanSpec(of_cluster, tuple(ends.instants.tolist()), aborted=files.aborted_records or frozenset())
    blocks = [block for split in splits["default"] for cut in scan(_small(split, rows), spec) for block in cut]
    scanned = [json.loads(block.payload) for block in blocks if block.bucket == MANIFEST]
    ends.save(str(work / "ends.json"))
    topics = {one: topic for about in scanned for one, topic in about["names"]}
    topics |= {one: topic for topic, one in (files.topic_ids or {}).items()}
    of = ClusterFold(
        *(of_cluster, str(work / "ends.json"), FoldSpec(comparable(), topics, files.topic_ids, gaps=gaps)),
        chunk_starts=frozenset(chunk_starts((time, spans) for one in scanned for time, spans in one["flushes"])),
        end=max(at for about in scanned for _, _, at in about["last"]),
    )
    sorted_ = sorted((one for one in blocks if one.bucket != MANIFEST), key=_order)
    folded = [json.loads(manifest) for manifest in fold(iter(sorted_), [of])]
    for name in TABLES:
        (out / "tables" / name).mkdir(parents=True)
    made = [(name, "default", table) for one in (*scanned, *folded) for name, table in one["tables"].items()]
    made += [(name, "default", table) for one in folded for name, table in one["provisional"].items()]
    for table, cluster, about in made:
        for day, file in about["days"].items():
            goal = out / "tables" / table / day_folder(cluster, day)
            goal.mkdir(parents=True, exist_ok=True)
            Path(file).rename(goal / Path(file).name)
    return counted[0]


def _order(block: Block) -> tuple[int, int, int]:
    return block.bucket, block.first_time, block.kind


def _small(split: InputSplit, rows: int) -> Iterator[pa.RecordBatch]:
    for batch in raw_batches(split):
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)


class _Flushing(scanning._Scan):
    """Flushes after every batch."""

    def add(self, batch: pa.RecordBatch) -> Iterator[list[Block]]:
        yield from super().add(batch)
        yield self.flush()


def _bucket(counted: list[int], *, saved: bool) -> type[Bucket]:
    class Counting(Bucket):
        """Counts its chunks; its state is put away after each of them."""

        def advance(self, chunk: Chunk, rows: TableRows) -> None:
            super().advance(chunk, rows)
            counted[0] += 1
            if saved:
                state: Any = self.state()
                self.__init__(self._spec, self._ends, self._plans, state)  # type: ignore[misc]

    return Counting
