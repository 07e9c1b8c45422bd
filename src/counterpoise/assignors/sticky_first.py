"""`sticky-first` (KIP-54's "sticky yet fair"): no valid claim moves; the rest is as balanced as that allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoise.assignors.sticky import OPTIONS
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Strategy
from counterpoise.model.problem import Int32, Problem

if TYPE_CHECKING:
    from counterpoise.solver.engine import Evenness, RackOrder

__all__ = ["STICKY_FIRST", "sticky_first"]


def sticky_first(problem: Problem, *, racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Target owners, int32[P]: every partition with a valid claim stays; the others go where the loads end best balanced."""
    from counterpoise.solver.engine import solve

    return solve(problem, history="pin", racks=racks, evenness=evenness)


STICKY_FIRST = Strategy(
    name="sticky-first",
    protocols=(EAGER, COOPERATIVE),
    kernel=sticky_first,
    guarantee="valid claims never move; the rest is dealt with the best balance that allows",
    options=OPTIONS,
    reads=frozenset({"previous_owner", "capacity", "racks"}),
)
