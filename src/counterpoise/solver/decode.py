"""Decode: from counts back to partitions, without a loop over partitions.

Sorting uses packed int64 keys and one `np.sort`, several times faster than an argsort of the same length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.solver.classes import Classes, ranges
from counterpoise.solver.history import Claims

MANY = 256
"""More values than so many are packed into 32 bits, where they fit."""

__all__ = ["ascending", "excess_claims", "fill", "give_up", "ranks_in_runs", "slots"]


def ranks_in_runs(run_length: Int64) -> Int64:
    """0, 1, .. within each run: ``[2, 3] -> [0, 1, 0, 1, 2]``; O(sum of lengths)."""
    ends = np.cumsum(run_length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - run_length, run_length)


def slots(need: Int64, level: Int64) -> Int32:
    """The order in which members take free units: the lowest level first, ties by member.

    Parameters
    ----------
    need : int64[M]
        Units each member takes.
    level : int64[M]
        Where each member starts: its load before the first of them, or 0 for plain turns.

    Returns
    -------
    int32[sum(need)]
        Member of each unit. O(K log K), or O(K) when all start at one level and need the same.
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


def excess_claims(cell: Int64, position: Int64, excess: Int64, *, spread: bool) -> Int64:
    """Which claims a cell gives up.

    A cell is a set of interchangeable claims (one member, one class of topics). With `spread`, what is given up is spaced
    evenly over the cell's claims in partition order, and cells one after another are shifted against each other: then it
    touches many topics a little, not one topic a lot. Without, the last claims go.

    Parameters
    ----------
    cell : int64[K]
        Cell of each claim that may go, 0..len(excess)-1.
    position : int64[K]
        Partition of each claim.
    excess : int64[cells]
        How many each cell gives up; at most as many as it has.

    Returns
    -------
    int64[sum(excess)]
        Partitions given up, grouped by cell.
    """
    if not len(cell):
        return np.empty(0, np.int64)
    width = int(position.max()) + 1
    key = cell * width + position
    key.sort()
    held = np.bincount(cell, minlength=len(excess))
    rank = ranks_in_runs(held)
    gone: npt.NDArray[np.bool_]
    if spread:
        phase = np.concatenate([[0], np.cumsum(excess)[:-1]]) % np.maximum(held, 1)
        upto = rank * np.repeat(excess, held) + np.repeat(phase, held)
        size = np.repeat(held, held)
        gone = (upto + np.repeat(excess, held)) // size > upto // size
    else:
        gone = rank >= np.repeat(held - excess, held)
    return key[gone] % width


def give_up(owner: Int32, claims: Claims, kind: Int32, shed: Int64, n_members: int) -> None:
    """Set the claims that cells give up to UNOWNED, in place (`owner` is the engine's own copy).

    Parameters
    ----------
    owner : int32[P]
        Valid claims; changed.
    claims : Claims
    kind : int32[P]
    shed : int64[K]
        How many claims each cell gives up.
    """
    cells = np.flatnonzero(shed)
    if not len(cells):
        return
    giver = np.zeros(n_members + 1, np.bool_)
    giver[claims.member[cells]] = True
    where = np.flatnonzero(giver[owner])
    keys = claims.kind[cells] * n_members + claims.member[cells]
    key = kind[where].astype(np.int64) * n_members + owner[where]
    cell = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    mine = keys[cell] == key
    owner[excess_claims(cell[mine], where[mine], shed[cells], spread=True)] = UNOWNED


def fill(owner: Int32, classes: Classes, kept: Int64, load: Int64, parcels: tuple[Int64, Int64, Int64]) -> None:
    """Give free partitions to the members that have room, in place.

    Parameters
    ----------
    owner : int32[P]
        Kept partitions; those of a kind that are UNOWNED are dealt.
    classes : Classes
    kept, load : int64[M]
        Units each member has, and is to have.
    parcels : (int64[X], int64[X], int64[X])
        Kind, camp and number: how many units of each kind go to the members of each camp.

    Notes
    -----
    Inside a camp, members take units in turns, the lowest load first, ties by id; kinds follow one another. Inside a kind,
    the camps' shares are interleaved in proportion, and partitions follow in order: so every topic is spread over all that
    take from its kind.
    """
    free = np.flatnonzero((owner < 0) & (classes.kind >= 0))
    if not len(free):
        return
    kind, camp, number = parcels
    in_turns = _turns(classes, kept, load)
    if int(number.sum()) != len(in_turns) or len(in_turns) != len(free):
        raise InvariantError(f"{len(free)} free partitions, {len(in_turns)} places, {int(number.sum())} units dealt")
    by_camp = ascending(camp * classes.n_kinds + kind)  # several times quicker than lexsort
    first = np.empty(len(kind), np.int64)
    first[by_camp] = np.cumsum(number[by_camp]) - number[by_camp]
    by_kind = ascending(kind * classes.n_camps + camp)
    kind, number = kind[by_kind], number[by_kind]
    takers = in_turns[ranges(first[by_kind], number)]
    _interleave(takers, kind, number, classes.n_kinds)
    free = free[ascending(classes.kind[free].astype(np.int64))]
    owner[free] = takers


def _turns(classes: Classes, kept: Int64, load: Int64) -> Int32:
    """Members by camp, each as often as it lacks units: the lowest load first, ties by id."""
    need = load - kept
    who = np.flatnonzero(need)
    count = need[who]
    if classes.n_camps == np.count_nonzero(classes.camp >= 0):  # every camp is one member
        return np.repeat(who.astype(np.int32), count)
    level = np.repeat(kept[who], count) + ranks_in_runs(count)
    level += np.repeat(classes.camp[who], count) * (int(level.max()) + 1)
    return np.repeat(who.astype(np.int32), count)[ascending(level)]


def _interleave(takers: Int32, kind: Int64, number: Int64, n_kinds: int) -> None:
    """Merge the parcels of each kind in proportion to their sizes, in place; parcels come sorted by kind."""
    shared = np.bincount(kind, minlength=n_kinds)[kind] > 1
    if not shared.any():
        return
    where = np.flatnonzero(np.repeat(shared, number)) if not shared.all() else slice(None)
    kind, number = kind[shared], number[shared]
    bits = int(takers.max()).bit_length()
    step = min(2**20, 2**62 // (n_kinds << bits))
    # Short integers divide several times quicker.
    fits: type = np.uint32 if 2 * int(number.max()) * step < 2**32 else np.int64
    parcel = np.repeat(np.arange(len(number)), number)
    rank = np.arange(len(parcel)) - (np.cumsum(number) - number)[parcel]
    place: npt.NDArray[np.integer] = ((2 * rank + 1) * step).astype(fits) // (2 * number).astype(fits)[parcel]
    key = (((kind * step)[parcel] + place) << bits) | takers[where]
    key.sort()
    takers[where] = key & ((1 << bits) - 1)
