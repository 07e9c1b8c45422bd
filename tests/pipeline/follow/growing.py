"""The shop capture as a folder that grows, as a running capture writes it: files behind a link, positions in their footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.pipeline.capture.columns import ARROW, OFFSETS_TOPIC
from counterpoise.pipeline.capture.disk_series import DiskSeries
from counterpoise.pipeline.capture.object_series import ObjectSeries
from counterpoise.pipeline.capture.series import Series
from counterpoise.pipeline.storage.files import is_local, join, write_bytes
from tests.pipeline.conftest import SHOP

__all__ = ["Growing"]

RECORDS, ENDS = "consumer_offsets.parquet", "log_offsets.parquet"


class Growing:
    """The first records of the shop capture, and more with every `grow`.

    Parameters
    ----------
    folder : Path, or str
        Made here; may be a place of an object store.

    Attributes
    ----------
    positions : dict
        Log partition -> the offset after its last record.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = folder
        self._all = pq.read_table(SHOP / RECORDS).cast(ARROW)
        self._stamps = sorted(self._all["timestamp"].to_pylist())
        self._samples = pq.read_table(SHOP / ENDS)
        self._records = self._series(RECORDS, ARROW, "timestamp")
        self._ends = self._series(ENDS, self._samples.schema.remove_metadata(), "sampled_at")
        self.positions: dict[int, int] = {}
        self._done = 0.0
        for name in ("topics.json", "aborted_offsets.json"):
            write_bytes(join(str(folder), name), (SHOP / name).read_bytes())

    def _series(self, name: str, schema: pa.Schema, time_column: str) -> Series:
        place = str(self.folder)
        if not is_local(place):
            return ObjectSeries(join(place, name), schema, time_column, lambda: None)
        (store := Path(place) / "store").mkdir(parents=True, exist_ok=True)
        return DiskSeries(Path(place) / name, store, schema, time_column)

    def grow(self, share: float) -> dict[int, int]:
        """Add to the capture until so much of the recording (by records) is there; returns the position in each log partition.

        Samples come first: whoever has read up to these positions has all of them.
        """
        first, last = self._moment(self._done), self._moment(share)
        self._done = share
        records = _within(self._all, "timestamp", first, last)
        ends = records.group_by("partition").aggregate([("offset", "max")]).to_pylist()
        self.positions |= {row["partition"]: row["offset_max"] + 1 for row in ends}
        self._ends.append(_within(self._samples, "sampled_at", first, last).to_batches(), {})
        self._records.append(records.to_batches(), {OFFSETS_TOPIC: dict(self.positions)})
        return dict(self.positions)

    def merge(self) -> None:
        """Make one file of many, as a capture does now and then: a new folder, and the link to it."""
        assert self._records.merge()
        assert self._ends.merge()

    def _moment(self, share: float) -> object:
        if share <= 0 or share >= 1:
            return None
        return self._stamps[int(len(self._stamps) * share)]


def _within(table: pa.Table, column: str, first: object, last: object) -> pa.Table:
    kind = table[column].type
    if first is not None:
        table = table.filter(pc.greater_equal(table[column], pa.scalar(first, kind)))
    return table if last is None else table.filter(pc.less(table[column], pa.scalar(last, kind)))
