"""Findings: rules over rows of `group_report`; each rule returns a finding with its numbers, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from counterpoise.pipeline.findings import balance, health, rebalancing, size, without_members
from counterpoise.pipeline.findings.finding import Finding

__all__ = ["RULES", "Finding", "findings_of"]

Rule = Callable[[Mapping[str, Any]], Finding | None]

RULES: tuple[Rule, ...] = (
    health.losing_data,
    health.stalled_partition,
    health.stopped_partition,
    health.falling_behind,
    balance.idle_members,
    balance.unbalanced,
    balance.topic_skew,
    balance.needless_moves,
    balance.better_strategy,
    balance.lag_on_one_owner,
    size.too_few_members,
    size.hot_partition,
    size.too_many_members,
    rebalancing.storm,
    rebalancing.eager_stops,
    rebalancing.failed_generations,
    rebalancing.slow_leader,
    rebalancing.static_membership,
    rebalancing.flapping,
    rebalancing.polled_too_late,
    without_members.dead_groups,
    without_members.simple_consumer,
    without_members.commits_by_nobody,
)
"""All rules; the kind of a finding is the name of its rule."""


def findings_of(row: Mapping[str, Any]) -> Iterator[Finding]:
    """Apply all rules to one row of `group_report`. A deleted group has no findings, because nothing can be changed."""
    if row["state"] == "deleted":
        return
    for rule in RULES:
        finding = rule(row)
        if finding is not None:
            yield replace(finding, kind=rule.__name__, group_id=row["group_id"], cluster=row["cluster"])
