"""Finding: one thing worth knowing about a group, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["CRITICAL", "NOTICE", "WARNING", "Finding", "Row", "weight_of"]

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
_WEIGHT = {CRITICAL: 1e6, WARNING: 1e3, NOTICE: 1.0}

_AS_IT_IS, _MOST = 900.0, 998.0

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
        """Rank order over all severities: severity first, then weight, which never reaches the next severity."""
        return _WEIGHT[self.severity] * (1 + _bounded(self.weight))


def weight_of(severity: str, score: float) -> float:
    """The weight behind a score."""
    bounded = score / _WEIGHT[severity] - 1
    return bounded if bounded <= _AS_IT_IS else _AS_IT_IS / (1 - (bounded - _AS_IT_IS) / (_MOST - _AS_IT_IS))


def _bounded(weight: float) -> float:
    """A weight below 999, in the order of weights: as it is up to 900, and nearer and nearer to 998 beyond."""
    return weight if weight <= _AS_IT_IS else _AS_IT_IS + (_MOST - _AS_IT_IS) * (1 - _AS_IT_IS / weight)
