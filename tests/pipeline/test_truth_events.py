"""What was done to the cluster, as the driver of the recording wrote it down, against the steps that the audit tells.

Without a trace in the offsets topic, so not looked for: consumers that assign by hand joining or leaving, members made slower,
deleted records of a topic that is read, and a static member that stops for less than its session (only its return shows).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Audited

BY_HAND = {"ledger-export", "dwh-loader"}
SESSION_MS = 20_000
STREAMS_MS = 120_000
BROKER_AWAY = (1795234074398, 1795234120207)
"""From the order to stop until the driver found the cluster settled."""
Step = tuple[int, dict[str, Any], set[str], set[str]]


def millis(step: dict[str, Any]) -> int:
    return round(step["log_ts"].timestamp() * 1000)


@pytest.fixture(scope="module")
def steps(audited: Audited) -> dict[str, list[Step]]:
    """Group -> (time, step, client ids that joined, client ids that left)."""
    rows = sorted(audited.table("rebalances"), key=lambda step: (step["group_id"], step["log_offset"]))
    names = {m["member_id"]: m["client_id"].split("-StreamThread")[0] for step in rows for m in step["assignment"]}
    told: dict[str, list[Step]] = defaultdict(list)
    for step in rows:
        joined, left = ({names[member] for member in step[side] if member in names} for side in ("joined", "left"))
        told[step["group_id"]].append((millis(step), step, joined, left))
    return told


@pytest.fixture(scope="module")
def events(shop: Path) -> list[dict[str, Any]]:
    with (shop / "truth.jsonl").open(encoding="utf-8") as file:
        return [event for event in map(json.loads, file) if event["src"] == "driver"]


def begun(event: dict[str, Any]) -> int:
    detail = event["detail"] if isinstance(event["detail"], dict) else {}
    return int(detail.get("begin_ms", event["ts_ms"] - 8000))


def found(event: dict[str, Any], steps: dict[str, list[Step]]) -> bool:
    """Whether a step of the right group, time, kind and member tells of a start, a stop, a crash or a stall."""
    client, group, at = event["detail"]["client"], event["group"], event["ts_ms"]
    for time, step, joined, left in steps[group]:
        limit = STREAMS_MS if step["protocol"] in ("stream", "sessioned") else SESSION_MS
        if not begun(event) <= time <= at + limit:
            continue
        if step["kind"] == "static_replacement" and client in joined | left:
            return True
        if event["event"] == "start_member" and client in joined and step["cause"] in ("join", "join_leave"):
            return True
        if event["event"] != "start_member" and client in left and step["cause"] in ("leave", "join_leave"):
            return True
    return False


def test_every_start_stop_crash_and_stall_is_found(steps: dict[str, list[Step]], events: list[dict[str, Any]]) -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for event in events:
        if event["event"] in ("start_member", "stop_member", "crash", "stall") and event["group"] not in BY_HAND:
            seen[event["event"], found(event, steps)] += 1
    recall = {kind: f"{n} of {n + seen[kind, False]}" for (kind, hit), n in seen.items() if hit}
    print("recall:", recall)  # noqa: T201 - the figures are wanted in the log of a run
    assert seen == {("start_member", True): 82, ("stop_member", True): 26, ("crash", True): 4, ("stall", True): 2}


def reasons(step: Step, group: str, events: list[dict[str, Any]]) -> bool:
    """Whether something was done that explains a rebalance of this cause at this time."""
    time, row, joined, left = step
    if BROKER_AWAY[0] <= time <= BROKER_AWAY[1]:
        return True
    wanted = {
        "join": ("start_member", "subscribe", "stall"),
        "leave": ("stop_member", "crash", "stall", "unsubscribe"),
        "join_leave": ("start_member", "stop_member"),
        "subscription": ("subscribe",),
        "partition_count": ("grow", "create_topics", "delete_topic"),
        "unknown": ("enforce", "grow", "start_member"),
    }[row["cause"]]
    for event in events:
        if event["event"] in wanted and begun(event) <= time <= event["ts_ms"] + STREAMS_MS:
            client = event["detail"].get("client") if isinstance(event["detail"], dict) else None
            if event["group"] == group and (client in joined | left or row["cause"] in ("subscription", "unknown")):
                return True
            if event["group"] is None and row["cause"] in ("partition_count", "unknown"):
                return True
    return False


def test_every_rebalance_has_a_reason_that_really_happened(steps: dict[str, list[Step]], events: list[dict[str, Any]]) -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for group, told in steps.items():
        for step in told:
            if step[1]["kind"] == "rebalance":
                seen[step[1]["cause"], reasons(step, group, events)] += 1
    precision = {cause: f"{seen[cause, True]} of {seen[cause, True] + seen[cause, False]}" for cause, _ in sorted(seen)}
    print("precision:", precision)  # noqa: T201
    assert not [cause for (cause, explained) in seen if not explained], precision


@pytest.mark.parametrize(
    ("group", "detail", "event"),
    [
        ("pricing", "inventory 4 -> 8 partitions", "grow"),
        ("search-index", "inventory 4 -> 8 partitions", "grow"),
        ("warehouse", "inventory 4 -> 8 partitions", "grow"),
        ("mail-out", "returns 6 -> 0 partitions", "delete_topic"),
        ("returns-handler", "returns 6 -> 0 partitions", "delete_topic"),
        ("mail-out", "returns 0 -> 3 partitions", "create_topics"),
        ("returns-handler", "returns 0 -> 3 partitions", "create_topics"),
        ("catalog-watcher", "catalog.items 0 -> 3 partitions", "create_topics"),
        ("bi-loader", "bi-2 subscription +payments +shipments", "subscribe"),
    ],
)
def test_topics_that_change_are_told_in_words(
    steps: dict[str, list[Step]], events: list[dict[str, Any]], group: str, detail: str, event: str
) -> None:
    (time,) = [time for time, step, *_ in steps[group] if step["detail"] == detail]
    assert any(begun(done) <= time <= done["ts_ms"] + STREAMS_MS for done in events if done["event"] == event)


def test_deleted_groups(steps: dict[str, list[Step]], events: list[dict[str, Any]]) -> None:
    """One by hand, one by expiry."""
    gone = {group: time for group, told in steps.items() for time, step, *_ in told if step["kind"] == "deleted"}
    assert set(gone) == {"tmp-backfill-7f3", "old-report"}
    (done,) = [event for event in events if event["event"] == "delete_group"]
    assert begun(done) - 50 <= gone["tmp-backfill-7f3"] <= done["ts_ms"] + 50


def test_positions_that_were_set_by_a_tool_are_commits_by_nobody(audited: Audited) -> None:
    """Exactly the six partitions of the one alter_offsets, in the whole fleet."""
    rows = audited.table("findings", "kind", "group_id", "numbers")
    outside = [row for row in rows if row["kind"] == "commits_by_nobody"]
    assert [(row["group_id"], dict(row["numbers"])["commits"]) for row in outside] == [("replay-invoices", 6.0)]
