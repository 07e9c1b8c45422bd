"""Decode: from counts back to partitions, without a loop over partitions.

Sorting uses packed int64 keys and one `np.sort`, several times faster than an argsort of the same length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.arrays import ranges, ranks_in_runs
from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.solver.claims import Claims
from counterpoise.solver.classes import Classes

MANY = 256
"""More values than so many are packed into 32 bits, where they fit."""

__all__ = ["ascending", "excess_claims", "fill", "give_up", "slots"]


def slots(
    need: Int64,  # int64[M]: units each member takes
    level: Int64,  # int64[M]: load of each member before the first of them, or 0 to take turns
) -> Int32:
    """The order in which members take free units: the least loaded first, ties by member.

    Returns the member of each unit, int32[sum(need)]. O(K log K), or O(K) when all start at one level and need the same.
    """
    takers = np.flatnonzero(need)
    if not len(takers):
        return np.empty(0, np.int32)
    counts = need[takers]
    first, most = int(counts[0]), int(counts.max())
    if most == 1 and len(takers) == 1:
        return takers.astype(np.int32)
    levels = level[takers]
    if bool((levels == levels[0]).all()) and bool((counts >= first).all()) and most - first <= 1:
        whole = np.tile(takers.astype(np.int32), first)
        return whole if most == first else np.concatenate([whole, takers[counts > first].astype(np.int32)])
    level_of_unit = np.repeat(levels, counts) + ranks_in_runs(counts)
    return np.repeat(takers.astype(np.int32), counts)[ascending(level_of_unit)]


def ascending(values: Int64) -> Int64:
    """The stable order that sorts values >= 0.

    Runs and 16-bit keys (radix sort) are much cheaper than a general argsort; else values are packed with their positions. In 32
    bits such numbers sort a few times faster than a radix sort finds the order of many.
    """
    n = len(values)
    if n < 2 or bool((values[1:] >= values[:-1]).all()):
        return np.arange(n)
    top, bits = int(values.max()), n.bit_length()
    if n > MANY and top.bit_length() + bits <= 32:
        short = values.astype(np.uint32) << np.uint32(bits)
        short |= np.arange(n, dtype=np.uint32)
        short.sort()
        short &= np.uint32((1 << bits) - 1)
        return short.astype(np.int64)
    if top < 2**16:
        return np.argsort(values.astype(np.uint16), kind="stable")
    if top >= 2**62 >> bits:
        return np.argsort(values, kind="stable")
    packed = (values << bits) | np.arange(n)
    packed.sort()
    return np.asarray(packed & ((1 << bits) - 1), np.int64)


def excess_claims(
    cell: Int64,  # int64[K]: cell of each claim that may go, 0..len(excess)-1
    position: Int64,  # int64[K]: partition of each claim
    excess: Int64,  # int64[cells]: how many each cell gives up; at most as many as it has
    *,
    spread: bool,
) -> Int64:
    """Which claims a cell gives up.

    A cell is a set of interchangeable claims (one member, one class of topics). With `spread`, what is given up is spaced
    evenly over the cell's claims in partition order, and cells one after another are shifted against each other: then it
    touches many topics a little, not one topic a lot. Without, the last claims go.

    Returns the partitions given up, int64[sum(excess)], grouped by cell.
    """
    if not len(cell):
        return np.empty(0, np.int64)
    width = int(position.max()) + 1
    key = cell * width + position
    key.sort()
    held = np.bincount(cell, minlength=len(excess))
    first, gone = np.cumsum(held) - held, np.cumsum(excess) - excess
    of = np.repeat(np.arange(len(excess)), excess)
    nth = ranks_in_runs(excess)
    if spread:  # the rank r at which (r + 1) * excess + phase reaches a further multiple of held
        phase = gone % np.maximum(held, 1)
        rank = ((nth + 1) * held[of] - phase[of] - 1) // excess[of]
    else:
        rank = (held - excess)[of] + nth
    return np.asarray(key[first[of] + rank] % width, np.int64)


def give_up(
    owner: Int32,  # int32[P]: valid claims; changed
    claims: Claims,
    topic_class: Int32,  # int32[P]
    shed: Int64,  # int64[K]: how many claims each cell gives up
    n_members: int,
) -> None:
    """Set the claims that cells give up to UNOWNED, in place (`owner` is the engine's own copy)."""
    cells = np.flatnonzero(shed)
    if not len(cells):
        return
    giver = np.zeros(n_members + 1, np.bool_)
    giver[claims.member[cells]] = True
    where = np.flatnonzero(giver[owner])
    keys = claims.topic_class[cells] * n_members + claims.member[cells]
    key = topic_class[where].astype(np.int64) * n_members + owner[where]
    cell = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    mine = keys[cell] == key
    owner[excess_claims(cell[mine], where[mine], shed[cells], spread=True)] = UNOWNED


def fill(
    owner: Int32,  # int32[P]: kept partitions; those of a topic class that are UNOWNED are assigned
    classes: Classes,
    # kept, load (int64[M]): units each member has, and is to have
    kept: Int64,
    load: Int64,
    # Topic class, member class and number, int64[X] each: how many units of the topic class go to members of the
    # member class
    shipments: tuple[Int64, Int64, Int64],
) -> None:
    """Give free partitions to the members that have slack, in place.

    Inside a member class the least loaded member is next, ties by id; topic classes follow one another. Inside a topic class the
    shares of the member classes are interleaved in proportion, and partitions follow in order: so every topic is spread over all
    members that take from its class.
    """
    free = np.flatnonzero((owner < 0) & (classes.topic_class >= 0))
    if not len(free):
        return
    topic_class, member_class, number = shipments
    takers_in_order = _least_loaded_order(classes, kept, load)
    if int(number.sum()) != len(takers_in_order) or len(takers_in_order) != len(free):
        raise InvariantError(f"{len(free)} free partitions, {len(takers_in_order)} places, {int(number.sum())} units assigned")
    by_member_class = ascending(member_class * classes.n_topic_classes + topic_class)  # several times quicker than lexsort
    first = np.empty(len(topic_class), np.int64)
    first[by_member_class] = np.cumsum(number[by_member_class]) - number[by_member_class]
    by_topic_class = ascending(topic_class * classes.n_member_classes + member_class)
    topic_class, number = topic_class[by_topic_class], number[by_topic_class]
    takers = takers_in_order[ranges(first[by_topic_class], number)]
    _interleave(takers, topic_class, number, classes.n_topic_classes)
    free = free[ascending(classes.topic_class[free].astype(np.int64))]
    owner[free] = takers


def _least_loaded_order(classes: Classes, kept: Int64, load: Int64) -> Int32:
    """Members by member class, each as often as it lacks units: the lowest load first, ties by id."""
    if classes.n_member_classes == np.count_nonzero(classes.member_class >= 0):  # every member class is one member
        return np.repeat(np.arange(len(load), dtype=np.int32), load - kept)
    takers = slots(load - kept, kept)
    return takers[ascending(classes.member_class[takers])]


def _interleave(takers: Int32, topic_class: Int64, number: Int64, n_topic_classes: int) -> None:
    """Merge the shipments of each topic class in proportion to their sizes, in place; they come sorted by topic class."""
    shared = np.bincount(topic_class, minlength=n_topic_classes)[topic_class] > 1
    if not shared.any():
        return
    where = np.flatnonzero(np.repeat(shared, number)) if not shared.all() else slice(None)
    topic_class, number = topic_class[shared], number[shared]
    bits = int(takers.max()).bit_length()
    step = min(2**20, 2**62 // (n_topic_classes << bits))
    # Short integers divide several times quicker.
    fits: type = np.uint32 if 2 * int(number.max()) * step < 2**32 else np.int64
    shipment = np.repeat(np.arange(len(number)), number)
    rank = np.arange(len(shipment)) - (np.cumsum(number) - number)[shipment]
    place: npt.NDArray[np.integer] = ((2 * rank + 1) * step).astype(fits) // (2 * number).astype(fits)[shipment]
    key = (((topic_class * step)[shipment] + place) << bits) | takers[where]
    key.sort()
    takers[where] = key & ((1 << bits) - 1)
