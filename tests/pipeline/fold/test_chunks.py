"""However the log is cut into chunks, and whether states are put away between them or not: the tables are the golden ones."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.group_state import GroupState
from counterpoise.pipeline.fold.task import _Chunks
from counterpoise.pipeline.shuffle.blocks import STATE, Block
from counterpoise.pipeline.source.capture import CaptureFiles
from tests.pipeline.conftest import SHOP
from tests.pipeline.golden import differences, frozen, summed_up
from tests.pipeline.in_process import audited_in_process

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
RECORDED = Path(__file__).parents[2] / "data" / "recorded"
RECORDS, ENDS = "consumer_offsets.parquet", "log_offsets.parquet"


@pytest.fixture(scope="module")
def shop_by_time(tmp_path_factory: pytest.TempPathFactory) -> CaptureFiles:
    """The shop's records in the order in which they were appended, as a running capture has them."""
    folder = tmp_path_factory.mktemp("by-time")
    records = pq.read_table(SHOP / RECORDS).sort_by([("timestamp", "ascending"), ("offset", "ascending")])
    pq.write_table(records, folder / RECORDS)
    others = [str(SHOP / name) for name in (ENDS, "topics.json", "aborted_offsets.json")]
    return CaptureFiles((str(folder / RECORDS),), (others[0],), *others[1:])


@pytest.mark.parametrize(
    ("rows", "chunk", "saved", "chunks"),
    [(3000, 0, True, 30)] + [(700, 1 << 16, False, 20)] * LONG,
    ids=["every cut, put away"] + ["some cuts together"] * LONG,
)
def test_any_cut_of_the_log_gives_the_same_tables(
    shop_by_time: CaptureFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    chunk: int,
    saved: bool,
    chunks: int,
) -> None:
    folded = audited_in_process(shop_by_time, tmp_path, monkeypatch, rows=rows, chunk=chunk, saved=saved)
    assert differences(summed_up(tmp_path), frozen("shop")) == []
    assert folded >= chunks


@pytest.mark.parametrize(("name", "rows"), [("kip848", 1), ("kicked", 15), ("scaled", 120)])
def test_any_cut_of_the_log_of_a_recorded_kip_848_group_gives_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rows: int
) -> None:
    """A cut after every record of the smallest recording, and every few of the others; none between two records of one time."""
    folder = RECORDED / name
    records = pq.read_table(folder / RECORDS).sort_by([("timestamp", "ascending"), ("offset", "ascending")])
    pq.write_table(records, tmp_path / RECORDS)
    files = CaptureFiles((str(tmp_path / RECORDS),), (str(folder / ENDS),), str(folder / "topics.json"))
    audited_in_process(files, tmp_path / "whole", monkeypatch)
    folded = audited_in_process(files, tmp_path / "cut", monkeypatch, rows=rows, chunk=0, saved=True)
    assert differences(summed_up(tmp_path / "cut"), summed_up(tmp_path / "whole")) == []
    assert folded > (130 if rows == 1 else 40)


def test_no_group_waits_for_garbage_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run without it: no group refers to itself, so that its state is freed with its bucket."""
    folder = RECORDED / "kip848"
    files = CaptureFiles((str(folder / RECORDS),), (str(folder / ENDS),), str(folder / "topics.json"))
    gc.disable()
    try:
        audited_in_process(files, tmp_path, monkeypatch)
        assert [one for one in gc.get_objects() if type(one) is GroupState] == []
    finally:
        gc.enable()


def test_a_bucket_with_a_state_and_no_new_record_has_a_chunk() -> None:
    """New samples may have made something final; a bucket without a state has nothing to make final."""
    chunks = _Chunks([Block(0, -NEVER, STATE, b"state")], frozenset(), pa.Table.to_pylist)
    assert [(len(list(one.records)), len(one.commits), one.until, chunks.state, chunks.ended) for one in chunks] == [
        (0, 0, NEVER, b"state", True)
    ]
    assert list(_Chunks([], frozenset(), pa.Table.to_pylist)) == []
