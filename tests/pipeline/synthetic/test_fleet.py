"""A made-up fleet: the same from the same seed, in the form of a capture, and what was planted is what the audit finds."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import OptionError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.history.steps import steps_of_group
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import join, list_folder, read_bytes
from counterpoise.pipeline.synthetic.capture import Written, log_partition, synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from counterpoise.wire.offsets_topic.records import Record, Tombstone, decode_record
from tests.pipeline.pieces_of_folds import history_of
from tests.pipeline.rows import generation_batches, modern_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = dict.fromkeys(TABLES["rebalances"].names)
SMALL = Fleet(records=40_000, groups=60, rebalances=500, seconds=1200.0, sample_every=60.0, seed=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    """The fleet, written."""
    out = tmp_path_factory.mktemp("fleet") / "capture"
    return out, synthesize(SMALL, out)


def planted(folder: Path) -> dict[str, dict[str, Any]]:
    return {one["group"]: one for one in json.loads((folder / "planted.json").read_text(encoding="utf-8"))["groups"]}


def digests(folder: Path) -> dict[str, str]:
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(made: tuple[Path, Written], tmp_path: Path) -> None:
    synthesize(SMALL, tmp_path / "again")
    assert digests(tmp_path / "again") == digests(made[0])
    synthesize(Fleet(40_000, 60, 500, 1200.0, 60.0, seed=2), tmp_path / "other")
    other = digests(tmp_path / "other")
    assert all(other[name] != digest for name, digest in digests(made[0]).items() if name != "aborted_offsets.json")


def test_a_fleet_on_an_object_store_is_that_on_a_disk(s3: str, tmp_path: Path) -> None:
    few = Fleet(2_000, 3, 30, 600.0, 60.0, seed=1)
    synthesize(few, tmp_path)
    synthesize(few, join(s3, "fleet").replace("s3://", "s3a://"))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        name: read_bytes(join(s3, "fleet", name)) for name in list_folder(join(s3, "fleet"))
    }
    with pytest.raises(OptionError, match="holds something already"):
        synthesize(few, join(s3, "fleet"))


def test_a_fleet_has_the_form_of_a_recorded_capture(made: tuple[Path, Written], shop: Path) -> None:
    for name in ("consumer_offsets.parquet", "log_offsets.parquet"):
        assert pq.read_schema(made[0] / name).equals(pq.read_schema(shop / name)), name
    mine, real = (json.loads((folder / "topics.json").read_text(encoding="utf-8")) for folder in (made[0], shop))
    assert next(iter(mine.values())).keys() == next(iter(real.values())).keys() - {"topic_id_uuid"}


def test_the_log_is_one_a_broker_could_have_written(made: tuple[Path, Written]) -> None:
    rows = pq.read_table(made[0] / "consumer_offsets.parquet").to_pylist()
    assert len(rows) == made[1].records
    assert abs(made[1].records - SMALL.records) < 0.1 * SMALL.records
    last: dict[int, tuple[int, Any]] = {}
    for row in rows:
        record = decode_record(row["key"], row["value"])
        assert isinstance(record, Record | Tombstone), record
        assert row["partition"] == log_partition(record.key.group)
        offset, time = last.get(row["partition"], (-1, row["timestamp"]))
        assert row["offset"] == offset + 1
        assert row["timestamp"] >= time
        last[row["partition"]] = (row["offset"], row["timestamp"])


def test_groups_are_placed_as_kafka_places_them(shop: Path) -> None:
    table = pq.read_table(shop / "consumer_offsets.parquet", columns=["key", "partition"]).to_pylist()
    places = {decode_record(row["key"], None).key.group: row["partition"] for row in table}  # type: ignore[union-attr]
    assert len(places) > 25
    assert {name: log_partition(name, 8) for name in places} == places


def test_the_folds_find_what_was_planted(made: tuple[Path, Written]) -> None:
    """Every group's records through decoding, folding and summing up, without Spark."""
    truth, seen = planted(made[0]), histories(made[0])
    assert seen.keys() == {name for name, one in truth.items() if one["rebalances"]}
    for name, row in seen.items():
        one = truth[name]
        counts = tuple(row[kind] for kind in ("rebalances", "followups", "static_replacements", "deletions"))
        assert counts == (one["rebalances"], one["followups"], one["static_replacements"], int(one["deleted"])), name
        assert row["storm_rebalances"] == one["storm"] if one["storm"] else row["storm_rebalances"] < 5, name
    assert sum(row["rebalances"] for row in seen.values()) == SMALL.rebalances
    assert any(one["storm"] for one in truth.values())
    assert any(one["deleted"] for one in truth.values())
    assert {row["protocol_kind"] for row in seen.values()} == {"eager", "cooperative", "server"}


def test_a_group_of_the_broker_has_the_record_types_of_consumer_groups(made: tuple[Path, Written]) -> None:
    keys = pq.read_table(made[0] / "consumer_offsets.parquet", columns=["key"])["key"].to_pylist()
    assert {int.from_bytes(key[:2], "big") for key in keys} == {1, 2, 3, 5, 6, 7, 8}


def histories(folder: Path) -> dict[str, dict[str, Any]]:
    """Group -> its steps summed up, from the raw records."""
    (batch,) = pq.read_table(folder / "consumer_offsets.parquet").combine_chunks().to_batches()
    others = batch.filter(pc.greater_equal(batch["key"], b"\x00\x02"))
    rows: list[dict[str, Any]] = []
    for kernel, more in ((generation_batches, {"record_type": None}), (modern_batches, {})):
        rows += [{**row, **more} for part in kernel([others]) for row in part.to_pylist()]
    rows.sort(key=lambda row: (row["group_id"], row["log_offset"]))
    blank = dict.fromkeys(("members", "leader", "leader_library", "protocol", "protocol_type", "generation", "state_ts"))
    return {
        group: history_of({**COLUMNS, **step} for step in steps_of_group({**blank, **row} for row in of))
        for group, of in groupby(rows, key=lambda row: row["group_id"])
    }


def test_the_audit_finds_what_was_planted(made: tuple[Path, Written], spark: SparkSession, tmp_path: Path) -> None:
    folder, written = made
    result = audit(spark, folder, tmp_path / "out", strategies=["range", "sticky"])
    truth = planted(folder)
    report = {row["group_id"]: row for row in pq.read_table(tmp_path / "out" / "tables" / "group_report").to_pylist()}
    assert result.summary["records"]["errors"] == 0
    assert result.summary["rebalances"]["total"] == written.rebalances == SMALL.rebalances
    assert report.keys() == truth.keys()
    assert {name: row["rebalances"] or 0 for name, row in report.items()} == {n: one["rebalances"] for n, one in truth.items()}
    storms = {name: row["storm_rebalances"] for name, row in report.items() if (row["storm_rebalances"] or 0) >= 5}
    assert storms == {name: one["storm"] for name, one in truth.items() if one["storm"]}


def test_wrong_use_is_said(made: tuple[Path, Written]) -> None:
    with pytest.raises(OptionError, match="holds something already"):
        synthesize(SMALL, made[0])
    with pytest.raises(OptionError, match="do not fit into"):
        Fleet(1000, 2, 10_000)
    with pytest.raises(OptionError, match="records is 0"):
        Fleet(0, 2, 10)
    for endless in (float("nan"), float("inf")):
        with pytest.raises(OptionError, match=f"seconds is {endless}; expected a finite number, at least 300"):
            Fleet(1000, 2, 10, endless)
