"""`audit` with counterpoise.toml: accepted findings, owners, and what is new and gone since the last audit into a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from counterpoise.cli.app import app
from tests.pipeline.conftest import SHOP, rows_of

ACCEPT = '[[accept]]\nfinding = "dead_groups"\ngroup = "slow-*"\nreason = "planned"\nuntil = {}\n'
PARTITION = 5
OWNER = '[[owner]]\nname = "reports"\ngroup = "slow-*"\n'


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log partition of the shop in which the group is."""
    small = Path(shutil.copytree(SHOP, tmp_path_factory.mktemp("small") / "shop"))
    records = pq.read_table(small / "consumer_offsets.parquet")
    pq.write_table(records.filter(pc.equal(records["partition"], PARTITION)), small / "consumer_offsets.parquet")
    return small


def audit(spark: SparkSession, capture: Path, out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    assert SparkSession.getActiveSession() is spark
    result = CliRunner().invoke(app, ["audit", str(capture), "--group", "slow-reports", "--out", str(out), "--json", *options])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


def test_a_finding_is_accepted_until_its_day_has_passed(
    spark: SparkSession, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --since last, though no record is new."""
    monkeypatch.chdir(tmp_path)
    options = "--since", "last"
    _, first = audit(spark, capture, tmp_path / "out", *options)
    (found,) = [row for row in first["findings"]["top"] if row["kind"] == "dead_groups"]
    assert (found["owner"], found["accepted_until"], "since_last_audit" in first) == (None, None, False)
    Path("counterpoise.toml").write_text(ACCEPT.format("2026-11-21") + OWNER)  # the day on which the recording ends
    _, second = audit(spark, capture, tmp_path / "out", *options)
    assert second["findings"]["accepted"] == 1
    assert second["findings"]["total"] == first["findings"]["total"] - 1
    last = second["findings"]["top"][-1]
    accepted = {name: last[name] for name in ("kind", "owner", "accepted_until", "accepted_reason")}
    assert accepted == {"kind": "dead_groups", "owner": "reports", "accepted_until": "2026-11-21", "accepted_reason": "planned"}
    assert "dead_groups" not in [action["kind"] for action in second["actions"]]
    assert second["since_last_audit"] == {"new": [], "gone": []}
    stored = [row for row in rows_of(tmp_path / "out", "findings") if row["accepted_until"] is not None]
    assert [(row["kind"], row["owner"]) for row in stored] == [("dead_groups", "reports")]
    Path("counterpoise.toml").rename("other.toml")
    Path("other.toml").write_text(ACCEPT.format("2026-11-20"))
    code, third = audit(spark, capture, tmp_path / "out", *options, "--config", "other.toml")
    assert (code, third["findings"]["accepted"], [row["kind"] for row in third["since_last_audit"]["new"]]) == (
        1,
        0,
        ["dead_groups"],
    )
    assert "counterpoise.toml: no longer accepted: dead_groups of slow-* (until 2026-11-20)" in third["notes"]


def test_exit_code_1_is_for_findings_that_are_not_accepted(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    everything = tmp_path / "all.toml"
    everything.write_text('[[accept]]\nfinding = "*"\ngroup = "*"\nreason = "a test"\nuntil = 2099-01-01\n')
    code, summary = audit(spark, capture, tmp_path / "out", "--config", str(everything))
    assert (code, summary["findings"]["by_severity"], summary["actions"]) == (0, {}, [])
    assert summary["findings"]["accepted"] > 0
    code, second = audit(spark, capture, tmp_path / "out")
    found = sorted(row["kind"] for row in second["findings"]["top"])
    assert (code, second["findings"]["accepted"], "dead_groups" in found) == (1, 0, True)
    assert (sorted(row["kind"] for row in second["since_last_audit"]["new"]), second["since_last_audit"]["gone"]) == (found, [])
