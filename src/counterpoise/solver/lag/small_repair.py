"""Small groups that all subscribe alike: `rotate` and `repair` in plain Python, on a `SmallDesk`.

The same steps in the same order, for one topic class at capacity 1 and without a cap on moves; a test holds them together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from counterpoise.solver.lag.circle import MANY, Circles
from counterpoise.solver.lag.descent import descend
from counterpoise.solver.lag.repair import PARTNERS, PARTNERS_AT_MOST, STEPS_PER_MEMBER, WORTH_WHILE
from counterpoise.solver.lag.rotate import HANDS, LONGEST, MISSES
from counterpoise.solver.lag.small import SmallDesk

__all__ = ["repair_small"]


def repair_small(desk: SmallDesk) -> None:
    """Bring members under the limit, worst first, until none is over or nothing helps any more."""
    over = [member for member, load in enumerate(desk.load) if load > desk.limit]
    if over:
        over.sort(key=desk.room)
        if len(over) > 1:
            desk.hold_all()
        _rotate(desk, over)
        _settle(desk)


def _rotate(desk: SmallDesk, waiting: list[int]) -> None:
    circles = Circles(desk, len(waiting) > MANY)
    waiting = _down(desk, circles, waiting)
    for trading, least in ((True, 1), (False, 2), (False, 1)):
        room = [desk.limit - load for load in desk.load]
        misses = 0
        for roomy in _falling(room):
            if not waiting or room[roomy] <= 0 or misses == MISSES:
                break
            misses += 1
            if trading and not any(desk.may_trade(member, roomy) for member in waiting):
                continue
            links, trades = circles.find(roomy, waiting, trading=trading)
            if len(links) - (trades < 0) >= min(least, len(waiting)):
                misses = 0
                changed = _turn(desk, roomy, links, trades)
                waiting = [member for member in waiting if member not in changed or desk.load[member] > desk.limit]


def _down(desk: SmallDesk, circles: Circles, waiting: list[int]) -> list[int]:
    room = [desk.limit - load for load in desk.load]
    widest, left = max(room), list(waiting)
    for member in waiting:
        pieces = circles.pieces(member, -room[member], widest)
        if pieces == 1:
            continue
        now = [desk.limit - load for load in desk.load]
        hands = _falling(now)[:HANDS]
        hands += sorted({desk.owner[at] for at in desk.falling[:HANDS]}.difference(hands))
        roomy = [one for one in hands if now[one] > 0]
        links = descend(desk, member, roomy, min(pieces or LONGEST, LONGEST))
        if links:
            _turn(desk, member, links, -1)
            left.remove(member)
    return left


def _falling(room: list[int]) -> list[int]:
    """Members with most room first, ties by member."""
    return sorted(range(len(room)), key=[-one for one in room].__getitem__)


def _turn(desk: SmallDesk, roomy: int, links: list[int], trades: int) -> list[int]:
    givers = [desk.owner[partition] for partition in links]
    for partition, taker in zip(links, [*givers[1:], roomy], strict=True):
        desk.give(partition, taker)
    if trades >= 0:
        desk.swap_bounds(trades, roomy)
    return [*givers, roomy]


def _settle(desk: SmallDesk) -> None:
    stuck = [False] * len(desk.load)
    helped = False
    for _ in range(STEPS_PER_MEMBER * len(desk.load)):
        worst, most = -1, desk.limit
        for member, load in enumerate(desk.load):
            if load > most and not stuck[member]:
                worst, most = member, load
        if worst < 0:
            if not helped or not any(stuck):
                return
            stuck, helped = [False] * len(stuck), False
            continue
        done = _hand_over(desk, worst) or _exchange(desk, worst)
        stuck[worst] = not done
        helped |= done


def _lagging(desk: SmallDesk, member: int) -> tuple[list[int], list[int]]:
    """What a member has that lags, lightest first."""
    items, weights = desk.listed(member)
    first = bisect_right(weights, 0)
    return items[first:], weights[first:]


def _hand_over(desk: SmallDesk, giver: int) -> bool:
    """One partition to a member with room: the lightest that suffices, else the heaviest that fits."""
    items, weights = _lagging(desk, giver)
    have, taker, widest = desk.count[giver], -1, 0
    spare = have > desk.least[giver]
    for member, count in enumerate(desk.count):
        if desk.limit - desk.load[member] > widest and (count == have - 1 or (spare and count < desk.most[member])):
            taker, widest = member, desk.limit - desk.load[member]
    fits = bisect_right(weights, widest)
    if taker < 0 or not fits:
        return False
    excess = -desk.room(giver)
    at = min(bisect_left(weights, excess), fits - 1)
    if not _worth_while(desk, weights[at], excess):
        return False
    traded = desk.count[taker] >= desk.most[taker] or not spare
    desk.give(items[at], taker)
    if traded:
        desk.swap_bounds(giver, taker)
    return True


def _exchange(desk: SmallDesk, giver: int) -> bool:
    """A heavier partition against a lighter one: by just what is needed, else by as much as possible."""
    items, weights = _lagging(desk, giver)
    if not items:
        return False
    excess = -desk.room(giver)
    room = [max(desk.limit - load, 0) for load in desk.load]
    best: tuple[int, int, int] | None = None
    for tried, partner in enumerate(_falling(room)[:PARTNERS_AT_MOST]):
        if not room[partner] or (tried >= PARTNERS and best and _worth_while(desk, best[0], excess)):
            break
        found = _best_pair(weights, desk.listed(partner)[1], excess, room[partner])
        if found and (best is None or found[0] > best[0]):
            best = found[0], items[found[1]], desk.listed(partner)[0][found[2]]
        if best and best[0] >= excess:
            break
    if best is None or not _worth_while(desk, best[0], excess):
        return False
    _, out, back = best
    partner = desk.owner[back]
    desk.give(out, partner)
    desk.give(back, giver)
    return True


def _worth_while(desk: SmallDesk, gain: int, excess: int) -> bool:
    return gain >= excess or gain * WORTH_WHILE >= desk.limit


def _best_pair(heavy: list[int], light: list[int], excess: int, room: int) -> tuple[int, int, int] | None:
    """(lag that goes over, which goes out, which comes back): the least that suffices, else the most that fits."""
    best: tuple[int, int, int] | None = None
    for back, weight in enumerate(light):
        out = min(bisect_left(heavy, weight + excess), len(heavy) - 1)
        gain = heavy[out] - weight
        if excess <= gain <= room and (best is None or gain < best[0]):
            best = gain, out, back
    if best is not None:
        return best
    most = min(excess, room)
    for back, weight in enumerate(light):
        out = bisect_right(heavy, weight + most) - 1
        gain = heavy[out] - weight if out >= 0 else 0
        if gain > 0 and (best is None or gain > best[0]):
            best = gain, out, back
    return best
