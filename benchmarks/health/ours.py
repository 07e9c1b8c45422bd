"""The rows of the table `health` as alarms."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.pipeline.in_process import audited_in_process

from benchmarks.health.recording import Alarm, Place, Recording
from counterpoise.pipeline.source.capture import CaptureFiles

__all__ = ["OURS", "STATES", "health_alarms"]

OURS = "counterpoise"
STATES = {state: (state,) for state in ("falling_behind", "stalled", "stopped", "unowned", "losing_data")}
"""What a state says, in the words of the table."""
_FILES = ("consumer_offsets.parquet", "log_offsets.parquet", "topics.json", "aborted_offsets.json")


def health_alarms(recording: Recording, every: int = 1) -> list[Alarm]:
    """The rows that say that something is wrong with a partition, from the time at which the rule could know.

    Of the samples of each log, each `every`-th is used.
    """
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        folder = Path(scratch) / "capture"
        folder.mkdir()
        paths = [folder / name for name in _FILES]
        for path in paths:
            if (recording.folder / path.name).exists():
                shutil.copyfile(recording.folder / path.name, path)
        _thin(paths[1], every)
        # In this order a running capture has them.
        records = pq.read_table(paths[0]).sort_by([("timestamp", "ascending"), ("offset", "ascending")])
        pq.write_table(records, paths[0])
        topics, aborted = (str(path) if path.exists() else None for path in paths[2:])
        audited_in_process(CaptureFiles((str(paths[0]),), (str(paths[1]),), topics, aborted), Path(scratch) / "out", patch)
        rows = [
            row
            for file in sorted((Path(scratch) / "out/tables/health").rglob("*.parquet"))
            for row in pq.read_table(file).to_pylist()
        ]
    return [_alarm(row, recording) for row in rows if row["scope"] == "partition" and row["state"] in STATES]


def _alarm(row: dict[str, Any], recording: Recording) -> Alarm:
    since, until = (row[name].timestamp() - recording.begin for name in ("detected", "until"))
    return Alarm(Place(row["group_id"], row["topic"], row["partition"]), row["state"], since, until)


def _thin(file: Path, every: int) -> None:
    table = pq.read_table(file)
    seen: Counter[tuple[str, int]] = Counter()
    keep = []
    for log in zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True):
        keep.append(seen[log] % every == 0)
        seen[log] += 1
    pq.write_table(table.filter(keep), file)
