"""Rows of `group_report` from sums: what an hour of recordings cannot show (`test_golden` holds all else)."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.pipeline.findings.ranking import finding_rows
from counterpoise.pipeline.fold.group_figures import commits_by_group, lag_figures
from counterpoise.pipeline.fold.group_report import ReportTotals, report_rows
from counterpoise.pipeline.fold.group_state import GroupState
from counterpoise.pipeline.fold.lag import keep_newest_lag
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.records.place import micros
from tests.pipeline.fold.histories import Commit, Event, History, Sample, Step, folded
from tests.pipeline.fold.test_lag_lookup import Row, lag_rows, partitions

START = datetime(2026, 1, 1, tzinfo=UTC)
ZEROS = (0, 0, 0, 0)


def part(**known: Any) -> dict[str, Any]:
    return {"group_id": "g", **known}


@pytest.mark.parametrize(
    ("hours", "first", "rate"),
    [
        (6, {"first_ts": START}, 12.0),
        (6, {"first_ts": START + timedelta(hours=3), "first_commit": micros(START - timedelta(days=10))}, 24.0),
        (0.99, {"first_ts": START}, None),
        (6, {}, None),
    ],
    ids=["from its first step", "a commit that compaction kept", "less than an hour says nothing", "no time known"],
)
def test_rebalances_a_day_count_from_the_first_step_of_the_group(hours: float, first: dict[str, Any], rate: float | None) -> None:
    until = micros(START + timedelta(hours=hours))
    (row,) = report_rows([part(rebalances=3, **first)], "c", until).to_pylist()
    assert row["rebalances_per_day"] == rate


def test_a_group_that_only_commits_is_simple_and_deleted_when_its_last_commit_was() -> None:
    rows = report_rows([part(commits_gone=gone) for gone in (None, False, True)], "c", 0).to_pylist()
    assert [(row["group_type"], row["state"]) for row in rows] == [
        ("simple", "commits_only"),
        ("simple", "commits_only"),
        ("simple", "deleted"),
    ]


def test_a_deleted_group_under_whose_name_somebody_commits_again_is_not_deleted() -> None:
    """Unless these offsets are deleted, too, or are older than the deletion."""
    deleted = part(group_type="classic", state="deleted", first_ts=START, last_ts=START)
    for last, gone, state in ((5, False, "commits_only"), (5, True, "deleted"), (-5, False, "deleted")):
        commits = {"last_commit": micros(START + timedelta(seconds=last)), "commits_gone": gone, "commits": 1}
        (row,) = report_rows([deleted | commits], "c", 0).to_pylist()
        assert (row["group_type"], row["state"]) == ("classic", state)


@pytest.mark.parametrize(
    ("commits", "kind"),
    [(3, ("simple", "commits_only", None)), (0, ("classic", "deleted", False)), (None, ("classic", "deleted", False))],
)
def test_of_a_group_of_which_only_the_tombstone_was_seen_commits_tell_that_it_had_no_members(
    commits: int | None, kind: tuple[Any, ...]
) -> None:
    seen = {"first_ts": START, "state": "deleted", "complete": False}
    (row,) = report_rows([part(commits=commits, **seen)], "c", 0).to_pylist()
    assert (row["group_type"], row["state"], row["complete"]) == kind


def test_the_partitions_with_most_of_an_owners_lag_are_named_also_when_they_come_a_few_at_a_time() -> None:
    """Of each the newest row counts, in whatever order they come."""
    lags = [("a", 0, 5), ("a", 1, 50), ("a", 9, 7), ("b", 0, 900)]
    lags += [("b", at, lag) for at, lag in enumerate((7, 0, 7, 3, 4, 8), 1)]
    mine: list[Row] = [("g", topic, at, 20, lag) for topic, at, lag in lags]
    rows = [*mine, ("g", "b", 9, 20, 960), ("g", "b", 3000, 20, 5000), ("g", "b", 0, 10, 1_000_000)]
    owner = np.array([*(0 for _ in mine), 1, -1, 1])
    for seed in range(5):
        order, parts = np.random.default_rng(seed).permutation(len(rows)), partitions(rows)
        parts.names.members = {"m-1": 0, "m-2": 1}
        for some in (order[:4], order[4:]):
            keep_newest_lag(parts, replace(lag_rows(parts, [rows[at] for at in some.tolist()]), owner=owner[some]))
        ((group, figures),) = lag_figures(parts, np.zeros(0, np.int64))
        assert (group, figures["lag_owner"], figures["lag_now"], figures["committed_partitions"]) == ("g", "m-1", 6951, 12)
        named = [(one["topic"], one["partition"], one["lag"]) for one in figures["lag_partitions"]]
        assert named == [("b", 0, 900), ("a", 1, 50), ("b", 6, 8), ("a", 9, 7), ("b", 1, 7)]


def test_lag_now_is_of_the_last_sample() -> None:
    """t-1 has no leader at the end; the offset of u-1 has expired; then topic u is deleted."""
    everybody = Step(0, "g", "rebalance", "eager", (0, 0, None, None), (), False, False)
    commits = [Commit(1, "g", place, 10, None) for place in range(4)]
    begin: list[Event] = [everybody, *commits, Sample(2, (15, 1_000, 2_000, 30_000), ZEROS)]
    expired: list[Event] = [Commit(3, "g", 3, None, None), Sample(4, (16, None, 2_000, 30_000), ZEROS)]
    deleted: list[Event] = [Commit(5, "g", 2, None, None), Sample(6, (17, None, None, None), ZEROS)]
    for events, lag in ((begin, 32_975), ([*begin, *expired], 6 + 1_990), ([*begin, *expired, *deleted], 7)):
        figures = folded(History(tuple(events), None, None)).figures["g"]
        assert figures["lag_now"] == lag


@pytest.mark.parametrize("cuts", [(), (1, 2, 3, 4)])
def test_the_newest_commit_is_that_with_the_highest_log_offset_also_if_a_clock_was_set_back(cuts: tuple[int, ...]) -> None:
    """A new coordinator's clock is behind: its first generation and commit are older than the last commit before."""
    generation = Step(93, "g", "rebalance", "eager", (0, 0, 0, 0), (), False, False)
    events: list[Event] = [
        Commit(96, "g", 0, 10, None),
        generation,
        Commit(94, "g", 0, 50, None),
        Sample(120, (50, None, None, None), ZEROS),
    ]
    assert folded(History(tuple(events), None, None), cuts, saved=True).figures["g"]["lag_now"] == 0


