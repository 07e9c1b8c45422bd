"""A small invented fleet, written as the audit writes it: schema-true tables and a summary, hostile names included."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.schemas import TABLES

HOSTILE = "<script>alert(1)</script>"
START = int(datetime(2026, 11, 21, 4, 0, tzinfo=UTC).timestamp() * 1e6)
MINUTE = 60_000_000
END = START + 10 * MINUTE

Owned = dict[str, dict[str, list[int]]]


def assignment(owned: Owned) -> list[dict[str, Any]]:
    """{member id: {topic: partitions}} as the column; a member id is its client id and a number after '#'."""
    return [
        {
            "member_id": member,
            "client_id": member.rsplit("#", 1)[0],
            "assigned": [{"topic": topic, "partitions": parts} for topic, parts in sorted(topics.items())],
        }
        for member, topics in sorted(owned.items())
    ]


def step(group: str, generation: int, minute: float, owned: Owned, **more: Any) -> dict[str, Any]:
    """A row of `rebalances`."""
    partitions = sum(len(parts) for topics in owned.values() for parts in topics.values())
    row = {
        "cluster": "default",
        "group_id": group,
        "incarnation": 0,
        "generation": generation,
        "log_partition": 0,
        "log_offset": 10 * generation,
        "log_ts": START + round(minute * MINUTE),
        "group_type": "classic",
        "protocol_type": "consumer",
        "protocol": "range",
        "protocol_kind": "eager",
        "kind": "rebalance",
        "cause": "join",
        "joined": [],
        "left": [],
        "restarted": [],
        "missed_generations": 0,
        "sync_latency_ms": 20,
        "n_members": len(owned),
        "n_static": 0,
        "n_idle": 0,
        "n_partitions": partitions,
        "n_moved": 3,
        "n_kept": 2,
        "leader": next(iter(owned), None),
        "leader_library": "java",
        "logical_rebalance": generation,
        "detail": None,
        "assignment": assignment(owned),
        "complete": True,
        "settle_ms": None,
    }
    return row | more


def report_row(group: str, **more: Any) -> dict[str, Any]:
    """A row of `group_report`."""
    row: dict[str, Any] = dict.fromkeys(TABLES["group_report"].names)
    row |= {
        "cluster": "default",
        "group_id": group,
        "group_type": "classic",
        "protocol_type": "consumer",
        "protocol": "range",
        "protocol_kind": "eager",
        "libraries": ["java"],
        "leader_libraries": ["java"],
        "first_ts": START,
        "last_ts": END,
        "state": "stable",
        "complete": True,
        "generations": 3,
        "rebalances": 3,
        "rebalances_per_day": 432.0,
        "followups": 0,
        "failed_generations": 0,
        "static_replacements": 0,
        "emptied": 0,
        "deletions": 0,
        "causes": [("join", 2), ("leave", 1)],
        "members_now": 2,
        "members_peak": 3,
        "static_now": 0,
        "distinct_members": 4,
        "idle_now": 0,
        "idle_peak": 0,
        "partitions_now": 6,
        "topics": ["orders"],
        "sync_latency_ms_p50": 12.0,
        "sync_latency_ms_max": 3025,
        "moved": 7,
        "commits": 1723,
        "commit_tombstones": 0,
        "spread_now": 0,
        "spread_peak": 1,
        "lag_now": 41,
        "lag_quality": "exact",
        "compared_generations": 3,
        "replay_fidelity": 1.0,
        "fidelity_by_library": [("java", 1.0)],
        "observed_moved": 7,
        "observed_revoked": 15,
        "needless_moves": 4,
        "stopped_partition_seconds": 45.0,
        "strategies": [
            {
                "strategy": "observed",
                "mode": "replay",
                "moved": 7,
                "revoked": 15,
                "spread_peak": 1,
                "topic_spread_peak": None,
                "balanced": None,
                "generations": 3,
                "lag_peak": None,
                "makespan_ratio": None,
                "stopped_seconds": 45.0,
            },
            {
                "strategy": "sticky",
                "mode": "replay",
                "moved": 3,
                "revoked": 15,
                "spread_peak": 1,
                "topic_spread_peak": 1,
                "balanced": 3,
                "generations": 3,
                "lag_peak": 12345,
                "makespan_ratio": 1.0,
                "stopped_seconds": 45.0,
            },
            {
                "strategy": "cooperative-sticky",
                "mode": "closed_loop",
                "moved": 3,
                "revoked": 3,
                "spread_peak": 1,
                "topic_spread_peak": 1,
                "balanced": 3,
                "generations": 3,
                "lag_peak": 60,
                "makespan_ratio": 1.4999,
                "stopped_seconds": 18.0,
            },
        ],
        "suggested_strategy": "cooperative-sticky",
        "suggestion": "It moves 3 partitions where range moved 7.",
        "migration_note": "Two rolling restarts:\npartition.assignment.strategy=CooperativeStickyAssignor,RangeAssignor\nthen\n"
        "partition.assignment.strategy=CooperativeStickyAssignor",
    }
    return row | more


def finding(rank: int, group: str, severity: str = "warning", **more: Any) -> dict[str, Any]:
    """A row of `findings`."""
    row = {
        "cluster": "default",
        "rank": rank,
        "severity": severity,
        "kind": "needless_moves",
        "group_id": group,
        "title": f"Moves of {group}",
        "evidence": "4 of 7 moves were needless",
        "cost": "12 partition-seconds",
        "action": "Set\npartition.assignment.strategy=cooperative-sticky",
        "score": 10.0 / rank,
        "numbers": [("moves", 4.0)],
        "generation": 2,
        "at": START + MINUTE,
        **dict.fromkeys(("owner", "accepted_until", "accepted_reason")),
    }
    return row | more


def change(group: str, minute: float = 5, **more: Any) -> dict[str, Any]:
    """A row of `changes`: two members became three, and the lag fell."""
    figures = {"rebalances": 4, "moved": 6, "stopped_seconds": 38.2, "samples": 5, "lag_mean": 900.4, "lag_peak": 1200}
    daily = dict.fromkeys(("rebalances_per_day", "moved_per_day", "stopped_seconds_per_day"))
    row = {
        "cluster": "default",
        "group_id": group,
        "kind": "size",
        "at": START + round(minute * MINUTE),
        "began": START + round(minute * MINUTE),
        "state_before": "members 2",
        "state_after": "members 3",
        "before": {"seconds": 300.0, **figures, **daily},
        "after": {"seconds": 240.0, **figures, **daily, "rebalances": 0, "lag_mean": 12.0, "stopped_seconds": None},
        "certainty": 0.97,
        "verdict": "better",
    }
    return row | more


def state(group: str, code: str, since: float, until: float, **more: Any) -> dict[str, Any]:
    """A row of `health`: a state of a group, in minutes."""
    row: dict[str, Any] = dict.fromkeys(TABLES["health"].names)
    begin, end = (START + round(minute * MINUTE) for minute in (since, until))
    row |= {"cluster": "default", "scope": "group", "group_id": group, "state": code, "since": begin, "until": end}
    row |= {"detected": begin + MINUTE // 2, "open": until >= 10, "partitions": 2, "lag_begin": 10, "lag_end": 1200}
    return row | more


def lag_rows(group: str, owner: str | None, values: Iterable[int], topic: str = "orders") -> list[dict[str, Any]]:
    """Rows of `partition_lag`: one sample a minute of one partition."""
    return [
        {
            "cluster": "default",
            "group_id": group,
            "topic": topic,
            "partition": 0,
            "at": START + index * MINUTE,
            "committed": 10,
            "log_start": 0,
            "log_end": 10 + value,
            "lag": value,
            "owner": owner,
            "quality": "exact",
            "clamped": False,
            "time_lag_ms": 1400 * value + 15_555 if owner else 4200,
        }
        for index, value in enumerate(values)
    ]


def write(out: Path, todo: Iterable[dict[str, Any]] = (), /, **tables: list[dict[str, Any]]) -> Path:
    """Write the tables (the others empty) and a summary that counts them and has the actions `todo`."""
    for name, schema in TABLES.items():
        folder = out / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(tables.get(name, []), schema=schema), folder / "part-0.parquet")
    (out / "summary.json").write_text(json.dumps(summary(tables, todo), default=str), encoding="utf-8")
    return out


def block(groups: list[str], library: str = "java", lines: str = "with\n  partition.assignment.strategy=x") -> dict[str, Any]:
    """A block of configuration of an action of the summary."""
    listed = [{"cluster": "default", "group_id": name} for name in groups[:20]]
    return {"library": library, "lines": lines, "n_groups": len(groups), "groups": listed}


def action(rank: int, groups: list[str], severity: str = "warning", **more: Any) -> dict[str, Any]:
    """An action of the summary."""
    figures = {"saved_seconds": 12.4, "estimated_seconds": 0.0, "saved_moves": 3, "saved_rebalances": 0, "restarts": 2}
    row = {
        "rank": rank,
        "severity": severity,
        "kind": "switch_strategy",
        "target": "cooperative-sticky",
        "title": f"Switch {len(groups)} groups from range to cooperative-sticky",
        "saves": "saves 12 of 100 stopped partition-seconds",
        "cost": "two rolling restarts",
        "action": "change the configuration of each client library",
        "n_groups": len(groups),
        "groups": [{"cluster": "default", "group_id": name, **figures, "findings": ["eager_stops"]} for name in groups[:20]],
        **figures,
        "saved_moves_per_day": None,
        "config": [block(groups)],
    }
    return row | more


def summary(tables: dict[str, list[dict[str, Any]]], actions: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """The summary of these tables, as far as the report shows it."""

    def tally(rows: list[dict[str, Any]], key: str) -> dict[str, int]:
        return {value: sum(row[key] == value for row in rows) for value in sorted({row[key] for row in rows if row[key]})}

    groups, steps, found = (tables.get(name, []) for name in ("group_report", "rebalances", "findings"))
    accepted = sum(row["accepted_until"] is not None for row in found)
    return {
        "counterpoise": "9.9",
        "source": "examples/" + HOSTILE,
        "cluster": "default",
        "clusters": ["default"],
        "days": {"default": None},
        **dict.fromkeys(("from", "sampled_from"), "2026-11-21T04:00:00+00:00"),
        **dict.fromkeys(("to", "sampled_to"), "2026-11-21T04:10:00+00:00"),
        "records": {
            "total": 24174,
            "commits": 23844,
            "commit_tombstones": 48,
            "group_metadata": 156,
            "group_metadata_tombstones": 2,
            "modern": 124,
            "errors": 0,
        },
        "groups": {"total": len(groups), "by_type": tally(groups, "group_type"), "by_protocol": tally(groups, "protocol")},
        "rebalances": {
            "total": len(steps),
            "by_kind": tally(steps, "kind"),
            "by_cause": tally(steps, "cause"),
            "failed_generations": 0,
            "generations": len(steps),
        },
        "stopped_partition_seconds": sum(row["stopped_partition_seconds"] or 0 for row in groups),
        "members": {"distinct": 17},
        "fidelity": {"compared": 12, "matched": 11, "share": 11 / 12, "groups_below_one": 1},
        "actions": list(actions),
        "data_quality": [{"kind": "incomplete_history", "n_groups": 1, "note": "compaction removed older generations"}],
        "strategies": [
            {"strategy": "sticky", "mode": "replay", "generations": 12, "moved": 31, "revoked": 77, "balanced": 12}
            | {"stopped_seconds": 63.0}
        ],
        "findings": {
            "total": len(found) - accepted,
            "accepted": accepted,
            "by_severity": tally(found, "severity"),
            "top": found[:200],
        },
        "tables": {name: {"path": f"tables/{name}", "rows": len(rows), "columns": []} for name, rows in tables.items()},
        "notes": ["3 commits were aborted"],
    }


def small(out: Path) -> Path:
    """Six groups: eager, cooperative, hostile, share, deleted, commits only."""
    a, b, c = "app-1#1", "app-2#2", "app-3#3"
    coop = {"protocol": "cooperative-sticky", "protocol_kind": "cooperative"}
    bad, bad_member = HOSTILE, '"><img src=x onerror=alert(2)>#1'
    steps = [
        step("eager", 1, 1, {a: {"orders": [0, 1, 2, 3, 4, 5]}}, joined=[a], complete=False),
        step("eager", 2, 3, {a: {"orders": [0, 1, 2]}, b: {"orders": [3, 4, 5]}}, joined=[b], sync_latency_ms=30000),
        step("eager", 4, 6, {b: {"orders": [0, 1, 2, 3, 4, 5]}}, left=[a], cause="leave", missed_generations=1),
        step("coop", 1, 1, {a: {"clicks": [0, 1, 2, 3]}}, joined=[a], **coop),
        step("coop", 2, 4, {a: {"clicks": [0, 1]}, b: {}}, joined=[b], **coop),
        step(
            "coop",
            3,
            5,
            {a: {"clicks": [0, 1]}, b: {"clicks": [2, 3]}},
            kind="cooperative_followup",
            cause=None,
            logical_rebalance=2,
            **coop,
        ),
        step(bad, 1, 2, {bad_member: {"t'&<b>": [0]}}, joined=[bad_member], detail="</script><i>\u202e\x1b[2J"),
        step(
            "shared",
            1,
            1,
            {a: {"jobs": [0, 1]}, c: {"jobs": [0, 1]}},
            group_type="share",
            protocol_kind="server",
            protocol="simple",
        ),
        step("gone", 1, 1, {a: {"old": [0]}}, joined=[a]),
        step("gone", 2, 2, {}, kind="emptied", cause="leave", left=[a]),
        step("gone", 2, 4, {}, kind="deleted", cause=None, log_offset=21),
    ]
    sized = {"production_per_second": 90.0, "capacity_per_second": 52.61, "capacity_quality": "sustained"}
    sized |= {"members_needed": 4, "members_useful": 11}
    changes = [change("eager", state_after=HOSTILE), change("eager", 8)]
    groups = [
        report_row("eager", complete=False, health="falling_behind", **sized),
        report_row("coop", protocol="cooperative-sticky", protocol_kind="cooperative", rebalances=2),
        report_row(
            bad, protocol=bad, lag_owner=bad, lag_owner_share=0.75, fidelity_note=bad, suggestion=bad, replay_fidelity=0.5
        ),
        report_row(
            "shared",
            group_type="share",
            protocol="simple",
            strategies=[],
            suggested_strategy=None,
            suggestion=None,
            migration_note=None,
        ),
        report_row("gone", state="deleted"),
        report_row(
            "only-commits",
            group_type="simple",
            state="commits_only",
            protocol=None,
            rebalances=0,
            strategies=None,
            members_now=None,
            members_peak=None,
            suggested_strategy=None,
            suggestion=None,
            migration_note=None,
            compared_generations=0,
            replay_fidelity=None,
        ),
    ]
    found = [
        finding(1, bad, "critical", evidence=bad, action=f"{bad}\nclient.id={bad}"),
        finding(2, "eager"),
        finding(3, "coop", "notice"),
    ]
    lag = lag_rows("eager", b, [0, 5, 90, 40, 20, 41]) + lag_rows("only-commits", None, [4, 4, 4, 4, 4, 3])
    todo = [
        action(1, ["eager", bad], config=[block(["eager", bad], bad, f"{bad}\nclient.id={bad}")]),
        action(2, ["gone"], "critical", title=bad, saves="12 records behind", saved_seconds=0.0, config=[]),
    ]
    health = [
        state("eager", "falling_behind", 5, 10),
        state("eager", "ok", 1, 4.9),
        state("eager", "stopped", 4.9, 5, partitions=1),
        state("eager", "stalled", 5, 10, scope="partition", topic="orders", partition=0),
        state("only-commits", "ok", 0, 1),
    ]
    tables = {"rebalances": steps, "group_report": groups, "findings": found, "partition_lag": lag}
    return write(out, todo, **tables, changes=changes, health=health)


KINDS = ("storm", "needless_moves", "static_membership", "lag_on_one_owner")
NASTY = '=cmd("<img src=x onerror=alert(3)>")'


def many(out: Path, groups: int = 2000) -> Path:
    """Many small groups, in the order of their numbers: members a and b, a topic for every hundred of them, three findings each.

    The last one has a name that is no good for HTML, addresses and spreadsheets.
    """
    names = [f"group-{at:04}" for at in range(groups - 1)] + [NASTY]
    steps, lag, found = [], [], []
    for at, name in enumerate(names):
        topic, a, b = f"topic-{at // 100}", f"client-{at}-a#1", f"client-{at}-b#1"
        steps += [
            step(name, 1, 1, {a: {topic: [0, 1, 2, 3]}}, joined=[a]),
            step(name, 2, 2 + at % 7, {a: {topic: [0, 1]}, b: {topic: [2, 3]}}, joined=[b]),
        ]
        lag += lag_rows(name, b, [at, 2 * at], topic)
    for at in range(3 * groups):
        severity = "critical" if at < 20 else "warning" if at < 2 * groups else "notice"
        found.append(finding(at + 1, names[at % groups], severity, kind=KINDS[(at % groups + at // groups) % 4]))
    rows = [
        report_row(
            name,
            protocol=("range", "sticky")[at % 2],
            libraries=["java"] if at % 4 else ["librdkafka"],
            stopped_partition_seconds=None if at % 10 == 9 else at / 8,
            lag_now=2 * at,
            health={7: "stalled", 8: "catching_up"}.get(at % 100, "ok"),
        )
        for at, name in enumerate(names)
    ]
    chosen = {1: names[::2], 2: names[1:41]}
    whole = [action(rank, part) for rank, part in chosen.items()]
    for row, part in zip(whole, chosen.values(), strict=True):
        row |= {"cluster": "default", "groups": [{"group_id": name} for name in part]}
    todo = [action(rank, part) for rank, part in chosen.items()]
    return write(out, todo, rebalances=steps, group_report=rows, findings=found, partition_lag=lag, actions=whole)
