"""The audit as a whole: any DataFrame will do, the same input gives the same tables, and nothing comes to the driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError, StorageError, UnknownStrategyError
from counterpoise.pipeline import audit as audit_module
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.predicted_stops import seconds_of
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.summary import data_notes
from counterpoise.pipeline.tables.paths import PARTITIONS
from counterpoise.pipeline.wording import iso
from tests.pipeline.conftest import Audited, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = 1_000_000
"""The offset of the first odd record."""
Small: TypeAlias = tuple[Path, dict[str, Any], list[int]]


@pytest.fixture(scope="module")
def small(spark: SparkSession, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Partition 5 of the capture as a plain DataFrame, odd records in it, audited twice into one folder.

    With the sizes of what was collected. The odd records are a damaged commit, three keys without a known type, and generations
    whose time is null, or so early or late that it is no date.
    """
    records = spark.read.parquet(str(shop / "consumer_offsets.parquet")).where("partition = 5")
    group = records.where("hex(key) like '0002%' and value is not null").orderBy("offset").first()
    assert group is not None
    odd = [b"\x00\x01\x00\x01g", b"\xff\xff", b"\x80\x00x", b"\x05"]
    rows = [*((key, b"x", None) for key in odd), *((group["key"], group["value"], us) for us in (None, -(2**63), 2**63 - 1))]
    bad = spark.createDataFrame(
        [(key, value, 5, ODD + at, us) for at, (key, value, us) in enumerate(rows)],
        "key binary, value binary, partition int, offset long, us long",
    )
    bad = bad.withColumn("timestamp", fn.timestamp_micros("us")).drop("us")
    whole = records.unionByName(bad, allowMissingColumns=True)
    sizes: list[int] = []
    collect = type(records).collect

    def counted(frame: DataFrame) -> list[Any]:
        rows = collect(frame)
        sizes.append(len(rows))
        return rows

    out = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(records), "collect", counted)
        for _ in range(2):
            result = audit(spark, whole, out, cluster="west", strategies=["range", "sticky"])
    return out, result.summary, sizes


def test_odd_records_are_counted_and_nothing_else_is_lost(small: tuple[Path, dict[str, Any], list[int]], shop: Path) -> None:
    out, summary, _ = small
    errors = sorted(rows_of(out, "decode_errors"), key=lambda row: row["log_offset"])
    types = (1, -1, -0x8000, None, 2, 2, 2)
    assert [(row["log_offset"], row["record_type"]) for row in errors] == [(ODD + at, kind) for at, kind in enumerate(types)]
    assert all(row["cluster"] == "west" and row["log_ts"] is None and row["reason"] for row in errors)
    words = "null timestamp (or a time outside the years 1 to 9999): the record has no place in the log"
    assert {row["reason"] for row in errors[4:]} == {words}
    keys = [row["key"] for row in pq.read_table(shop / "consumer_offsets.parquet").to_pylist() if row["partition"] == 5]
    records, tables = summary["records"], summary["tables"]
    assert (records["errors"], records["total"]) == (7, len(keys) + 7)
    for name, kind in (("offset_commits", b"\x00\x01"), ("group_generations", b"\x00\x02")):
        assert tables[name]["rows"] == sum(key.startswith(kind) for key in keys), name


