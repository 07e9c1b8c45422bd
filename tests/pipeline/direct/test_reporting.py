"""Rows of `group_report` from sums: what an hour of recordings cannot show (`test_golden` holds all else)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.direct.groups.group_sums import LagNow
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS
from counterpoise.pipeline.direct.report.reporting import PARTS, GroupKinds, found_in, reported

START = datetime(2026, 1, 1, tzinfo=UTC)


def part(**known: Any) -> dict[str, Any]:
    return {**dict.fromkeys(PARTS.names), "group_id": "g", **known}


@pytest.mark.parametrize(
    ("hours", "first", "rate"),
    [
        (6, {"first_ts": START}, 12.0),
        (6, {"first_ts": START + timedelta(hours=4), "first_commit": START + timedelta(hours=3)}, 24.0),
        (0.99, {"first_ts": START}, None),
        (6, {}, None),
    ],
    ids=["from its first step", "from its first commit", "less than an hour says nothing", "no time known"],
)
def test_rebalances_a_day_count_from_the_first_sign_of_the_group(hours: float, first: dict[str, Any], rate: float | None) -> None:
    until = micros(START + timedelta(hours=hours))
    (row,) = reported([part(rebalances=3, **first)], {}, "c", until).to_pylist()
    assert row["rebalances_per_day"] == rate


def test_a_group_that_only_commits_is_simple_and_deleted_when_its_last_commit_was() -> None:
    rows = reported([part(commits_gone=gone) for gone in (None, False, True)], {}, "c", 0).to_pylist()
    assert [(row["group_type"], row["state"]) for row in rows] == [
        ("simple", "commits_only"),
        ("simple", "commits_only"),
        ("simple", "deleted"),
    ]


@pytest.mark.parametrize(
    ("commits", "kind"),
    [(3, ("simple", "commits_only", None)), (0, ("classic", "deleted", False)), (None, ("classic", "deleted", False))],
)
def test_of_a_group_of_which_only_the_tombstone_was_seen_commits_tell_that_it_had_no_members(
    commits: int | None, kind: tuple[Any, ...]
) -> None:
    seen = {"first_ts": START, "state": "deleted", "complete": False}
    (row,) = reported([part(commits=commits, **seen)], {}, "c", 0).to_pylist()
    assert (row["group_type"], row["state"], row["complete"]) == kind


def test_the_partitions_with_most_of_an_owners_lag_are_named_also_when_they_come_a_few_at_a_time() -> None:
    lags = {
        ("a", 0): 5,
        ("a", 1): 50,
        ("b", 0): 900,
        ("b", 1): 7,
        ("b", 2): 0,
        ("b", 3): 7,
        ("b", 4): 3,
        ("b", 5): 4,
        ("b", 6): 8,
        ("a", 9): 7,
    }
    rows = [
        {"group_id": "g", "topic": topic, "partition": at, "owner": "m-1", "lag": lag, "quality": "exact"}
        for (topic, at), lag in lags.items()
    ]
    rows = [{**rows[2], "owner": "m-2", "partition": 9, "lag": 960}, *rows]
    rows.append({**rows[0], "owner": None, "partition": 3, "lag": 5000})
    for cut in (0, 3, 9):
        found = LagNow()
        for some in (rows[cut:], rows[:cut]):
            found.add(pa.RecordBatch.from_pylist([{**dict.fromkeys(LAG_COLUMNS.names), **row} for row in some], LAG_COLUMNS))
        ((_, told),) = found.groups()
        assert (told["lag_owner"], told["lag_now"]) == ("m-1", 6951)
        named = [(one["topic"], one["partition"], one["lag"]) for one in told["lag_partitions"]]
        assert named == [("b", 0, 900), ("a", 1, 50), ("b", 6, 8), ("a", 9, 7), ("b", 1, 7)]


def test_a_better_strategy_is_suggested_and_found_and_groups_are_counted_by_kind() -> None:
    run = {"spread_peak": 0, "topic_spread_peak": 0, "balanced": 3, "generations": 3, "lag_peak": None, "makespan_ratio": None}
    runs = [
        {"strategy": name, "mode": mode, "moved": revoked, "revoked": revoked, **run}
        for name, mode, revoked in (("observed", "replay", 30), ("cooperative-sticky", "closed_loop", 2))
    ]
    told = part(group_type="classic", protocol="range", state="stable", leader_libraries=[], distinct_members=4)
    strategies = {
        "g": {"strategies": runs, "judged_generations": 4, "matched": 3, "ties": 1, "worse": 0, "replay_fidelity": 0.75}
    }
    report = reported([told], strategies, "c", 0)
    (row,) = report.to_pylist()
    assert (row["suggested_strategy"], row["cluster"]) == ("cooperative-sticky", "c")
    assert row["fidelity_note"].startswith("3 of 4 generations reproduced; 1 differ by ties")
    assert "better_strategy" in found_in(report)["kind"].to_pylist()
    kinds = GroupKinds()
    kinds.add(report)
    kinds.add(report)
    assert kinds.told == [["classic", "range", "stable", 2, 8, 8, 6, 2]]
