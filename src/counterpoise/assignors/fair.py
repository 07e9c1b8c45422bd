"""`fair` (KIP-49): optimal balance from an empty history."""

from __future__ import annotations

from types import MappingProxyType

from counterpoise.assignors.sticky import RACKS
from counterpoise.assignors.strategy import EAGER, Strategy
from counterpoise.model.problem import Int32, Problem
from counterpoise.solver.engine import RackOrder, solve

__all__ = ["FAIR", "fair"]


def fair(problem: Problem, *, racks: RackOrder = "after") -> Int32:
    """Target owners, int32[P]: `sticky` as if nobody had owned anything."""
    return solve(problem, history="ignore", racks=racks)


FAIR = Strategy(
    name="fair",
    protocols=(EAGER,),
    kernel=fair,
    guarantee="optimal balance, then rack matches, whatever was owned before",
    options=MappingProxyType({"racks": RACKS}),
)
