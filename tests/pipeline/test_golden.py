"""Audits of the test captures give the golden tables, row by row, whatever is chosen of them and whatever they lack.

The shop; a part of it in several files, with damaged commits and some that never took effect; a small made-up
fleet whose times are whole seconds, so that commits, samples and steps fall together; recorded groups of KIP-848; and a made-up
fleet with times in milliseconds, groups of KIP-848, deleted groups and all client libraries. And the other recordings.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.audit import Source, audit
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.storage.files import join, list_files, read_bytes
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from counterpoise.pipeline.tables.transaction import TableTransaction
from counterpoise.report.render import write_report
from tests.pipeline.conftest import Audited, data_frames
from tests.pipeline.golden import differences, frozen, summed_up
from tests.pipeline.ways import WAYS
from tests.s3_server import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
CLUSTERS = (
    "eu/west: 1",
    "made up",
    "by brokers",
    "milliseconds",
    "kicked",
    "members",
    "scaled",
    "3.9 classic",
    "3.9 kip848",
    "default",
)
LOG_PARTITIONS = (0, 1, 4)
"""With groups of both protocols, and one whose members polled too late."""
ABORTED = 40
WINDOW = AuditScope(since=datetime(2026, 11, 21, 4, 6, tzinfo=UTC), until=datetime(2026, 11, 21, 4, 10, tzinfo=UTC))
STRATEGIES = ("sticky", "lag-sticky")
CASES: Mapping[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((0, 1, 2, 3), {}),
    "reset": ((1, 2), {"scope": AuditScope(reset="earliest")}),
    "window": ((0,), {"scope": WINDOW}),
    "topics": ((0,), {"scope": AuditScope(groups=("*",), topics=("order*",))}),
    "hashed": ((1, 2), {"salt": "salt"}),
    "unsampled": ((1, 2), {}),
    "recordings": ((4, 5, 6, 7, 8), {}),
    "shop": ((9,), {"strategies": None}),
}
"""Case -> which captures are audited, and what else is asked for."""
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
QUICK = [
    *(("path", case) for case in ("plain", "topics", "hashed", "recordings")),
    ("--since last, five cuts", "window"),
    ("DataFrame --since last, five cuts", "window"),
    ("pattern *", "reset"),
    ("DataFrame", "unsampled"),
    ("--follow", "reset"),
]
"""Each way and each case; an object store and the whole shop have tests of their own."""
PAIRS = [(way, case) for way in WAYS for case in CASES] if LONG else QUICK


def captures_in(out: Path, shop: Path) -> dict[str, Path]:
    """The captures by cluster."""
    made = [
        part_of_shop(shop, out / "shop"),
        whole_seconds(out / "fleet"),
        RECORDED / "kip848",
        milliseconds(out / "milliseconds"),
    ]
    made += [RECORDED / name for name in ("kicked", "members", "scaled")]
    made += [of_kafka_3(name, out) for name in ("classic", "kip848")]
    made += [shop]
    return dict(zip(CLUSTERS, made, strict=True))


def of_kafka_3(name: str, out: Path) -> Path:
    """A recording of Kafka 3.9 as a capture."""
    folder = out / name
    folder.mkdir()
    shutil.copy(RECORDED / "kafka39" / f"{name}.parquet", folder / "consumer_offsets.parquet")
    return folder


def part_of_shop(shop: Path, out: Path) -> Path:
    out.mkdir()
    whole = pq.read_table(shop / "consumer_offsets.parquet")
    records = whole.filter(pc.is_in(whole["partition"], pa.array(LOG_PARTITIONS, pa.int32())))
    odd = records.slice(0, 3).to_pylist()
    odd[0] |= {"key": b"\x00\x01\x00", "offset": 10_000_000}
    odd[1] |= {"value": b"\x00\x63", "offset": 10_000_001}
    odd[2] |= {"key": None, "offset": 10_000_002}
    records = pa.concat_tables([records, pa.Table.from_pylist(odd, records.schema)])
    folder = out / "consumer_offsets.parquet"
    folder.mkdir()
    third = len(records) // 3
    for at in range(3):
        # Not in the order of the log: a later file holds earlier records.
        pq.write_table(records.slice(third * (2 - at), third if at else None), folder / f"{at}.parquet", row_group_size=1500)
    shutil.copy(shop / "topics.json", out)
    pq.write_table(sampled_twice(pq.read_table(shop / "log_offsets.parquet")), out / "log_offsets.parquet", row_group_size=5000)
    commits = records.filter(pc.less(records["key"], b"\x00\x02")).slice(0, 100 * ABORTED).to_pylist()[::100]
    pairs = [[row["partition"], row["offset"]] for row in commits]
    (out / "aborted_offsets.json").write_text(json.dumps(pairs), encoding="utf-8")
    return out


def sampled_twice(ends: pa.Table) -> pa.Table:
    """As two recordings in one folder leave them: every tenth sample a second time, every hundredth with another end."""
    again = ends.take(pa.array(range(0, len(ends), 10)))
    odd = pa.array([at % 10 == 0 for at in range(len(again))])
    below = pc.if_else(odd, pc.subtract(again["log_end"], 1), again["log_end"])
    return pa.concat_tables([again.set_column(again.schema.get_field_index("log_end"), "log_end", below), ends])


def whole_seconds(out: Path) -> Path:
    synthesize(Fleet(records=6_000, groups=12, rebalances=90, seconds=900.0, sample_every=60.0, seed=3), out)
    records = pq.read_table(out / "consumer_offsets.parquet")
    seconds = pc.floor_temporal(records["timestamp"], unit="second")
    pq.write_table(
        records.set_column(records.schema.get_field_index("timestamp"), "timestamp", seconds), out / "consumer_offsets.parquet"
    )
    return out


def milliseconds(out: Path) -> Path:
    """The seed is one that gives a storm, static and deleted groups, groups of KIP-848 and commits of three versions."""
    synthesize(Fleet(records=8_000, groups=18, rebalances=120, seconds=2400.0, sample_every=37.3, seed=3671), out)
    return out


def without_samples(folder: Path, out: Path) -> Path:
    """The capture, but no log end was sampled."""
    return Path(shutil.copytree(folder, out, ignore=shutil.ignore_patterns("log_offsets.parquet")))


def run(spark: SparkSession, captures: Mapping[str, Path], case: str, root: str, scratch: Path, way: str = "path") -> str:
    which, more = CASES[case]
    chosen = {CLUSTERS[at]: captures[CLUSTERS[at]] for at in which}
    if case == "unsampled":
        chosen[CLUSTERS[1]] = without_samples(chosen[CLUSTERS[1]], scratch / "without")
    return WAYS[way](spark, chosen, {"strategies": STRATEGIES, **more}, root)


@pytest.fixture(scope="module")
def captures(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The captures by cluster."""
    return captures_in(tmp_path_factory.mktemp("captures"), shop)


