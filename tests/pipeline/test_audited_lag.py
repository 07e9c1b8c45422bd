"""The lag of an audited group at a time: by the sample before it and later steps; unknown lag is counted, never hidden."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from counterpoise.cli.app import app
from counterpoise.clients import kafka_python
from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.audited_lag import audited_lag, audited_production, audited_source, newest_rows
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables import paths
from counterpoise.pipeline.tables.paths import dataset
from counterpoise.planning.assign import assign
from counterpoise.snapshot.group import Group, Member

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(minute: int, topic: str, partition: int, lag: int | None, **more: Any) -> dict[str, Any]:
    quality = "unknown" if lag is None else "exact"
    about = {
        "cluster": "default",
        "group_id": "g",
        "topic": topic,
        "partition": partition,
        "at": NOON + timedelta(minutes=minute),
    }
    return {**about, "committed": 0, "log_start": 0, "log_end": 100, "lag": lag, "quality": quality, "clamped": False, **more}


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """Samples at 12:00 and 12:10, a step of the group at 12:05; topic old is gone at the second sample."""
    rows = [row(0, "t", 0, 5), row(0, "t", 1, None), row(0, "old", 0, 77)]
    rows += [row(5, "t", 0, 9, quality="interpolated")]
    rows += [row(10, "t", 0, 20), row(10, "t", 1, 30), row(10, "u", 2, 4), row(10, "t", 0, 1, group_id="other")]
    folder = tmp_path / "tables" / "partition_lag"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["partition_lag"]), folder / "part-0.parquet")
    return tmp_path


def test_files_that_an_update_deletes_before_they_are_read_are_those_of_the_next_manifest(
    audited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = with_deleted_file(audited)
    seen: list[str] = []

    def first_gone(table: Any) -> Any:
        seen.append(str(table))
        return gone if len(seen) == 1 else dataset(table if len(seen) == 2 else audited / "none")

    monkeypatch.setattr(paths, "dataset", first_gone)
    assert audited_lag(audited, "g").known["u"].tolist() == [-1, -1, 4]
    assert len(seen) == 2
    with pytest.raises(CaptureError, match="no such table"):
        audited_lag(audited, "g")
    assert len(seen) == 3  # only a file that is gone is looked for again
    monkeypatch.setattr(paths, "dataset", lambda _: gone)
    with pytest.raises(CaptureError, match="no table of an audit"):
        audited_lag(audited, "g")


def with_deleted_file(audited: Path) -> Any:
    """A data set with a file that has been deleted since."""
    deleted = audited / "deleted"
    deleted.mkdir()
    pq.write_table(pa.Table.from_pylist([row(0, "t", 0, 5)], schema=TABLES["partition_lag"]), deleted / "part-0.parquet")
    found = dataset(deleted)
    (deleted / "part-0.parquet").unlink()
    return found


@pytest.mark.parametrize(
    ("minute", "seconds", "known"),
    [
        (0, 0, {"t": [5, -1], "old": [77]}),
        (4, 0, {"t": [5, -1], "old": [77]}),
        (5, 0, {"t": [9, -1], "old": [77]}),
        (9, 59, {"t": [9, -1], "old": [77]}),
        (10, 0, {"t": [20, 30], "u": [-1, -1, 4]}),
    ],
)
def test_what_a_leader_could_have_known(audited: Path, minute: int, seconds: int, known: dict[str, list[int]]) -> None:
    found = audited_lag(audited, "g", NOON + timedelta(minutes=minute, seconds=seconds))
    assert {topic: lag.tolist() for topic, lag in found.known.items()} == known
    assert found.at == NOON + timedelta(minutes=10 if minute == 10 else 5 if minute > 4 else 0)


def test_lag_at_the_end_is_that_of_the_last_sample_and_fits_any_partition_counts(audited: Path) -> None:
    found = audited_lag(audited, "g")
    topics = {"t": 3, "u": 2, "new": 1}
    assert found.of(topics) == {"t": [20, 30, 0], "u": [0, 0], "new": [0]}
    assert found.unknown(topics) == 4
    group = Group(topics, [Member("a", ["t"]), Member("b", ["t", "u", "new"])], found.of(topics))
    plan = assign(group, "lag-sticky")
    assert {topic: list(held) for topic, held in plan.target["a"].items()} == {"t": [0, 1, 2]}
    assert plan.lag_figures is not None
    assert plan.lag_figures["largest"] == 50


def test_a_partition_that_the_last_sample_lacks_has_the_row_before_if_its_topic_was_not_recreated() -> None:
    """Topic t: partitions 1 and 2 have no leader at 12:10. Topic r was recreated between the samples with one partition."""
    rows = [row(0, "t", 0, 5), row(0, "t", 1, 6), row(0, "t", 2, 7), row(5, "t", 2, 8, quality="interpolated")]
    rows += [row(10, "t", 0, 20), row(0, "r", 0, 1), row(0, "r", 1, 2), row(10, "r", 0, 3, log_end=50), row(0, "gone", 0, 9)]
    newest = newest_rows(pa.Table.from_pylist(rows[::-1], schema=TABLES["partition_lag"]))
    found = [(one["topic"], one["partition"], one["lag"]) for one in newest.to_pylist()]
    assert found == [("r", 0, 3), ("t", 0, 20), ("t", 1, 6), ("t", 2, 8)]


def test_the_recorded_lag_of_a_partition_without_a_leader_is_that_of_the_sample_before(tmp_path: Path) -> None:
    rows = [row(minute, "t", 0, 100, log_end=100 + minute) for minute in range(3)]
    rows += [row(minute, "t", 1, 5_000, log_end=9_000) for minute in (0, 1)] + [row(0, "gone", 0, 7)]
    folder = tmp_path / "tables" / "partition_lag"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["partition_lag"]), folder / "part-0.parquet")
    assert audited_production(tmp_path, "g").lag.tolist() == [5_107, 5_100, 5_100]


def test_without_log_ends_everything_is_unknown(tmp_path: Path) -> None:
    rows = [row(3, "t", 0, None, log_end=None), row(7, "t", 1, None, log_end=None)]
    folder = tmp_path / "tables" / "partition_lag"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["partition_lag"]), folder / "part-0.parquet")
    found = audited_lag(tmp_path, "g")
    assert {topic: lag.tolist() for topic, lag in found.known.items()} == {"t": [-1, -1]}
    assert found.unknown({"t": 2}) == 2


def test_what_is_not_there_is_said(audited: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"nothing is known about group g at 2026-01-01T11:59:00.*begins at 2026-01-01T12:00"):
        audited_lag(audited, "g", NOON - timedelta(minutes=1))
    with pytest.raises(OptionError, match="group nobody has no partitions there"):
        audited_lag(audited, "nobody")
    with pytest.raises(CaptureError, match="no such table; run the audit again"):
        audited_lag(tmp_path / "nowhere", "g")


def test_a_leader_plans_by_audited_lag_without_a_broker(audited: Path) -> None:
    assignor = kafka_python.LagStickyAssignor(lag=audited_source(audited, "g"), lag_within_s=30)
    assert assignor.lag_reader.lag({"t": 2}) == {"t": [20, 30]}
    assert assignor.lag_reader.outcomes == {"read": 1}


def run(snapshot: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["plan", str(snapshot), "--strategy", "lag-sticky", *(str(word) for word in words)])


def test_plan_takes_the_lag_of_an_audit(audited: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "group.json"
    value = {"topics": {"t": 2}, "members": [{"id": "a", "topics": ["t"]}, {"id": "b", "topics": ["t"]}], "group": "g"}
    snapshot.write_text(json.dumps(value), encoding="utf-8")
    late = run(snapshot, "--lag-from", audited, "--json")
    assert json.loads(late.stdout)["lag"]["largest"] == 30
    assert late.stderr == "lag of g as of 2026-01-01T12:10:00+00:00\n"
    early = run(snapshot, "--lag-from", audited, "--lag-at", "2026-01-01T12:06:00", "--json")
    assert json.loads(early.stdout)["lag"]["largest"] == 9
    assert early.stderr == "lag of g as of 2026-01-01T12:05:00+00:00; unknown: 1 partition, counted as 0\n"
    for words, message in (
        (["--lag-at", "2026-01-01"], "--lag-at 2026-01-01: only with --lag-from"),
        (["--cluster", "east"], "--cluster east: only with --lag-from"),
        (["--lag-from", audited, "--lag-at", "noon"], "--lag-at noon: expected a time like 2026-11-21T04:05:00Z"),
    ):
        refused = run(snapshot, *words)
        assert (refused.exit_code, message in refused.stderr) == (2, True)
    east = pa.Table.from_pylist([row(10, "t", 0, 50, cluster="east")], schema=TABLES["partition_lag"])
    pq.write_table(east, audited / "tables" / "partition_lag" / "part-1.parquet")
    assert "is in the clusters default, east; name one with --cluster" in run(snapshot, "--lag-from", audited).stderr
    named = run(snapshot, "--lag-from", audited, "--cluster", "east", "--json")
    assert json.loads(named.stdout)["lag"]["largest"] == 50
    snapshot.write_text(json.dumps({**value, "group": None}), encoding="utf-8")
    assert 'add "group": NAME to it' in run(snapshot, "--lag-from", audited).stderr
