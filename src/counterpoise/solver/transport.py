"""Transport: deal free units to members with room while everybody else keeps the most that closed forms allow.

Inside a block the closed form says how many units each member may keep (`equal.member_quotas`). What is missing is whether
the rest fits: free units, and units given up by members above their quota, must reach members below it. If they all do, the
result is optimal without further proof: the loads are the balanced ones, and nobody keeps less than a bound that holds for
every plan. If not, `stickiness` reroutes what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.balance import Blocks
from counterpoise.solver.classes import Classes
from counterpoise.solver.flow import Arcs, Bools
from counterpoise.solver.history import Claims, sum_by
from counterpoise.solver.levels import Quotas

__all__ = ["Deal", "Start", "closed_form", "transport"]


@dataclass(frozen=True, slots=True)
class Start:
    """The closed-form start: what each member may keep, and what is left to deal.

    Attributes
    ----------
    held : int64[M]
        Valid claims.
    quota : int64[M]
        Base, and one more for those who take an extra to keep a claim.
    open_extra : bool[M]
        Who may still take an extra.
    extras : int64[B]
        Extras still to give in each block. Where there are any, nobody is above quota.
    free : int64[C]
        Units of each kind nobody may keep.
    """

    held: Int64
    quota: Int64
    open_extra: Bools
    extras: Int64
    free: Int64


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
    n_members = len(classes.camp)
    held = claims.per_member(n_members)
    surplus = held - shares.base
    keen = np.flatnonzero(shares.eligible & (surplus > 0))
    block = blocks.of_member[keen]
    order = np.lexsort((keen, -surplus[keen], block))
    keen, block = keen[order], block[order]
    rank = np.arange(len(keen)) - np.searchsorted(block, block)
    taken = rank < shares.extras[block]
    quota = shares.base.copy()
    quota[keen[taken]] += 1
    extras = shares.extras - np.bincount(block[taken], minlength=blocks.n_blocks)
    open_extra = shares.eligible & (extras > 0)[blocks.of_member]
    open_extra[keen] = False
    return Start(held, quota, open_extra, extras, units - claims.per_kind(classes.n_kinds))


def transport(classes: Classes, claims: Claims, blocks: Blocks, start: Start) -> Deal:
    """Route all free and given-up units at once by max flow, at first with a cap per kind and camp that keeps topics even."""
    n_kinds, n_camps, n_members = classes.n_kinds, classes.n_camps, len(classes.camp)
    excess = np.maximum(start.held - start.quota, 0)
    taking = np.flatnonzero(classes.camp >= 0)
    room = sum_by(classes.camp[taking], np.maximum(start.quota - start.held, 0)[taking], n_camps)
    spare = sum_by(classes.camp[taking], start.open_extra[taking].astype(np.int64), n_camps)
    givers = np.flatnonzero(excess)
    node_of_giver = np.full(n_members, -1, np.int64)
    node_of_giver[givers] = 1 + np.arange(len(givers))
    cells = np.flatnonzero(node_of_giver[claims.member] > 0)
    supply = start.free + sum_by(claims.kind[cells], claims.count[cells], n_kinds)
    kinds = np.flatnonzero(start.free)
    rooms, spares = np.flatnonzero(room), np.flatnonzero(spare)
    hubs = np.flatnonzero(start.extras)
    open_link = (supply[classes.link_kind] > 0) & (room + spare > 0)[classes.link_camp]
    open_link &= blocks.of_kind[classes.link_kind] == blocks.of_camp[classes.link_camp]
    links = np.flatnonzero(open_link)
    link_kind, link_camp = classes.link_kind[links], classes.link_camp[links]
    first_kind = 1 + len(givers)
    first_camp = first_kind + n_kinds
    first_hub = first_camp + n_camps
    sink = first_hub + blocks.n_blocks
    arcs = Arcs()
    arcs.add("free", 0, first_kind + kinds)
    arcs.add("givers", 0, 1 + np.arange(len(givers)))
    arcs.add("shed", node_of_giver[claims.member[cells]], first_kind + claims.kind[cells])
    arcs.add("links", first_kind + link_kind, first_camp + link_camp)
    arcs.add("room", first_camp + rooms, sink)
    arcs.add("spare", first_camp + spares, first_hub + blocks.of_camp[spares])
    arcs.add("extras", first_hub + hubs, sink)
    network = arcs.build(sink + 1)
    even = _even_share(supply, room + spare, link_kind, link_camp)
    parts = [start.free[kinds], excess[givers], claims.count[cells], even, room[rooms], spare[spares], start.extras[hubs]]
    capacity = np.concatenate(parts)
    wanted = int(start.free.sum() + excess.sum())
    if network.push(capacity) < wanted:
        capacity[network.of("links")] = supply[link_kind]
        network.push(capacity)
    flow = network.flow
    sent = sum_by(blocks.of_kind[kinds], flow[network.of("free")], blocks.n_blocks)
    sent += sum_by(blocks.of_member[givers], flow[network.of("givers")], blocks.n_blocks)
    due = sum_by(blocks.of_kind, start.free, blocks.n_blocks) + sum_by(blocks.of_member[givers], excess[givers], blocks.n_blocks)
    shed = np.zeros(len(claims.count), np.int64)
    shed[cells] = flow[network.of("shed")]
    extra = np.zeros(n_camps, np.int64)
    extra[spares] = flow[network.of("spare")]
    used = np.flatnonzero(flow[network.of("links")])
    load = start.quota + first_in_camp(classes, start.open_extra, extra)
    return Deal(shed, load, link_kind[used], link_camp[used], flow[network.of("links")][used], sent < due)


def first_in_camp(classes: Classes, candidate: Bools, wanted: Int64) -> Int64:
    """1 for the first wanted[g] candidates (by id) of each camp g, int64[M]."""
    who = np.flatnonzero(candidate & (classes.camp >= 0))
    camp = classes.camp[who]
    order = np.argsort(camp, kind="stable")
    who, camp = who[order], camp[order]
    rank = np.arange(len(who)) - np.searchsorted(camp, camp)
    chosen = np.zeros(len(classes.camp), np.int64)
    chosen[who[rank < wanted[camp]]] = 1
    return chosen


def _even_share(supply: Int64, demand: Int64, link_kind: Int64, link_camp: Int64) -> Int64:
    """A cap per link near its proportional share, from the kind's view and from the camp's, whichever is less; at least 1."""
    by_kind = sum_by(link_kind, demand[link_camp], len(supply))
    by_camp = sum_by(link_camp, supply[link_kind], len(demand))
    product = supply[link_kind] * demand[link_camp]
    return np.asarray(np.minimum(-(-product // by_kind[link_kind]), -(-product // by_camp[link_camp])), np.int64)
