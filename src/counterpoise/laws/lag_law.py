"""The law of lag: no member above the proven bound by more than a tolerance; and figures that a plan carries are true."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.laws.certificate import balance_violation
from counterpoise.laws.lag_bound import lag_report
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.problem import UNOWNED, Int32, Problem
from counterpoise.snapshot.json_text import shown

__all__ = ["TOLERANCE", "carried_lag", "lag"]

TOLERANCE = 0.1
"""What a plan that names no tolerance of its own is held to: the default of `lag-sticky`."""


def lag(
    problem: Problem, owner: Int32, *, options: Mapping[str, object] | None = None, words: Words | None = None
) -> list[Violation]:
    """Law ``lag``: every member's lag is within the tolerance of what no plan can undercut.

    Parameters
    ----------
    owner : int32[P]
        A valid, complete plan.
    options : mapping, optional
        `tolerance` and `min_lag_gain` as in `lag-sticky`; default 0.1 and 0.

    Raises
    ------
    OptionError
        The group's lag is not known.

    Notes
    -----
    A balanced plan is compared with balanced plans, any other with all plans. Limits are rounded up to whole records.
    The bound may be too low, never too high: a plan that fails may still be the best there is, none that passes is
    worse than it says. Costs what `lag_report` costs, and a look for a better balance.
    """
    if problem.lag is None:
        raise OptionError("laws: 'lag' needs the lag of the group, and it is not known; put it into the snapshot")
    words = Words(problem) if words is None else words
    given = options or {}
    share = _number("tolerance", given.get("tolerance", TOLERANCE))
    gain = _number("min_lag_gain", given.get("min_lag_gain", 0))
    report = lag_report(problem, owner, counts="balanced" if _is_balanced(problem, owner, words) else None)
    behind = np.zeros(problem.n_members, np.int64)
    owned = owner != UNOWNED
    np.add.at(behind, owner[owned], problem.lag[owned])
    over = [
        (Fraction(load, capacity), member)
        for member, (load, capacity) in enumerate(zip(behind.tolist(), problem.capacity.tolist(), strict=True))
        if load > _up(report.bound * (1 + share) * capacity) and load > _up(report.bound * capacity) + gain
    ]
    if not over:
        return []
    _, worst = max(over, key=lambda each: (each[0], -each[1]))
    message = (
        f"{words.member(worst)} is {int(behind[worst])} records behind at capacity {int(problem.capacity[worst])}, "
        f"{report.gap:.1%} above the proven bound of {_words(report.bound)} per capacity; {float(share):.1%} are tolerated"
    )
    return [Violation("lag", message, len(over))]


def carried_lag(
    problem: Problem,
    owner: Int32,
    said: Mapping[str, Any] | None,
    true: Mapping[str, Any],
    words: Words,
) -> list[Violation]:
    """Figures that a plan carries, held against the same figures made afresh; both as `snapshot.plan.lag_figures`."""
    if true["counts"] == "balanced" and not _is_balanced(problem, owner, words):
        return [Violation("lag", "the plan is not balanced, and the bound it carries is one of balanced plans")]
    carried = true if said is None else said
    for name in (*true, *carried):
        if carried.get(name) != true.get(name):
            return [Violation("lag", f"the plan says {name} {shown(carried.get(name))} of its lag, but it is {true.get(name)!r}")]
    return []


def _is_balanced(problem: Problem, owner: Int32, words: Words) -> bool:
    return not balance_violation(problem, owner, None, words)


def _number(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise OptionError(f"the plan's option {name!r}: {value!r} is no number, 0 or more")
    return Fraction(str(value))


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _words(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.1f}"
