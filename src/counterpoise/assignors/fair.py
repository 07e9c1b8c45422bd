"""`fair` (KIP-49): optimal balance from an empty history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoise.assignors.sticky import OPTIONS
from counterpoise.assignors.strategy import EAGER, Strategy
from counterpoise.model.problem import Int32, Problem

if TYPE_CHECKING:
    from counterpoise.solver.engine import Evenness, RackOrder

__all__ = ["FAIR", "fair"]


def fair(problem: Problem, *, racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Target owners, int32[P]: `sticky` as if nobody had owned anything."""
    from counterpoise.solver.engine import solve

    return solve(problem, history="ignore", racks=racks, evenness=evenness)


FAIR = Strategy(
    name="fair",
    protocols=(EAGER,),
    kernel=fair,
    guarantee="optimal balance, then rack matches, whatever was owned before",
    options=OPTIONS,
    reads=frozenset({"capacity", "racks"}),
)
