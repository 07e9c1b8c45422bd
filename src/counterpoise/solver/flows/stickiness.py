"""Stickiness: a minimum-cost flow inside each block, by the primal-dual method on integer costs.

Source -> kind -> member -> sink. A member's sink side has its base direct, and one unit more through a node its block shares,
whose capacity is the block's number of extras: so loads can only be the balanced ones. A unit is kept on an arc kind ->
member with capacity *claimed*, or goes kind -> camp -> member at the cost of a move. Units of a kind are interchangeable but
for their holder, so ``kept[m, kind] <= claimed[m, kind]`` is the only constraint that history adds.

The primal-dual method keeps all reduced costs non-negative (the potentials it ends with are the dual certificate), so when
everything is routed the cost is minimal. Each phase raises the potentials to the shortest distances and pushes a maximum flow
through the arcs of zero reduced cost; costs are 0 and 1 (or two integer levels with racks), so phases are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import Classes, sum_by
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs
from counterpoise.solver.flows.levels import Quotas
from counterpoise.solver.flows.transport import Deal, Start
from counterpoise.solver.history import Claims

__all__ = ["Costs", "reroute"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a unit costs, as integers.

    Attributes
    ----------
    kept : int64[K]
        Per cell of the history.
    moved : int64[K']
        Per link of the class network.
    """

    kept: Int64
    moved: Int64


def reroute(
    classes: Classes, claims: Claims, units: Int64, blocks: Blocks, shares: Quotas, costs: Costs, start: Start | None
) -> Deal:
    """The cheapest way to fill the balanced loads.

    Parameters
    ----------
    units : int64[C]
        Units of each kind; 0 leaves a kind out.
    start : Start, optional
        The closed-form optimum where kept units cost nothing: saves the first phase.
    """
    at_work = np.zeros(blocks.n_blocks + 1, np.bool_)
    at_work[blocks.of_kind[units > 0]] = True
    members = np.flatnonzero(at_work[blocks.of_member])
    sparing = members[shares.eligible[members]]
    kinds, hubs = np.flatnonzero(units), np.flatnonzero((shares.extras > 0) & at_work[:-1])
    cells = np.flatnonzero((units[claims.kind] > 0) & (blocks.of_kind[claims.kind] == blocks.of_member[claims.member]))
    same = blocks.of_kind[classes.link_kind] == blocks.of_camp[classes.link_camp]
    links = np.flatnonzero(same & (units[classes.link_kind] > 0))
    base = shares.base[members]
    arcs = Arcs(kind=classes.n_kinds, camp=classes.n_camps, member=len(classes.camp), hub=blocks.n_blocks)
    arcs.add("kinds", "source", ("kind", kinds), units[kinds])
    arcs.add("kept", ("kind", claims.kind[cells]), ("member", claims.member[cells]), claims.count[cells], costs.kept[cells])
    link_kind, link_camp = classes.link_kind[links], classes.link_camp[links]
    arcs.add("moved", ("kind", link_kind), ("camp", link_camp), units[link_kind], costs.moved[links])
    arcs.add("camps", ("camp", classes.camp[members]), ("member", members), base + shares.eligible[members])
    arcs.add("base", ("member", members), "sink", base)
    arcs.add("spare", ("member", sparing), ("hub", blocks.of_member[sparing]), np.ones(len(sparing), np.int64))
    arcs.add("extras", ("hub", hubs), "sink", shares.extras[hubs])
    network = arcs.build()
    if start is not None:
        kept = _first_claims(claims, cells, start.quota)
        total = sum_by(claims.member[cells], kept, len(classes.camp))
        above = np.maximum(total - shares.base, 0)
        network.of("kinds")[:] = sum_by(claims.kind[cells], kept, classes.n_kinds)[kinds]
        network.of("kept")[:] = kept
        network.of("base")[:] = (total - above)[members]
        network.of("spare")[:] = above[sparing]
        network.of("extras")[:] = sum_by(blocks.of_member[sparing], above[sparing], blocks.n_blocks)[hubs]
    network.push_cheaply(int(units.sum()))
    shed = claims.count.copy()
    shed[cells] -= network.of("kept")
    load = np.zeros(len(classes.camp), np.int64)
    load[members] = network.of("base")
    load[sparing] += network.of("spare")
    used = np.flatnonzero(network.of("moved"))
    nothing_short = np.zeros(blocks.n_blocks, np.bool_)
    return Deal(shed, load, link_kind[used], link_camp[used], network.of("moved")[used], nothing_short)


def _first_claims(claims: Claims, cells: Int64, quota: Int64) -> Int64:
    """How many claims of each cell fit when members keep their first kinds up to their quota."""
    count, member = claims.count[cells], claims.member[cells]
    order = np.argsort(member, kind="stable")
    count, member = count[order], member[order]
    before = np.cumsum(count) - count
    if len(before):
        before -= before[np.searchsorted(member, member)]
    kept = np.empty(len(cells), np.int64)
    kept[order] = np.clip(quota[member] - before, 0, count)
    return kept
