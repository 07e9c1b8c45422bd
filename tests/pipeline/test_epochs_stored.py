"""Recorded KIP-848 groups through whole audits: the same rows at once and in pieces, also if topic names come later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import AuditResult, audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from tests.pipeline.conftest import rows_of
from tests.pipeline.history.test_epochs import RECORDED
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, ENDS = "consumer_offsets.parquet", "log_offsets.parquet"
STRATEGIES = ("sticky",)


@pytest.fixture(scope="module")
def audited_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    return audit(spark, RECORDED, tmp_path_factory.mktemp("epochs") / "out", strategies=STRATEGIES)


def test_the_report_judges_groups_of_a_broker(audited_once: AuditResult) -> None:
    reports = {row["group_id"]: row for row in rows_of(audited_once.out, "group_report")}
    row = reports["by-range"]
    assert (row["protocol_kind"], row["protocol"], row["observed_moved"], row["spread_peak"]) == ("server", "range", 17, 3)
    assert (row["needless_moves"], row["compared_generations"], row["replay_fidelity"]) == (3, None, None)
    # It is classic again: what it did under KIP-848 is no longer to be changed.
    (run,) = (one for one in reports["moved-over"]["strategies"] if one["strategy"] == "observed")
    assert (run["generations"], run["stopped_seconds"], reports["moved-over"]["compared_generations"]) == (5, None, None)
    kinds = {(one["group_id"], one["kind"]) for one in rows_of(audited_once.out, "findings", "group_id", "kind")}
    assert ("by-range", "needless_moves") in kinds


def piece(folder: Path, share: float, *, commits: bool, named: bool) -> Path:
    """The recording up to a share of its time; without `commits`, and unless `named`, no record names the topics of ids."""
    folder.mkdir(exist_ok=True)
    records = pq.read_table(RECORDED / RECORDS)
    records = records if commits else records.filter(pc.greater_equal(records["key"], b"\x00\x02"))
    times = pc.cast(records["timestamp"], pa.int64())
    first, last = pc.min(times).as_py(), pc.max(times).as_py()
    pq.write_table(records.filter(pc.less_equal(times, first + int(share * (last - first)))), folder / RECORDS)
    pq.write_table(pq.read_table(RECORDED / ENDS), folder / ENDS)
    topics = json.loads((RECORDED / "topics.json").read_text(encoding="utf-8"))
    if not named:
        topics = {name: {**about, "topic_id": f"{at:022d}"} for at, (name, about) in enumerate(topics.items())}
    (folder / "topics.json").write_text(json.dumps(topics), encoding="utf-8")
    return folder


@pytest.mark.parametrize("commits", [pytest.param(True, marks=pytest.mark.long), False])
def test_updates_give_the_epochs_of_one_audit(spark: SparkSession, tmp_path: Path, *, commits: bool) -> None:
    """Cut while the group that moves over is under KIP-848; where names come with the last piece, groups are made again."""
    out, unknown = tmp_path / "out", {}
    with configured(spark, ONE_PARTITION):
        for share in (0.15, 0.3, 1.0):
            source = piece(tmp_path / "capture", share, commits=commits, named=commits or share == 1.0)
            audit(spark, {"default": source}, out, strategies=STRATEGIES, since_last=True)
            steps = [row for row in rows_of(out, "rebalances") if row["group_type"] == "consumer" and row["n_members"]]
            unknown[share] = sum(row["subscriptions"] is None for row in steps)
        whole = audit(spark, source, tmp_path / "whole", strategies=STRATEGIES).out
    assert (unknown[0.15] > 0, unknown[1.0]) == (not commits, 0)
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []
