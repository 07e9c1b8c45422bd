"""`sticky` and `cooperative-sticky` (KIP-54, KIP-341, KIP-429): optimal balance, then maximal stickiness."""

from __future__ import annotations

from types import MappingProxyType

from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Option, Strategy
from counterpoise.model.problem import Int32, Problem
from counterpoise.solver.engine import RackOrder, solve

__all__ = ["COOPERATIVE_STICKY", "RACKS", "STICKY", "sticky"]

RACKS = Option(
    "where rack matches stand: after stickiness, before it (balance always comes first), or left out",
    "after",
    ("after", "before", "ignore"),
)


def sticky(problem: Problem, *, racks: RackOrder = "after") -> Int32:
    """Target owners, int32[P]: see `counterpoise.solver.engine.solve` for the guarantee."""
    return solve(problem, racks=racks)


STICKY = Strategy(
    name="sticky",
    protocols=(EAGER,),
    kernel=sticky,
    guarantee="optimal balance, then maximal stickiness, then rack matches; any subscriptions",
    options=MappingProxyType({"racks": RACKS}),
)

COOPERATIVE_STICKY = Strategy(
    name="cooperative-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=sticky,
    guarantee="the target of sticky; partitions that change hands are withheld until revoked",
    options=MappingProxyType({"racks": RACKS}),
)
