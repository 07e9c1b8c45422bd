"""Rotations: several members over their lag limit brought under it along one circle, a move each, counts untouched.

A light partition of a member with room goes to the first, who passes a heavier one on to the second, and so on; the last
one's goes to the member with room. That is one move for each member relieved and one for the light partition, where an
exchange for each of them would take two.
"""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag_desk import Desk

_LIGHTS = 5
"""So many topic classes are tried for the light partition."""
_LONG = 4
"""A circle of so many moves is taken without trying another light partition."""
_NEXT = 12
"""So many of the members most over their limit are tried as the next link."""

__all__ = ["rotate"]


def rotate(desk: Desk) -> None:
    """Relieve members over their limit, by circles of two of them or more.

    Every circle brings each of its members under their limit and nobody above it. What it cannot help is left to exchanges.
    O(members over the limit) steps in Python.
    """
    over = np.flatnonzero(desk.load > desk.limit)
    waiting = over[np.argsort(-(desk.load[over] - desk.limit[over]), kind="stable")].tolist()
    room = desk.limit - desk.load
    if len(waiting) > 1:
        desk.hold_all()
    for roomy in np.argsort(-room, kind="stable").tolist():
        if len(waiting) < 2 or room[roomy] <= 0 or desk.moves_left < 3:
            break
        links: list[int] = []
        for light in _lights(desk, roomy):
            links = max(links, _circle(desk, roomy, light, waiting, int(room[roomy])), key=len)
            if len(links) >= _LONG:
                break
        if len(links) < 3:
            continue
        takers = [desk.owner[partition] for partition in (*links[1:], links[0])]
        for partition, taker in zip(links, takers, strict=True):
            desk.give(partition, int(taker))
        waiting = [member for member in waiting if desk.load[member] > desk.limit[member]]


def _lights(desk: Desk, roomy: int) -> list[int]:
    """The member's lightest partition of each of a few topic classes: what others may take of it differs by class."""
    mine = desk.items_of(roomy)
    first = np.sort(np.unique(desk.class_of[mine], return_index=True)[1])
    return [int(partition) for partition in mine[first[:_LIGHTS]]]


def _circle(desk: Desk, roomy: int, light: int, waiting: list[int], room: int) -> list[int]:
    """Partitions that move: the light one first, then one of each member relieved; the last goes to `roomy`."""
    links, left = [light], list(waiting)
    while left and len(links) < desk.moves_left:
        found = _next_link(desk, roomy, links[-1], left, int(desk.weight[light]) + room)
        if found is None:
            break
        partition, member = found
        links.append(partition)
        left.remove(member)
    return links


def _next_link(desk: Desk, roomy: int, carried: int, left: list[int], most: int) -> tuple[int, int] | None:
    """(partition, its owner) that goes on: the one that relieves its owner with the least to spare."""
    best: tuple[int, int, int] | None = None
    tried = 0
    for member in left:
        if tried >= _NEXT:
            break
        needed = int(desk.weight[carried]) + int(desk.load[member] - desk.limit[member])
        if needed > most or not desk.may[desk.class_of[carried], member]:
            continue
        tried += 1
        theirs = desk.items_of(member)
        at = int(np.searchsorted(desk.weight[theirs], needed))
        fitting = theirs[at:][desk.may[desk.class_of[theirs[at:]], roomy]]
        if len(fitting) and int(desk.weight[fitting[0]]) <= most:
            spare = int(desk.weight[fitting[0]]) - needed
            if best is None or spare < best[0]:
                best = (spare, int(fitting[0]), member)
    return None if best is None else (best[1], best[2])
