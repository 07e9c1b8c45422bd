"""Transport: deal free units to members with room while everybody keeps the most that closed forms allow.

Inside a block the closed form says how many units each member may keep: its base, and one more for those with most claims.
What is missing is whether the rest fits: free units, and units given up by members above their quota, must reach members
below it. If they all do, the result is optimal without further proof: the loads are the balanced ones, and nobody keeps less
than a bound that holds for every plan. If not, `stickiness` reroutes what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import Classes, sum_by
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs, Bools, Network
from counterpoise.solver.flows.levels import Quotas
from counterpoise.solver.history import Claims

__all__ = ["Deal", "Start", "closed_form", "transport"]


@dataclass(frozen=True, slots=True)
class Start:
    """The closed-form start: what each member may keep, and what is left to deal.

    Attributes
    ----------
    free : int64[C]
        Units of each kind nobody may keep.
    excess, room : int64[M]
        Claims above the quota, and places below it. The quota is the base, and one more for those who take an extra to
        keep a claim.
    quota : int64[M]
    open_extra : bool[M]
        Who may still take an extra.
    extras : int64[B]
        Extras still to give in each block. Where there are any, nobody is above quota.
    """

    free: Int64
    excess: Int64
    room: Int64
    quota: Int64
    open_extra: Bools
    extras: Int64


@dataclass(frozen=True, slots=True)
class Deal:
    """Who keeps less, and who gets what.

    Attributes
    ----------
    shed : int64[K]
        Claims each cell of the history gives up.
    load : int64[M]
        Units each member ends with (offsets not counted).
    kind, camp, count : int64[X]
        Units of each kind that go to members of each camp; members of a camp fill up to their loads.
    short : bool[B]
        Blocks in which not everything fitted: nothing of theirs is meant.
    """

    shed: Int64
    load: Int64
    kind: Int64
    camp: Int64
    count: Int64
    short: Bools


def closed_form(classes: Classes, claims: Claims, units: Int64, blocks: Blocks, shares: Quotas) -> Start:
    """Extras to the members with most claims above their base (ties by id), as far as extras go; O(M log M)."""
    held = claims.per_member(len(classes.camp))
    surplus = held - shares.base
    keen = np.flatnonzero(shares.eligible & (surplus > 0))
    block = blocks.of_member[keen]
    order = np.lexsort((keen, -surplus[keen], block))
    keen, block = keen[order], block[order]
    taken = np.arange(len(keen)) - np.searchsorted(block, block) < shares.extras[block]
    quota = shares.base.copy()
    quota[keen[taken]] += 1
    extras = shares.extras - np.bincount(block[taken], minlength=blocks.n_blocks)
    open_extra = shares.eligible & np.concatenate([extras > 0, [False]])[blocks.of_member]
    open_extra[keen] = False
    excess, room = np.maximum(held - quota, 0), np.maximum(quota - held, 0)
    return Start(units - claims.per_kind(classes.n_kinds), excess, room, quota, open_extra, extras)


def transport(classes: Classes, claims: Claims, blocks: Blocks, start: Start) -> Deal:
    """Route all free and given-up units at once by max flow.

    At first links are capped near their proportional share, which keeps topics even, and extras are open to the first ids
    only. If not everything fits so, extras open to all; if still not, the caps fall.
    """
    givers = np.flatnonzero(start.excess)
    rank = np.zeros(len(start.excess), np.int64)
    rank[givers] = np.arange(len(givers))
    cells = np.flatnonzero(start.excess[claims.member] > 0)
    supply = start.free + sum_by(claims.kind[cells], claims.count[cells], classes.n_kinds)
    room = classes.per_camp(start.room)
    spare = classes.per_camp(start.open_extra)
    favoured = classes.per_camp(_first_ids(blocks.of_member, start.open_extra, start.extras))
    links = np.flatnonzero(
        (supply[classes.link_kind] > 0)
        & (room + spare > 0)[classes.link_camp]
        & (blocks.of_kind[classes.link_kind] == blocks.of_camp[classes.link_camp])
    )
    kind, camp = classes.link_kind[links], classes.link_camp[links]
    kinds, rooms, spares, hubs = (np.flatnonzero(values) for values in (start.free, room, spare, start.extras))
    arcs = Arcs(giver=len(givers), kind=classes.n_kinds, camp=classes.n_camps, hub=blocks.n_blocks)
    arcs.add("free", "source", ("kind", kinds), start.free[kinds])
    arcs.add("givers", "source", ("giver", rank[givers]), start.excess[givers])
    arcs.add("shed", ("giver", rank[claims.member[cells]]), ("kind", claims.kind[cells]), claims.count[cells])
    arcs.add("links", ("kind", kind), ("camp", camp), _even_share(supply, room + spare, kind, camp))
    arcs.add("room", ("camp", rooms), "sink", room[rooms])
    arcs.add("spare", ("camp", spares), ("hub", blocks.of_camp[spares]), favoured[spares])
    arcs.add("extras", ("hub", hubs), "sink", start.extras[hubs])
    network = arcs.build()
    left = int(start.free.sum() + start.excess.sum()) - network.push()
    if left and len(spares):
        network.widen("spare", spare[spares])
        left -= network.push()
    if left:
        network.widen("links", supply[kind])
        network.push()
    shed = np.zeros(len(claims.count), np.int64)
    shed[cells] = network.of("shed")
    extra = np.zeros(classes.n_camps, np.int64)
    extra[spares] = network.of("spare")
    load = start.quota + _first_ids(classes.camp, start.open_extra, extra)
    used = np.flatnonzero(network.of("links"))
    return Deal(shed, load, kind[used], camp[used], network.of("links")[used], _short(network, blocks, start, kinds, givers))


def _short(network: Network, blocks: Blocks, start: Start, kinds: Int64, givers: Int64) -> Bools:
    left = sum_by(blocks.of_kind[kinds], start.free[kinds] - network.of("free"), blocks.n_blocks)
    left += sum_by(blocks.of_member[givers], start.excess[givers] - network.of("givers"), blocks.n_blocks)
    return left > 0


def _first_ids(part: Int64, candidate: Bools, wanted: Int64) -> Bools:
    """The first wanted[p] candidates, by id, of each part p; `part` tells each member's part, -1 for none."""
    who = np.flatnonzero(candidate & (part >= 0))
    order = np.argsort(part[who], kind="stable")
    who = who[order]
    rank = np.arange(len(who)) - np.searchsorted(part[who], part[who])
    chosen = np.zeros(len(part), np.bool_)
    chosen[who[rank < wanted[part[who]]]] = True
    return chosen


def _even_share(supply: Int64, demand: Int64, link_kind: Int64, link_camp: Int64) -> Int64:
    """A cap per link near its proportional share, from the kind's view and from the camp's, whichever is less; at least 1."""
    by_kind = sum_by(link_kind, demand[link_camp], len(supply))
    by_camp = sum_by(link_camp, supply[link_kind], len(demand))
    product = supply[link_kind] * demand[link_camp]
    return np.asarray(np.minimum(-(-product // by_kind[link_kind]), -(-product // by_camp[link_camp])), np.int64)