def test_commits_are_gone_by_log_offsets_also_if_a_clock_was_set_back() -> None:
    sample = Sample(75, (20, 20, 20, 20), ZEROS)
    again: list[Event] = [Commit(40, "g", 0, 10, None), Commit(100, "g", 0, None, None), sample, Commit(50, "g", 0, 11, None)]
    over: list[Event] = [Commit(100, "g", 0, 10, None), sample, Commit(50, "g", 0, None, None)]
    for events, gone in ((again, False), (over, True)):
        for cuts in ((), (2,), (3,)):
            assert folded(History(tuple(events), None, None), cuts, saved=True).figures["g"]["commits_gone"] == gone


@pytest.mark.parametrize("cuts", [(), (1, 2, 3, 4)])
def test_commits_are_gone_when_no_partition_has_an_offset_any_more(cuts: tuple[int, ...]) -> None:
    """The offset of one partition expires, while another one is stuck: that group is alive."""
    stuck: list[Event] = [Commit(1, "g", 0, 10, None), Commit(2, "g", 1, 10, None), Commit(3, "g", 0, None, None)]
    over: list[Event] = [*stuck, Commit(4, "g", 1, None, None)]
    for events, gone in ((stuck, False), (over, True), ([*over, Commit(5, "g", 0, 11, None)], False)):
        columns = folded(History(tuple(events), None, None), cuts, saved=True).figures["g"]
        assert columns["commits_gone"] == gone


def test_commits_counted_in_parts_are_counted_as_a_whole() -> None:
    chance, names = random.Random(4), ("live", "dead", "live_ts", "live_until")
    rows: list[dict[str, Any]] = [
        {**{name: chance.randrange(50) for name in names}, "group_id": f"g{offset % 8}"}
        for offset in chance.sample(range(1_000), 400)
    ]
    whole = dict(commits_by_group(pa.Table.from_pylist(rows)))
    parts = {group: GroupState(group, (), PlanCache()) for group in whole}
    for first in range(0, 400, 40):
        for group, figures in commits_by_group(pa.Table.from_pylist(rows[first : first + 40])):
            parts[group].add_commits(figures)
    assert {group: state.commits for group, state in parts.items()} == whole
    assert len(whole) == 8
    for group, (live, dead, first, last) in whole.items():
        mine = [row for row in rows if row["group_id"] == group]
        assert (live, dead) == tuple(sum(row[name] for row in mine) for name in ("live", "dead"))
        assert (first, last) == (min(row["live_ts"] for row in mine), max(row["live_until"] for row in mine))


def test_a_better_strategy_is_suggested_and_found_and_groups_are_counted_by_kind() -> None:
    run = {"spread_peak": 0, "topic_spread_peak": 0, "balanced": 3, "generations": 3, "lag_peak": None, "makespan_ratio": None}
    runs = [
        {"strategy": name, "mode": mode, "moved": revoked, "revoked": revoked, **run}
        for name, mode, revoked in (("observed", "replay", 30), ("cooperative-sticky", "closed_loop", 2))
    ]
    figures = {"strategies": runs, "compared_generations": 4, "matched": 3, "ties": 1, "worse": 0, "replay_fidelity": 0.75}
    known = {"protocol": "range", "state": "stable", "leader_libraries": [], "distinct_members": 4}
    report = report_rows([part(group_type="classic", **known, **figures)], "c", 0)
    (row,) = report.to_pylist()
    assert (row["suggested_strategy"], row["cluster"]) == ("cooperative-sticky", "c")
    assert row["fidelity_note"].startswith("3 of 4 generations reproduced; 1 differ by ties")
    assert "better_strategy" in finding_rows(report)[0]["kind"].to_pylist()
    kinds = ReportTotals()
    kinds.add(report)
    kinds.add(report)
    kind, counts = {"group_type": "classic", "protocol": "range", "state": "stable"}, {"n": 2, "members": 8, "compared": 8}
    counts |= {"matched": 6, "fidelity_below_one": 2, "cut": 0, "polled": 0, "unsampled": 0}
    assert kinds.manifest["groups"] == [kind | counts]
