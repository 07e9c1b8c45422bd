"""Sizing held against groups of a real broker whose production and capacity are known (`record_scaled`)."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from counterpoise.cli.app import app
from counterpoise.pipeline.audited_lag import audited_lag, audited_production
from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.simulation.backlog import backlog
from tests.pipeline.in_process import audited_in_process
from tests.pipeline.record_scaled import CAPACITY, SCALED_S

RECORDED = Path(__file__).parents[1] / "data" / "recorded" / "scaled"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit of the recording."""
    folder = tmp_path_factory.mktemp("scaled")
    records, ends = (str(RECORDED / f"{name}.parquet") for name in ("consumer_offsets", "log_offsets"))
    with pytest.MonkeyPatch.context() as patched:
        audited_in_process(CaptureFiles((records,), (ends,), str(RECORDED / "topics.json")), folder, patched)
    return folder


@pytest.fixture(scope="module")
def report(out: Path) -> dict[str, dict[str, Any]]:
    """The rows of `group_report` by group."""
    rows = ds.dataset(out / "tables" / "group_report", partitioning="hive").to_table().to_pylist()
    return {row["group_id"]: row for row in rows}


def test_production_and_capacity_are_those_of_the_recorder(report: dict[str, dict[str, Any]]) -> None:
    for group, produced in (("scaled", 60), ("spare", 60), ("hot", 44)):
        assert report[group]["production_per_second"] == pytest.approx(produced, rel=0.02)
    for group in ("scaled", "hot"):
        assert report[group]["capacity_quality"] == "sustained"
        assert report[group]["capacity_per_second"] == pytest.approx(CAPACITY, rel=0.04)
    assert report["spare"]["capacity_quality"] == "lower_bound"
    assert report["spare"]["capacity_per_second"] == pytest.approx(10, rel=0.1)


def test_the_scaled_group_needs_three_members_and_the_hot_one_cannot_be_helped_by_any(report: dict[str, dict[str, Any]]) -> None:
    assert (report["scaled"]["members_now"], report["scaled"]["members_needed"]) == (4, 3)
    assert (report["hot"]["members_now"], report["hot"]["members_needed"]) == (2, None)
    found = {
        name: [one.kind for one in findings_of(row) if one.kind in ("too_few_members", "too_many_members", "hot_partition")]
        for name, row in report.items()
    }
    assert found == {"scaled": ["too_many_members"], "spare": [], "hot": ["hot_partition"]}


def test_the_replay_of_one_member_and_of_four_is_what_the_group_did(out: Path, report: dict[str, dict[str, Any]]) -> None:
    """Until it is scaled it falls behind at 35 a second; from the next sample on four members of the same capacity catch up."""
    known, capacity = audited_production(out, "scaled"), report["scaled"]["capacity_per_second"]
    scaled = int(np.searchsorted(known.at, known.at[0] + np.timedelta64(int(SCALED_S), "s")))
    before = backlog(known.produced[:, :scaled], known.seconds[:scaled], known.first, 1, capacity)
    assert before[-1] > 7000
    assert np.abs(before - known.lag[: scaled + 1]).max() < 0.06 * known.lag.max()
    later = scaled + 2
    lag = np.array(audited_lag(out, "scaled", known.at[later].item().replace(tzinfo=UTC)).of({"jobs": 6})["jobs"], float)
    as_recorded = [0, 2, 4, 5, 1, 3]  # range: two members have partitions 0 and 1, and 2 and 3; to be dealt out in turn
    for order, error in ((as_recorded, 0.04), (list(range(6)), 0.16)):
        after = backlog(known.produced[order][:, later:], known.seconds[later:], lag[order], 4, capacity)
        assert after[-1] < 0.3 * after[0]
        assert np.abs(after - known.lag[later:]).max() < error * known.lag.max()


def test_the_command_says_that_three_members_would_have_kept_up_and_two_not(out: Path) -> None:
    for members, code in ((1, 1), (2, 1), (3, 0), (4, 0)):
        result = CliRunner().invoke(
            app, ["simulate", "--audit", str(out), "--group", "scaled", "--members", str(members), "--json"]
        )
        assert (result.exit_code, json.loads(result.stdout)["keeps_up"]) == (code, not code)
