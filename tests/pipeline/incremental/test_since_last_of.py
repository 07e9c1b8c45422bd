"""`--since last` of chosen groups, of captures without samples and of files that others wrote: as one audit of everything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline import audit as auditing
from counterpoise.pipeline.audit import AuditResult, audit
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.fold import ends_file
from counterpoise.pipeline.incremental.positions import first_record
from counterpoise.pipeline.incremental.saved import ClusterState, SavedState, identity_of
from counterpoise.pipeline.run import SUMMARY_FORMAT
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.capture import Capture, CaptureFiles
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.source.spark_records import new_records
from counterpoise.pipeline.storage.files import list_files, read_bytes
from counterpoise.pipeline.storage.files import upload as upload_file
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.transaction import TableTransaction
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import ENDS, RECORDS, comparable_rows, moment_at, rows_by_number, saved_in
from tests.s3_server import upload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_PARTITIONS = (0, 4)
STRATEGIES = ("sticky",)


def _mine(table: pa.Table) -> Any:
    return pc.is_in(table["partition"], pa.array(LOG_PARTITIONS, pa.int32()))


def grown(folder: Path, share: float, way: str) -> dict[str, Path]:
    """A small part of the shop so far, some samples twice; as `way` has it with a marker beside its file, or without samples.

    Samples say where the offsets topic ended; one of its log partitions may be minutes behind the other.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / RECORDS).mkdir(parents=True)
    records, ends = pq.read_table(SHOP / RECORDS), pq.read_table(SHOP / ENDS)
    some = ends.filter(pc.greater(ends["log_end"], 0)).slice(100, 20)
    less = some.set_column(some.schema.get_field_index("log_end"), "log_end", pc.subtract(some["log_end"], 1))
    ends = pa.concat_tables([ends.filter(pc.or_(_mine(ends), pc.not_equal(ends["topic"], OFFSETS_TOPIC))), some, less])
    records = records.filter(_mine(records))
    if way == "behind":
        late = pc.greater_equal(records["timestamp"], pa.scalar(moment_at(share - 0.2), records["timestamp"].type))
        records = records.filter(pc.invert(pc.and_(pc.equal(records["partition"], LOG_PARTITIONS[1]), late)))
    for table, column, file in ((records, "timestamp", f"{RECORDS}/part-0.parquet"), (ends, "sampled_at", ENDS)):
        if file != ENDS or (way != "unsampled" and (way != "sampled late" or share > 0.5)):
            rows = table.filter(pc.less(table[column], pa.scalar(moment_at(share), table[column].type)))
            pq.write_table(rows, folder / file, use_deprecated_int96_timestamps=way == "behind")
    for name in ("topics.json", "aborted_offsets.json"):
        shutil.copy(SHOP / name, folder / name)
    (folder / RECORDS / "_SUCCESS").touch()
    return {"default": folder}


@pytest.mark.parametrize(
    ("way", "scope"),
    [
        ("plain", AuditScope(groups=("mail-*", "replay-*"), reset="earliest")),
        ("unsampled", AuditScope()),
        ("sampled late", AuditScope()),
        ("behind", AuditScope()),
        ("plain", AuditScope(topics=("order*",), since=moment_at(0.2), until=moment_at(0.9))),
    ],
    ids=["some groups, a reset policy", "no samples", "samples later", "a log partition behind, old times", "topics, a window"],
)
def test_updates_give_the_tables_of_one_audit(spark: SparkSession, tmp_path: Path, way: str, scope: AuditScope) -> None:
    out, kept = tmp_path / "out", []
    with configured(spark, ONE_PARTITION):
        for share in (0.4, 0.7, 2.0):
            source = grown(tmp_path / "capture", share, way)
            audit(spark, source, out, strategies=STRATEGIES, scope=scope, since_last=True)
            kept.append(bool(rows_by_number(out, "offset_commits", 1)))
        made = audit(spark, source, tmp_path / "whole", strategies=STRATEGIES, scope=scope)
    whole, summary = made.out, json.loads((out / "summary.json").read_text())
    assert summary["notes"] == made.summary["notes"]
    twice = "log_offsets.parquet: 20 samples are there more than once and differ; the largest log end counts"
    assert (twice in summary["notes"]) == (way != "unsampled" and scope.since is None)
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []
    assert len(rows_of(out, "partition_lag")) > (0 if way == "unsampled" else 100)
    # Watermarks say which records are missing: none comes too late. All is read again when a topic was made anew (the last time),
    # and with the first samples, which may be older than what was final without them.
    assert kept == [True, way != "sampled late", way == "unsampled"]


def test_repeats_of_records_that_an_earlier_update_has_read_change_nothing_until_all_is_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A second file has records of the first update again, beside those of the second."""
    out = tmp_path / "out"
    audit(spark, grown(tmp_path / "capture", 0.4, "plain"), out, strategies=STRATEGIES, since_last=True)
    source = grown(tmp_path / "capture", 0.7, "plain")
    whole = audit(spark, source, tmp_path / "whole", strategies=STRATEGIES)
    records = pq.read_table(source["default"] / RECORDS / "part-0.parquet")
    early = pc.less(records["timestamp"], pa.scalar(moment_at(0.3), records["timestamp"].type))
    pq.write_table(records.filter(early), source["default"] / RECORDS / "part-1.parquet")
    made = audit(spark, source, out, strategies=STRATEGIES, since_last=True)
    assert made.summary["records"] == whole.summary["records"]
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole.out, name)] == []
    assert rows_by_number(out, "offset_commits", 1), "everything was read again"
    shutil.copy(source["default"] / RECORDS / "part-1.parquet", tmp_path)
    source = grown(tmp_path / "capture", 2.0, "plain")
    shutil.copy(tmp_path / "part-1.parquet", source["default"] / RECORDS)
    with pytest.raises(CaptureError, match="records there more than once"):  # a topic was made anew: all is read again
        audit(spark, source, out, strategies=STRATEGIES, since_last=True)


def test_from_and_to_an_object_store_with_hashed_names(
    spark: SparkSession, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state has plain names, and so it is beside the folder that is passed on. Samples are uploaded once per update."""
    uploads: list[str] = []

    def counted(place: str, samples: Any) -> None:
        uploads.append(place)
        upload_file(place, samples)

    monkeypatch.setattr(ends_file, "upload", counted)
    out, options = f"{s3}/audits/out", dict[str, Any](strategies=STRATEGIES, salt="secret")
    with configured(spark, ONE_PARTITION):
        for share in (0.3, 2.0):
            source = grown(tmp_path / "capture", share, "plain")
            made = audit(spark, {"default": upload(source["default"], f"{s3}/capture")}, out, since_last=True, **options)
        whole = audit(spark, source, tmp_path / "whole", **options)
        again = audit(spark, {"default": f"{s3}/capture"}, out, since_last=True, **options)
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole.out, name)] == []
    assert made.summary["tables"]["partition_lag"]["rows"] == whole.summary["tables"]["partition_lag"]["rows"] > 100
    assert again.nothing_new
    assert [place.split("/")[-2] for place in uploads] == ["ends", "ends"]
    assert {file.removeprefix(f"{out}/").split("/")[0] for file in list_files(out)} == {"tables", "summary.json", ".transaction"}
    state = {file.removeprefix(f"{s3}/audits/.out-state/").split("/")[0] for file in list_files(f"{s3}/audits/.out-state")}
    assert state == {"states", "ends", "saved"}
    assert not any(b"mail-" in read_bytes(file) for file in list_files(out) if file.endswith(".json"))


def test_records_that_a_capture_has_merged_are_there_and_those_that_it_dropped_are_not(tmp_path: Path) -> None:
    folder = grown(tmp_path / "capture", 0.3, "plain")["default"]
    records = pq.read_table(folder / RECORDS / "part-0.parquet").sort_by("timestamp")
    half = len(records) // 2
    for at, rows in enumerate((records.slice(half), records.slice(0, half))):
        pq.write_table(rows, tmp_path / f"{at}.parquet")
    later, earlier = (str(tmp_path / f"{at}.parquet") for at in range(2))
    merged = CaptureFiles((str(folder / RECORDS / "part-0.parquet"),))
    assert first_record(CaptureFiles((later, earlier))) == first_record(merged)
    assert first_record(CaptureFiles((later,))) != first_record(merged)
    pq.write_table(records, folder / RECORDS / "part-0.parquet", write_statistics=False)
    assert first_record(merged) is None


def test_updates_of_a_data_frame_give_the_tables_of_one_audit(spark: SparkSession, tmp_path: Path) -> None:
    """Updates in turn: a log partition lacks records; they come late; nothing is new; records that were read are not given."""
    out = tmp_path / "out"
    records = spark.read.parquet(str(grown(tmp_path / "capture", 2.0, "unsampled")["default"] / RECORDS))
    early, middle = (records.where(fn.col("timestamp") < fn.lit(moment_at(share))) for share in (0.2, 0.5))

    def update(frame: DataFrame) -> AuditResult:
        return audit(spark, frame, out, strategies=STRATEGIES, since_last=True)

    with configured(spark, ONE_PARTITION):
        update(middle.where("partition = 0").union(early.where("partition = 4")))
        update(middle)
        assert rows_by_number(out, "offset_commits", 1) == [], "everything was read again"
        before = (out / "summary.json").read_bytes()
        assert update(middle).nothing_new
        assert (out / "summary.json").read_bytes() == before
        saved = saved_in(out)
        assert saved is not None
        assert not update(new_records(records, saved.clusters["default"].positions)).nothing_new
        whole = audit(spark, records, tmp_path / "whole", strategies=STRATEGIES)
        assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole.out, name)] == []
        assert [len(rows_by_number(out, "offset_commits", number)) > 0 for number in (1, 2, 3)] == [False, True, True]
        shifted = records.selectExpr(
            "key", "value", "partition", "offset + 1000000 AS offset", "timestamp + INTERVAL 40 DAY AS timestamp"
        )
        with pytest.raises(CaptureError, match=r"dropped records before they were audited \(log partition 0: offsets \d+ to"):
            update(shifted)
        with pytest.raises(CaptureError, match=r"is not the one of the last audit \(log partition 0 ends before offset \d+\)"):
            update(early)


