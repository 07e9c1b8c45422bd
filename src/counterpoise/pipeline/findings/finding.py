"""Finding: one statement about a group, with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from counterpoise.pipeline.wording import SEVERITIES
from counterpoise.snapshot.html import html_table

__all__ = ["CRITICAL", "NOTICE", "WARNING", "Finding", "Row", "weight_of"]

CRITICAL, WARNING, NOTICE = SEVERITIES
_WEIGHT = {CRITICAL: 1e6, WARNING: 1e3, NOTICE: 1.0}
_LINEAR, _MOST = 900.0, 998.0

Row = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Finding:
    """One finding."""

    severity: str  # critical, warning or notice
    # Texts: the statement, the numbers, the cost, and what to do (with configuration lines)
    title: str
    evidence: str
    cost: str
    action: str
    weight: float  # Orders findings of one severity; larger is worse
    numbers: Mapping[str, float] = field(default_factory=dict)  # The figures in `evidence`; never empty
    # The generation and time of the evidence, if it is one place
    generation: int | None = None
    at: datetime | None = None
    target: str | None = None  # The strategy to change to, if it is not that of `advice.suggested_strategy`
    # Set after the rule; the kind is the rule's name
    kind: str = ""
    group_id: str = ""
    cluster: str = "default"
    rank: int = 0
    # The owner of the group, and until when and why the finding is accepted, by ``counterpoise.toml``
    owner: str | None = None
    accepted_until: date | None = None
    accepted_reason: str | None = None

    def __repr__(self) -> str:
        return f"Finding({self.severity}, {self.kind}, {self.cluster}/{self.group_id}: {self.title})"

    def _repr_html_(self) -> str:
        names = ("severity", "kind", "title", "evidence", "cost", "action")
        return html_table(f"{self.cluster}/{self.group_id}", ["", ""], [(name, getattr(self, name)) for name in names])

    @property
    def score(self) -> float:
        """The order over all severities: by severity, then by weight."""
        return _WEIGHT[self.severity] * (1 + _bounded(self.weight))


def weight_of(severity: str, score: float) -> float:
    """The inverse of `Finding.score`: the weight of a score."""
    bounded = score / _WEIGHT[severity] - 1
    return bounded if bounded <= _LINEAR else _LINEAR / (1 - (bounded - _LINEAR) / (_MOST - _LINEAR))


def _bounded(weight: float) -> float:
    """A monotonic function of weights with values below 999: the weight up to 900, then approaching 998."""
    return weight if weight <= _LINEAR else _LINEAR + (_MOST - _LINEAR) * (1 - _LINEAR / weight)
