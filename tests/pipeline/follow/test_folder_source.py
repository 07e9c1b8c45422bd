"""A capture folder as a stream: every record once, only files that matter are read, and merging goes unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from counterpoise.errors import OptionError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.datasource import RECORDS
from counterpoise.pipeline.follow.folder_source import CaptureStream, parquet_files
from tests.pipeline.conftest import SHOP
from tests.pipeline.follow.growing import Growing

Places = list[tuple[int, int]]


def reader(folder: Path, **options: str) -> Any:
    return CaptureStream({"path": str(folder), **options}).streamReader(RECORDS)


def read(stream: Any, start: dict[str, Any], end: dict[str, Any]) -> Places:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [place for batch in batches for place in places(pa.Table.from_batches([batch]))]


def places(table: pa.Table) -> Places:
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    return Growing(tmp_path / "capture")


def test_pieces_under_a_limit_are_every_record_once(growing: Growing) -> None:
    stream, found = reader(growing.folder), []
    at: dict[str, Any] = {}
    for share in (0.2, 0.5, 1.0):
        growing.grow(share)
        while (end := stream.latestOffset(at, ReadMaxRows(3_000))) != at:
            piece = read(stream, at, end)
            assert len(piece) <= 3_000
            found += piece
            at = end
    assert stream.reportLatestOffset() == at
    everything = places(pq.read_table(SHOP / "consumer_offsets.parquet"))
    assert sorted(found) == sorted(everything)


def test_merging_changes_nothing_and_old_files_are_not_opened(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = reader(growing.folder)
    for at in range(16):
        growing.grow((at + 1) / 40)
    before = stream.latestOffset({}, ReadAllAvailable())
    growing.merge()
    assert stream.latestOffset(before, ReadAllAvailable()) == before
    growing.grow(0.5)
    end = stream.latestOffset(before, ReadAllAvailable())
    opened, real = [], pq.ParquetFile

    def open_file(file: Path) -> pq.ParquetFile:
        opened.append(file)
        return real(file)

    monkeypatch.setattr(pq, "ParquetFile", open_file)
    found = read(stream, before, end)
    assert len(opened) == 1
    start = before[OFFSETS_TOPIC]
    assert found
    assert all(offset >= start.get(str(partition), 0) for partition, offset in found)


def test_files_that_were_listed_stay_readable_while_a_capture_merges(growing: Growing) -> None:
    for at in range(16):
        growing.grow((at + 1) / 40)
    listed = parquet_files(growing.folder, "consumer_offsets.parquet")
    growing.merge()
    assert len(listed) == 16
    assert all(pq.read_metadata(file).num_rows > 0 for file in listed)


def test_a_capture_in_one_file_without_positions_is_read_too(tmp_path: Path) -> None:
    table = pq.read_table(SHOP / "consumer_offsets.parquet").slice(0, 500)
    pq.write_table(table.replace_schema_metadata(None).drop(["topic"]), tmp_path / "consumer_offsets.parquet")
    stream = reader(tmp_path)
    end = stream.latestOffset({}, ReadAllAvailable())
    assert sorted(read(stream, {}, end)) == sorted(places(table))


def test_a_fixed_end_stays_while_the_capture_grows(growing: Growing) -> None:
    growing.grow(0.3)
    stream = reader(growing.folder)
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset({}, ReadAllAvailable())
    growing.grow(0.6)
    assert stream.latestOffset({}, ReadAllAvailable()) == end
    assert reader(growing.folder).latestOffset({}, ReadAllAvailable()) != end


def test_a_stream_begins_where_it_is_told(growing: Growing) -> None:
    growing.grow(0.3)
    stream = reader(growing.folder, startingOffsets=f'{{"{OFFSETS_TOPIC}": {{"3": 7}}}}', maxOffsetsPerTrigger="10")
    assert stream.initialOffset() == {OFFSETS_TOPIC: {"3": 7}}
    assert stream.getDefaultReadLimit() == ReadMaxRows(10)
    with pytest.raises(OptionError, match="path: the folder of a capture is wanted"):
        CaptureStream({}).streamReader(RECORDS)