def test_record_types_are_signed_as_in_the_table_of_errors(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    by_type = small[1]["records"]["by_type"]
    assert {kind: n for kind, n in by_type.items() if kind == "None" or int(kind) < 0} == {"-32768": 1, "-1": 1, "None": 1}


def test_no_records_are_said_to_be_none(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    (note,) = data_notes(0, 0, True, {})
    assert note.startswith("nothing was recorded")
    assert list(data_notes(small[1]["records"]["total"], 0, True, {})) == []


def test_auditing_twice_adds_nothing(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    out, summary, _ = small
    for name, about in summary["tables"].items():
        assert len(rows_of(out, name)) == about["rows"] == about["stored"], name


def test_commits_of_transactions_are_counted_and_what_is_not_known_of_them_is_said(audited: Audited) -> None:
    """1,187 in the recording, by the driver's notes; without them, or without the file of aborted ones, other words."""
    (note,) = [note for note in audited.result.summary["notes"] if "transactions" in note]
    assert note.startswith("1,187 commits look like those of transactions")
    assert "aborted" not in note
    (note,) = data_notes(3, 3, False, {})
    assert "which of them were aborted is not recorded" in note
    assert list(data_notes(3, 0, False, {})) == []


def test_only_sums_come_to_the_driver(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    _, summary, sizes = small
    assert sizes
    assert max(sizes) <= 200
    assert summary["records"]["total"] > 1000


def test_without_companions_lag_is_unknown_and_said_to_be(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    out, summary, _ = small
    assert {row["quality"] for row in rows_of(out, "partition_lag")} == {"unknown"}
    assert "lag is unknown" in summary["notes"][0]


def test_tables_have_the_columns_of_their_schemas(audited: Audited) -> None:
    for name, schema in TABLES.items():
        (names, *others) = {
            tuple(pq.read_schema(file).names) for file in (audited.result.out / "tables" / name).rglob("*.parquet")
        }
        assert (list(names), others) == ([column for column in schema.names if column not in PARTITIONS], []), name
        assert audited.result.summary["tables"][name]["columns"] == [*schema.names, "date"]


def test_summary_is_what_was_written(audited: Audited) -> None:
    written = json.loads((audited.result.out / "summary.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(audited.result.summary))
    assert list(written)[:3] == ["format", "source", "cluster"]


def test_findings_are_ranked_and_equal_the_table(audited: Audited) -> None:
    rows = sorted(audited.table("findings"), key=lambda row: row["rank"])
    reported = audited.result.summary["findings"]["top"]
    assert [one["rank"] for one in reported] == [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert [(one["kind"], one["group_id"], one["at"]) for one in reported] == [
        (row["kind"], row["group_id"], iso(row["at"])) for row in rows
    ]
    assert [one["score"] for one in reported] == [row["score"] for row in rows]
    assert all(one["numbers"] for one in reported)


def test_actions_are_those_of_the_table_with_every_finding_and_save_no_more_than_was_stopped(audited: Audited) -> None:
    rows = sorted(audited.table("actions"), key=lambda row: row["rank"])
    reported = audited.result.summary["actions"]
    assert 5 <= len(reported) <= 10
    for one, row in zip(reported, rows, strict=True):
        for listed, kept in zip([one, *one["config"]], [row, *row["config"]], strict=True):
            groups = [{name: value for name, value in group.items() if name != "cluster"} for group in listed["groups"]]
            assert groups == kept["groups"][:20]
            assert all(listed[name] == kept[name] for name in kept if name not in ("cluster", "groups", "config"))
    acted = {(group["group_id"], kind) for row in rows for group in row["groups"] for kind in group["findings"]}
    found = {(row["group_id"], row["kind"]) for row in audited.table("findings")}
    assert acted <= found
    # These keep the strategy: every other one is predicted to stop partitions for longer.
    leave = {(row["group_id"], row["kind"]) for row in audited.table("findings") if row["action"].startswith("keep the strategy")}
    assert found - acted == leave
    stopped = sum(row["stopped_partition_seconds"] or 0 for row in audited.table("group_report"))
    assert 0 < sum(row["saved_seconds"] for row in rows) <= stopped


def test_what_a_recording_lacks_is_a_note_and_no_finding(audited: Audited) -> None:
    notes = {one["kind"]: one["n_groups"] for one in audited.result.summary["data_quality"]}
    living = [row for row in audited.table("group_report") if row["state"] != "deleted"]
    unlike = [row for row in living if row["replay_fidelity"] is not None and row["replay_fidelity"] < 1]
    left_out = [row for row in living if row["stopped_unsampled_seconds"]]
    assert notes == {"low_fidelity": len(unlike), "stops_without_samples": len(left_out)}
    assert not {"low_fidelity", "incomplete_history"} & {row["kind"] for row in audited.table("findings")}


def test_no_group_is_advised_to_run_a_strategy_that_is_predicted_to_stop_partitions_for_longer(audited: Audited) -> None:
    """Java and librdkafka groups are advised to cooperate if that stops less. aiokafka cannot; deleted groups get no advice."""
    rows = audited.table("group_report")
    advised = {row["group_id"]: row["suggested_strategy"] for row in rows if row["suggested_strategy"]}
    for row in rows:
        if row["group_id"] in advised:
            seconds, _ = seconds_of(row)
            assert seconds[advised[row["group_id"]], "closed_loop"] <= seconds["observed", "replay"], row["group_id"]
            assert row["state"] != "deleted"
            assert "aiokafka" not in row["libraries"]
    assert {"bi-loader", "replay-invoices", "warehouse"} <= advised.keys()
    # It stood still for 33 partition-seconds, and two rounds of what it moves take longer in the benchmark.
    assert "order-service" not in advised
    gone = {row["group_id"] for row in rows if row["state"] == "deleted"}
    assert gone
    assert not gone & {row["group_id"] for row in audited.table("findings")}
    # 0.8 partition-seconds in ten minutes, although 88 partitions were stopped.
    assert ("web-analytics", "eager_stops") not in {(row["group_id"], row["kind"]) for row in audited.table("findings")}


def test_wrong_use_is_reported_before_spark_works(
    spark: SparkSession, tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        audit(None, tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UnknownStrategyError, match="nonsense"):
        audit(spark, shop, tmp_path / "out", strategies=["nonsense"])
    monkeypatch.setattr(audit_module, "local_session", None)
    with pytest.raises(UnknownStrategyError, match="nonsense"):
        audit(None, shop, tmp_path / "out", strategies=["nonsense"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("since_last", [False, True])
def test_a_folder_that_cannot_be_made_is_reported_before_spark_is_started(
    shop: Path, tmp_path: Path, since_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(audit_module, "local_session", lambda **_: pytest.fail("a session was asked for"))
    with pytest.raises(StorageError, match=r"file/out/\.transaction: Not a directory; check the path and its permissions$"):
        audit(None, {"east": shop}, tmp_path / "file" / "out", since_last=since_last)