def test_a_data_frame_without_records_that_were_read_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """Compaction has removed some, but not the first one. Late records have everything read again, if nothing is gone."""
    out = tmp_path / "out"
    records = spark.read.parquet(str(grown(tmp_path / "capture", 0.5, "unsampled")["default"] / RECORDS))
    early = records.where((fn.col("partition") == 0) | (fn.col("timestamp") < fn.lit(moment_at(0.2))))
    with configured(spark, ONE_PARTITION):
        audit(spark, early, out, strategies=STRATEGIES, since_last=True)
        ends = early.where("partition = 0").agg(fn.min("offset"), fn.max("offset")).collect()[0]
        compacted = records.where(f"partition = 4 OR offset % 2 = 0 OR offset IN ({ends[0]}, {ends[1]})")
        audit(spark, compacted, out, strategies=STRATEGIES, since_last=True)
    assert [len(rows_by_number(out, "offset_commits", number)) > 0 for number in (1, 2)] == [True, True]


AGAIN = "give the same; to audit from the start, give another --out"
EAST = {"east": SHOP}
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "--group": ({"scope": AuditScope(("orders*",))}, f"was not given and is now orders*; {AGAIN}"),
    "--topic": ({"scope": AuditScope(topics=("t",))}, f"was not given and is now t; {AGAIN}"),
    "--from": ({"scope": AuditScope(since=moment_at(0.5))}, "was not given and is now 2026-11-21T04:"),
    "--to": ({"scope": AuditScope(until=moment_at(0.5))}, "was not given and is now 2026-11-21T04:"),
    "--reset": ({"scope": AuditScope(reset="latest")}, f"was not given and is now latest; {AGAIN}"),
    "--cluster": ({"source": EAST}, f"was default and is now east; {AGAIN}"),
    "--cluster, one more": ({"source": {"default": SHOP, **EAST}}, f"was default and is now default, east; {AGAIN}"),
    "--strategies": ({"strategies": ("range",)}, f"was sticky and is now range; {AGAIN}"),
    "--into": ({"into": Catalog("lake", "prod_")}, f"was not given and is now lake.prod_; {AGAIN}"),
}


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an audit of the shop with one strategy left, without its tables."""
    monkeypatch.setattr(auditing, "check_target", lambda *_: None)
    work = TableTransaction(str(tmp_path / "out"))
    options = {
        "--cluster": ["default"],
        "--group": [],
        "--topic": [],
        "--from": None,
        "--to": None,
        "--reset": None,
        "--headroom": 0.2,
    }
    clusters = {"default": ClusterState(identity=identity_of(Capture(place=str(SHOP))))}
    about = {"format": SUMMARY_FORMAT, "hashed": None, "since_last": 1}
    with work.open():
        file = work.new_files.state_file("saved", "json")
        SavedState({**options, "--into": None, "--strategies": list(STRATEGIES)}, clusters, [], {}).save(file)
        work.publish([file], (), {"summary.json": json.dumps(about).encode()})
    return tmp_path / "out"


@pytest.mark.parametrize("option", OTHERS)
def test_an_option_that_is_not_that_of_the_last_audit_is_refused_in_one_line(earlier: Path, option: str) -> None:
    given, words = OTHERS[option]
    message = refused(earlier, **given)
    assert message.startswith(f"--since last: {option.partition(',')[0]} {words}")
    assert message.endswith(AGAIN)


def test_other_names_are_refused_in_one_line(earlier: Path) -> None:
    assert refused(earlier, salt="x").endswith("the names there are plain; one folder has names of one kind, give another --out")


def refused(out: Path, **given: Any) -> str:
    """What an audit with `given` says, before Spark is asked for anything."""
    with pytest.raises(OptionError) as raised:
        audit(None, **{"source": SHOP, "out": out, "strategies": STRATEGIES, "since_last": True, **given})
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_state_with_plain_names_must_have_a_place_beside_the_folder() -> None:
    with pytest.raises(OptionError, match="a whole bucket; the state with plain names goes beside --out: give a folder in the"):
        TableTransaction("s3://bucket", private=True)


def test_a_state_with_plain_names_is_beside_a_folder_whose_path_ends_with_two_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it was in the folder with hashed names, which is passed on."""
    (tmp_path / "out" / "tables").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "out" / "tables")
    monkeypatch.chdir(tmp_path / "out" / "tables")
    for out in ("..", f"{tmp_path}/link/..", f"{tmp_path}/out"):
        work = TableTransaction(out, private=True)
        assert (work.out, work.state) == (f"{tmp_path}/out", f"{tmp_path}/.out-state")
