"""`audit --since last`: whatever the pieces a capture came in, the tables are those of one audit of all of it."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline import audit as auditing
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.incremental.saved import identity_of
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.capture import Capture
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.incremental.conftest import ONE_PARTITION, Pieces
from tests.pipeline.incremental.pieces import RECORDS, comparable_rows, cut, plain, rows_by_number, saved_in, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tables_in_pieces_are_the_tables_in_one_go(pieces: Pieces, name: str) -> None:
    assert comparable_rows(pieces.out, name) == comparable_rows(pieces.whole, name)


def test_the_summary_is_that_of_one_audit(pieces: Pieces) -> None:
    whole, last = (json.loads((out / "summary.json").read_text(encoding="utf-8")) for out in (pieces.whole, pieces.out))
    assert last.pop("since_last") == 4
    assert (whole.pop("source"), last.pop("source")) == (str(SHOP), str(pieces.folder))
    assert plain(last) == plain(whole)


def test_only_new_records_are_decoded(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "capture", tmp_path / "out"
    first: dict[int, int] = {}
    for share in (0.1, 0.2):
        cut(folder, until(share, "timestamp"), until(share, "sampled_at"))
        with configured(spark, ONE_PARTITION):
            last = audit(spark, {"default": folder}, out, strategies=["sticky"], since_last=True)
        saved = saved_in(out)
        assert saved is not None
        positions = saved.clusters["default"].positions
        first = positions if share == 0.1 else first
    records = pq.read_table(folder / RECORDS, columns=["partition", "offset"])
    ends = records.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    assert positions == {row["partition"]: row["offset_max"] + 1 for row in ends}
    old, new = rows_by_number(out, "offset_commits", 1), rows_by_number(out, "offset_commits", 2)
    assert old
    assert all(row["log_offset"] < first[row["log_partition"]] for row in old)
    assert new
    assert all(row["log_offset"] >= first.get(row["log_partition"], 0) for row in new)
    assert last.summary["records"]["total"] == records.num_rows


def test_what_final_rows_did_not_know_makes_all_be_read_again(pieces: Pieces) -> None:
    """A topic was made anew, and from the first the metadata of the capture had its last id."""
    by_number = [len(rows_by_number(pieces.out, "offset_commits", number)) for number in (1, 2, 3, 4)]
    assert by_number[:3] == [0, 0, 0]
    assert sum(by_number) == len(rows_of(pieces.whole, "offset_commits"))


def test_with_nothing_new_nothing_is_written_and_no_session_is_started(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "local_session", None)
    before = written(pieces.out)
    result = audit(None, {"default": pieces.folder}, pieces.out, since_last=True)
    assert result.nothing_new
    assert result.summary == pieces.updates[-1].summary
    assert written(pieces.out) == before


def written(out: Path) -> dict[Path, tuple[int, int]]:
    """When each file but the lock was written."""
    files = [file for file in out.rglob("*") if file.is_file() and file.name != "lock"]
    return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


def test_a_capture_that_dropped_what_was_not_read_is_refused(spark: SparkSession, pieces: Pieces, tmp_path: Path) -> None:
    other = shutil.copytree(pieces.folder, tmp_path / "other")
    table = pq.read_table(other / RECORDS)
    stamps = table["timestamp"]
    later = pa.array([one + timedelta(days=40) for one in stamps.to_pylist()], stamps.type)
    offsets = pc.add(table["offset"], 1_000_000)
    for name, column in (("timestamp", later), ("offset", offsets)):
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, other / RECORDS)
    at = pieces.updates[-1].positions[0]
    words = rf"dropped records before they were audited \(log partition 0: offsets {at} to 999999\); to audit what is left"
    with pytest.raises(CaptureError, match=words):
        audit(spark, {"default": other}, pieces.out, since_last=True)


def test_tables_that_were_made_without_since_last_are_not_replaced(spark: SparkSession, pieces: Pieces) -> None:
    before = sorted(pieces.whole.rglob("*"))
    with pytest.raises(OptionError, match="was made without it and cannot be continued; give another --out"):
        audit(spark, {"default": pieces.folder}, pieces.whole, since_last=True)
    assert sorted(pieces.whole.rglob("*")) == before


def test_another_option_or_capture_is_refused_in_one_line(spark: SparkSession, pieces: Pieces, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--strategies was [a-z, -]+ and is now range; give the same"):
        audit(spark, {"default": pieces.folder}, pieces.out, strategies=["range"], since_last=True)
    other = shutil.copytree(pieces.folder, tmp_path / "other")
    table = pq.read_table(other / RECORDS)
    pq.write_table(table.slice(0, 100), other / RECORDS)
    with pytest.raises(CaptureError, match=r"last audit \(log partition \d+ ends before offset \d+\); to audit from the start"):
        audit(spark, {"default": other}, pieces.out, since_last=True)
    (other / "aborted_offsets.json").write_text("[[0, 1]]")
    with pytest.raises(CaptureError, match="the capture of cluster default is not the one"):
        audit(spark, {"default": other}, pieces.out, since_last=True)


def test_a_state_of_another_version_or_a_damaged_one_says_what_to_do(pieces: Pieces, tmp_path: Path) -> None:
    out = shutil.copytree(pieces.out, tmp_path / "out")
    (file,) = (out / ".state" / "saved").iterdir()
    text = file.read_text()
    file.write_text(text.replace('"counterpoise": "', '"counterpoise": "9.'))
    with pytest.raises(CaptureError, match=r"was left by counterpoise 9\..*to audit from the start, give another --out"):
        saved_in(out)
    # As an audit left it that had no table of actions yet.
    file.write_text(re.sub(r'"format": \d+,', '"format": 14,', text))
    with pytest.raises(CaptureError, match=r"was left by an earlier state of counterpoise, .*; to audit from the start, give"):
        saved_in(out)
    file.write_text(text[:50])
    with pytest.raises(CaptureError, match=r"damaged; to audit from the start"):
        saved_in(out)


def test_a_state_file_that_was_deleted_is_named(spark: SparkSession, pieces: Pieces, tmp_path: Path) -> None:
    out = shutil.copytree(pieces.out, tmp_path / "out")
    (file,) = (out / ".state" / "ends").glob("*.bin")
    file.unlink()
    with pytest.raises(CaptureError, match=rf"{file.name}: was deleted; to audit from the start, give another --out"):
        audit(spark, {"default": pieces.folder}, out, since_last=True)


def test_a_capture_is_recognized_by_what_stays_the_same(pieces: Pieces, tmp_path: Path) -> None:
    assert identity_of(Capture(place=str(pieces.folder)))["aborted"] is not None
    (tmp_path / "capture.json").write_text('{"topic_id": "a", "started_at": 1, "hidden": []}')
    before = identity_of(Capture(place=str(tmp_path)))
    (tmp_path / "capture.json").write_text('{"topic_id": "a", "started_at": 1, "hidden": ["x"]}')
    assert identity_of(Capture(place=str(tmp_path))) == before
    (tmp_path / "capture.json").write_text('{"topic_id": "b", "started_at": 1}')
    assert identity_of(Capture(place=str(tmp_path))) != before


def test_a_plain_audit_into_tables_that_are_kept_up_is_refused(spark: SparkSession, pieces: Pieces) -> None:
    with pytest.raises(OptionError, match="its tables are kept up by --since last; give that too, or another --out"):
        audit(spark, pieces.folder, pieces.out)