@pytest.mark.parametrize(("way", "case"), PAIRS)
def test_each_way_gives_the_golden_tables(
    request: pytest.FixtureRequest, spark: SparkSession, captures: dict[str, Path], way: str, case: str, tmp_path: Path
) -> None:
    root = request.getfixturevalue("s3") if way == "object store" else str(tmp_path)
    assert differences(summed_up(run(spark, captures, case, root, tmp_path, way)), frozen(case)) == []


def test_the_tables_of_the_shop_are_the_golden_ones(audited: Audited) -> None:
    assert differences(summed_up(audited.result.out), frozen("shop")) == []


def as_others_write_it(capture: Path, out: Path) -> Path:
    """The capture in folders by partition with nanoseconds, large bytes and what Spark leaves beside its files."""
    shutil.copytree(capture, out, ignore=shutil.ignore_patterns("consumer_offsets.parquet"))
    records = pq.read_table(capture / "consumer_offsets.parquet")
    for name, kind in (("timestamp", pa.timestamp("ns")), ("key", pa.large_binary()), ("value", pa.large_binary())):
        records = records.set_column(records.schema.get_field_index(name), name, records[name].cast(kind))
    for partition in pc.unique(records["partition"]).to_pylist():
        folder = out / "consumer_offsets.parquet" / f"partition={partition}"
        folder.mkdir(parents=True)
        mine = records.filter(pc.equal(records["partition"], partition)).drop_columns(["partition"])
        pq.write_table(mine, folder / "part-0.parquet")
    (out / "consumer_offsets.parquet" / "_SUCCESS").touch()
    return out


def test_from_and_to_an_object_store_and_of_files_of_other_types_the_tables_are_the_same(
    spark: SparkSession, captures: dict[str, Path], s3: str, tmp_path: Path
) -> None:
    odd = as_others_write_it(captures[CLUSTERS[2]], tmp_path / "odd")
    sources: dict[str, Source] = {CLUSTERS[1]: upload(captures[CLUSTERS[1]], join(s3, "history")), CLUSTERS[2]: odd}
    out = join(s3, "audits", "both")
    made = audit(spark, sources, out, strategies=STRATEGIES, scope=AuditScope(reset="earliest"))
    assert made.place == out
    assert differences(summed_up(out), frozen("reset")) == []
    assert json.loads(read_bytes(join(out, "summary.json"))) == json.loads(json.dumps(made.summary))
    assert {name.split("/")[4] for name in list_files(join(s3, "audits"))} == {"both"}
    assert {name.split("/")[5] for name in list_files(out)} == {"tables", "summary.json", ".transaction"}
    page = read_bytes(write_report(out)).decode()
    assert all(cluster in page for cluster in sources)
    with TableTransaction(out).open(), pytest.raises(CaptureError, match="another audit is writing there"):
        audit(spark, sources, out, strategies=STRATEGIES, scope=AuditScope(reset="earliest"))


def test_a_record_that_is_twice_in_a_data_frame_is_refused_wherever_it_stands(
    spark: SparkSession, captures: dict[str, Path], tmp_path: Path
) -> None:
    whole = data_frames(spark, captures[CLUSTERS[2]])
    assert whole.records is not None
    offset = whole.records.agg({"offset": "max"}).collect()[0][0]
    twice = replace(whole, records=whole.records.unionByName(whole.records.where(f"offset = {offset}")))
    words = f"^cluster only: records there more than once: 1, the first at offset {offset} of"
    with pytest.raises(CaptureError, match=words) as raised:
        audit(spark, {"only": twice}, tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out" / "summary.json").exists()
