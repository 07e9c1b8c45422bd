"""Figures read from tables that hold little: nothing yet, several days, members that are found in an earlier day's steps."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.follow.gauges import Gauges, GroupGauges, MemberLag
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.manifest import Manifest
from counterpoise.pipeline.tables.paths import day_folder

CLUSTER = "2026=odd"


def put(out: Path, name: str, day: int, rows: list[dict[str, Any]], number: int = 1, cluster: str = CLUSTER) -> None:
    """Rows of a table, other columns null."""
    schema = pa.schema([field for field in TABLES[name] if field.name != "cluster"])
    whole = [{field.name: row.get(field.name) for field in schema} for row in rows]
    place = out / "tables" / name / day_folder(cluster, f"2026-11-{day}")
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(whole, schema), place / f"part-{number}.parquet")


def manifest(out: Path) -> Manifest:
    """All files that are there."""
    return Manifest(str(out), 1, frozenset(str(file.relative_to(out)) for file in out.rglob("*.parquet")))


def at(day: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, 1, minute, tzinfo=UTC)


def report(group: str, **more: Any) -> dict[str, Any]:
    about = {"group_id": group, "state": "stable", "generations": 1, "rebalances": 1, "moved": 2, "failed_generations": 0}
    return {**about, "members_now": 1, "idle_now": 0, "last_ts": at(20), **more}


def in_states(**partitions: int) -> list[dict[str, Any]]:
    return [{"state": state, "partitions": count} for state, count in partitions.items()]


def lag(group: str, day: int, minute: int, behind: int | None, owner: str | None) -> dict[str, Any]:
    return {"group_id": group, "topic": "t", "partition": 0, "at": at(day, minute), "lag": behind, "owner": owner}


def step(group: str, members: dict[str, str | None]) -> dict[str, Any]:
    return {"group_id": group, "assignment": [{"member_id": one, "client_id": client} for one, client in members.items()]}


def test_tables_without_rows_give_no_figures(tmp_path: Path) -> None:
    gauges = Gauges((CLUSTER,))
    gauges.refresh(manifest(tmp_path))
    assert (gauges.groups, gauges.newest) == ((), None)


def test_the_newest_day_and_sample_count_and_clients_are_found_in_any_day(tmp_path: Path) -> None:
    put(tmp_path, "group_report", 20, [report("gone"), report("g", rebalances=7)])
    gone, never = report("deleted", state="deleted"), report("c", generations=None, health_states=in_states(unowned=1))
    well = {"health_states": in_states(ok=2, falling_behind=1, stalled=0)}
    put(tmp_path, "group_report", 21, [report("g", spread_now=3, **well), gone, never])
    put(tmp_path, "partition_lag", 20, [lag("g", 20, 9, 99, "a")])
    put(tmp_path, "partition_lag", 21, [lag("g", 21, 1, 50, "a"), lag("g", 21, 2, 5, "a"), lag("g", 21, 2, None, "b")], 1)
    put(tmp_path, "partition_lag", 21, [lag("g", 21, 2, 6, "b"), lag("g", 21, 2, 7, None), lag("c", 21, 2, 1, None)], 2)
    put(tmp_path, "partition_lag", 21, [lag("g", 21, 1, 70, "b")], 3)
    put(tmp_path, "rebalances", 19, [step("g", {"a": "client a", "x": "no one"}), step("h", {"a": "of another group"})])
    put(tmp_path, "rebalances", 21, [step("g", {}), step("g", {"b": None})])
    gauges = Gauges((CLUSTER,))
    gauges.refresh(manifest(tmp_path))
    counts = {"rebalances": 1, "moved": 2, "failed_generations": 0, "members_now": 1, "idle_now": 0, "spread_now": 3}
    members = (MemberLag("a", "client a", 5), MemberLag("b", "", 6))
    assert gauges.groups == (
        GroupGauges(CLUSTER, "c", {}, (1, 1), states={"unowned": 1}),
        GroupGauges(CLUSTER, "g", counts, (18, 7), members, states={"ok": 2, "falling_behind": 1}),
    )
    assert gauges.newest == at(20)


def test_members_that_are_known_are_not_looked_for_again(tmp_path: Path) -> None:
    put(tmp_path, "partition_lag", 21, [lag("g", 21, 2, 5, "a")])
    put(tmp_path, "rebalances", 21, [step("g", {"a": "client a"})])
    gauges = Gauges((CLUSTER,))
    gauges.refresh(manifest(tmp_path))
    before = gauges.groups
    put(tmp_path, "rebalances", 21, [step("g", {"a": "somebody else"})])
    gauges.refresh(manifest(tmp_path))
    assert gauges.groups == before
    assert before[0].members == (MemberLag("a", "client a", 5),)


def test_clusters_are_read_one_by_one_in_order_of_names(tmp_path: Path) -> None:
    for cluster in ("b", "a", "not followed"):
        put(tmp_path, "partition_lag", 21, [lag("g", 21, 2, 5, None)], cluster=cluster)
    gauges = Gauges(("b", "a"))
    gauges.refresh(manifest(tmp_path))
    assert gauges.groups == (GroupGauges("a", "g", {}, (5, 5)), GroupGauges("b", "g", {}, (5, 5)))


def test_actions_and_findings_are_counted_by_kind_and_only_those_of_the_reports_day(tmp_path: Path) -> None:
    """Yesterday's rows stay in their tables, and say nothing of today."""
    put(tmp_path, "group_report", 20, [report("g")])
    switch = {"kind": "switch_strategy", "n_groups": 3, "target": "sticky"}
    put(
        tmp_path,
        "actions",
        20,
        [switch, {**switch, "n_groups": 2, "target": "cooperative-sticky"}, {"kind": "dead_groups", "n_groups": 1}],
    )
    storm, dead = ({"kind": kind, "severity": one} for kind, one in (("storm", "critical"), ("dead_groups", "notice")))
    put(tmp_path, "findings", 20, [storm, storm, {**dead, "accepted_until": date(2027, 1, 31)}])
    gauges = Gauges((CLUSTER,))
    gauges.refresh(manifest(tmp_path))
    assert gauges.actions == {(CLUSTER, "switch_strategy"): 5, (CLUSTER, "dead_groups"): 1}
    assert gauges.findings == {(CLUSTER, "storm", "critical"): 2, (CLUSTER, "dead_groups", "notice"): 0}
    put(tmp_path, "group_report", 21, [report("g")])
    gauges.refresh(manifest(tmp_path))
    assert (gauges.actions, gauges.findings) == ({}, {})
