"""`sticky` and `cooperative-sticky` (KIP-54, KIP-341, KIP-429): optimal balance, then maximal stickiness."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Option, Strategy
from counterpoise.model.problem import Int32, Problem

if TYPE_CHECKING:
    from counterpoise.solver.engine import Evenness, RackOrder

__all__ = ["COOPERATIVE_STICKY", "OPTIONS", "STICKY", "sticky"]

OPTIONS = MappingProxyType(
    {
        "racks": Option(
            "where rack matches stand: after stickiness, before it (balance always comes first), or left out",
            "after",
            ("after", "before", "ignore"),
        ),
        "evenness": Option(
            "how even each topic is spread over members: near, by rule and fast, or exact, as far as the other aims allow",
            "near",
            ("near", "exact"),
        ),
    }
)


def sticky(problem: Problem, *, racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Target owners, int32[P]: see `counterpoise.solver.engine.solve` for the guarantee."""
    from counterpoise.solver.engine import solve

    return solve(problem, racks=racks, evenness=evenness)


STICKY = Strategy(
    name="sticky",
    protocols=(EAGER,),
    kernel=sticky,
    guarantee="optimal balance, then maximal stickiness, then rack matches; any subscriptions",
    options=OPTIONS,
    reads=frozenset({"previous_owner", "capacity", "racks"}),
)

COOPERATIVE_STICKY = Strategy(
    name="cooperative-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=sticky,
    guarantee="the target of sticky; partitions that change hands are withheld until revoked",
    options=OPTIONS,
    reads=frozenset({"previous_owner", "capacity", "racks"}),
)
