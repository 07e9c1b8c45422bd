"""`lag-sticky` for small groups in which all subscribe alike: the same plans, in plain Python."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.equal_small import is_small, small_quotas
from counterpoise.solver.lag.near import AT_MOST, WIDTHS
from counterpoise.solver.lag.small import SmallDesk, deal_as_before, deal_waiting, keep_quotas
from counterpoise.solver.lag.small_repair import repair_small

__all__ = ["plan_small"]

_EXACT = 2**52
"""Lags that sum up to less are compared alike as integers and as the floats of the array steps."""


def plan_small(problem: Problem, lag: Int64, share: Fraction, gain: int) -> Int32 | None:
    """Owners as `lag-sticky` gives them with balanced counts and no cap on moves; None for groups this is not made for.

    Parameters
    ----------
    problem : Problem
    lag : int64[P]
        Not all zero.
    share, gain
        Tolerance and least gain, as `balance_lag` takes them.
    """
    if not is_small(problem) or any(begin == end for begin, end in pairwise(problem.topic_start.tolist())):
        return None
    weight: list[int] = lag.tolist()
    total, top, bottom = sum(weight), *share.as_integer_ratio()
    if total * (top + bottom) >= _EXACT * bottom:
        return None
    n, size = problem.n_members, problem.n_partitions
    falling = sorted(range(size), key=[-one for one in weight].__getitem__)
    crowd = _crowding([weight[at] for at in falling], n, size // n)
    over, under = (total, n) if total >= crowd * n else (crowd, 1)  # the bound, as a fraction
    limit = max(-(-over * (bottom + top) // (under * bottom)), -(-over // under) + gain)
    owner, load, count = [UNOWNED] * size, [0] * n, [0] * n
    for at, member in enumerate(problem.previous_owner.tolist()):
        if 0 <= member < n:
            owner[at] = member
            load[member] += weight[at]
            count[member] += 1
    quota = small_quotas(count, size)
    desk = SmallDesk(weight, falling, total // n, limit, owner, load, count)
    _attempt(desk, quota)
    if desk.excess():
        desk = _better(desk, quota, max(Fraction(over, under) * share, Fraction(gain)))
    return np.array(desk.owner, np.int32)


def _attempt(desk: SmallDesk, quota: list[int]) -> None:
    keep_quotas(desk, quota)
    deal_waiting(desk)
    repair_small(desk)


def _better(desk: SmallDesk, quota: list[int], slack: Fraction) -> SmallDesk:
    """What meets the limit near `desk`; else a plan that keeps nothing, if `desk` is worse by `slack`."""
    near = _near(desk)
    if near is not None:
        return near
    n, size = len(desk.load), len(desk.owner)
    rival = SmallDesk(desk.weight, desk.falling, desk.goal, desk.limit, [UNOWNED] * size, [0] * n, [0] * n)
    _attempt(rival, quota)
    if max(rival.load) + slack >= max(desk.load):
        return desk
    return (_near(rival) if rival.excess() else None) or rival


def _near(desk: SmallDesk) -> SmallDesk | None:
    """As `near.settle_near`: members over the limit and a few others put everything on the table and deal it anew."""
    room = [desk.limit - load for load in desk.load]
    over = [member for member, left in enumerate(room) if left < 0]
    over.sort(key=room.__getitem__)
    for width in WIDTHS:
        chosen = set(over)
        for _ in over:
            able = [member for member, left in enumerate(room) if left > 0 and member not in chosen]
            able.sort(key=lambda member: -room[member])
            chosen.update(able[:width])
        if len(chosen) * AT_MOST > len(room):
            return None
        near = desk.saved()
        near.release([at for at, member in enumerate(desk.owner) if member in chosen])
        deal_as_before(near, desk.owner)
        repair_small(near)
        if not near.excess():
            return near
    return None


def _crowding(falling: list[int], n: int, least: int) -> int:
    """As `lag_alike` finds it: what the owner of the heaviest, and of the lightest of some of the heaviest, bears at least."""
    most = 0
    for k in range((len(falling) - 1) // n + 1):
        filling = max(least - k - 1, 0)
        light = sum(falling[len(falling) - filling :])
        most = max(most, sum(falling[k * n - k : k * n + 1]) + light)
    return most
