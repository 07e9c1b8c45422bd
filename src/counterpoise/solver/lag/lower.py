"""Lower: where the limits are out of reach, the repair again with limits between them and the largest lag at hand."""

from __future__ import annotations

from fractions import Fraction

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.repair import repair

_HALVINGS = 3
"""Limits are tried half of the way down, then a quarter, and so on; the last one is just below what there is."""
_ROUNDS = 64
_NEAR = 100
"""Who is above its limit by no more than this part of it is near enough."""
_FEW = 100
"""With more partitions the repair comes near enough by itself, and to try that hard would take seconds."""

__all__ = ["lower", "worst_of"]


def lower(desk: Desk) -> Desk:
    """`desk`, or one that lies nearer to its limits.

    The repair brings nobody above a limit, so what would suffice for one member and take another a little beyond is out of its
    reach: with capacities the one may be weak and the other strong. The outcome is lowered no further by the same means,
    so planning again moves nothing.
    """
    best = desk
    for _ in range(_ROUNDS if len(desk.weight) <= _FEW else 0):
        nearer = _nearer(best) if (best.load - best.limit > best.limit // _NEAR).any() else None
        if nearer is None:
            break
        best = nearer
    return best


def _nearer(desk: Desk) -> Desk | None:
    for limit in _between(desk):
        near = desk.saved()
        near.limit = limit
        repair(near)
        if not near.excess():
            near.limit = desk.limit
            repair(near)  # others than the worst
            return near
    return None


def _between(desk: Desk) -> list[Int64]:
    """Limits for everybody that the worst member is above, those nearest to its own first."""
    top, bottom = worst_of(desk).as_integer_ratio()
    below = desk.limit.copy()
    below[:] = [-(-top * c // bottom) - 1 for c in desk.capacity.tolist()]
    way = (below - desk.limit).clip(0)
    return [desk.limit + way - (way >> halvings) for halvings in range(1, _HALVINGS + 1)] + [desk.limit + way]


def worst_of(desk: Desk) -> Fraction:
    """The largest lag per capacity."""
    return max(Fraction(lag, c) for lag, c in zip(desk.load.tolist(), desk.capacity.tolist(), strict=True))
