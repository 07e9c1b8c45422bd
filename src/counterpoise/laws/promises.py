"""The laws that a plan is checked against by default: plain optimality, or what its strategy promises instead."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoise.laws.check_owners import DEFAULT_LAWS
from counterpoise.model.problem import Problem

__all__ = ["counts_compared", "promised"]

_COOPERATIVE_LAWS = ("withheld", "added-and-revoked")
_BALANCED = ("sticky", "cooperative-sticky", "constrained-cooperative-sticky", "fair")


def promised(strategy: str, options: Mapping[str, object], problem: Problem) -> tuple[str, ...]:
    """The laws `verify` asks of a plan of this strategy by default.

    `lag-sticky` moves for lag on purpose and `sticky-first` gives up balance on purpose: they are checked for what they
    promise. Every other plan is checked for optimality, even if its strategy does not promise it. Without lag,
    `lag-sticky` is `sticky`.
    """
    if strategy == "sticky-first":
        return ("valid", "complete", "sticky-first", *_COOPERATIVE_LAWS)
    if strategy != "lag-sticky" or problem.lag is None:
        return DEFAULT_LAWS
    counts = "balanced" if counts_compared(strategy, options) == "balanced" else "counts"
    return ("valid", "complete", counts, "lag", *_COOPERATIVE_LAWS)


def counts_compared(strategy: str, options: Mapping[str, object]) -> str | int | None:
    """The plans that a lag bound compares this strategy's plan with, as `lag_report` takes them."""
    if strategy == "lag-sticky":
        counts = options.get("counts", "balanced")
        return max(counts, 0) if isinstance(counts, int) else "balanced"
    return "balanced" if strategy in _BALANCED else None
