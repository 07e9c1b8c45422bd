"""Finding: one thing worth knowing about a group, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["CRITICAL", "NOTICE", "WARNING", "Finding", "Row", "times", "when"]

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
_WEIGHT = {CRITICAL: 1e6, WARNING: 1e3, NOTICE: 1.0}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes
    ----------
    kind : str
        The rule's name.
    severity : str
        critical, warning or notice.
    title, evidence, cost, action : str
        In words: what it is, the numbers, what it costs, what to do (with configuration lines).
    weight : float
        Orders findings of one severity; more is worse.
    numbers : mapping of str to float
        The figures in `evidence`; never empty.
    generation, at
        Where to look, if it is one place.
    group_id, cluster, rank
        Filled in by the stage.
    """

    kind: str
    severity: str
    title: str
    evidence: str
    cost: str
    action: str
    weight: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    generation: int | None = None
    at: datetime | None = None
    group_id: str = ""
    cluster: str = "default"
    rank: int = 0

    @property
    def score(self) -> float:
        """Rank order over all severities: severity first, then weight (below 999)."""
        return _WEIGHT[self.severity] * (1 + min(self.weight, 998.0))


def times(n: int | float, what: str) -> str:
    """`3 rebalances`, `1 rebalance`."""
    return f"{n:g} {what}" if n != 1 else f"1 {what.removesuffix('s')}"


def when(moment: datetime) -> str:
    """`2026-01-31 12:30:00 UTC`, whatever zone the row came in: recordings last for days, and are read elsewhere."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
