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

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int64
from counterpoise.solver.balance import Blocks
from counterpoise.solver.classes import Classes
from counterpoise.solver.flow import Arcs, Network
from counterpoise.solver.history import Claims, sum_by
from counterpoise.solver.levels import Quotas
from counterpoise.solver.transport import Deal, Start

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
        Units of each kind; 0 leaves a kind out (with its cells).
    start : Start, optional
        Closed-form optimum at cost 0, where kept units cost nothing: saves the first phase.
    """
    n_kinds, n_camps, n_members = classes.n_kinds, classes.n_camps, len(classes.camp)
    cells = np.flatnonzero(units[claims.kind] > 0) if len(claims.kind) else np.empty(0, np.int64)
    same = blocks.of_kind[classes.link_kind] == blocks.of_camp[classes.link_camp]
    cells = cells[blocks.of_kind[claims.kind[cells]] == blocks.of_member[claims.member[cells]]]
    links = np.flatnonzero(same & (units[classes.link_kind] > 0))
    active = np.zeros(blocks.n_blocks + 1, np.bool_)
    active[blocks.of_kind[units > 0]] = True
    members = np.flatnonzero(active[blocks.of_member])
    sparing = members[shares.eligible[members]]
    kinds = np.flatnonzero(units)
    hubs = np.flatnonzero((shares.extras > 0) & active[:-1])
    first_camp = 1 + n_kinds
    first_member = first_camp + n_camps
    first_hub = first_member + n_members
    sink = first_hub + blocks.n_blocks
    arcs = Arcs()
    arcs.add("kinds", 0, 1 + kinds)
    arcs.add("kept", 1 + claims.kind[cells], first_member + claims.member[cells])
    arcs.add("moved", 1 + classes.link_kind[links], first_camp + classes.link_camp[links])
    arcs.add("camps", first_camp + classes.camp[members], first_member + members)
    arcs.add("base", first_member + members, sink)
    arcs.add("spare", first_member + sparing, first_hub + blocks.of_member[sparing])
    arcs.add("extras", first_hub + hubs, sink)
    network = arcs.build(sink + 1)
    top = shares.base[members] + shares.eligible[members]
    capacity = np.concatenate(
        [units[kinds], claims.count[cells], units[classes.link_kind[links]], top, shares.base[members],
         np.ones(len(sparing), np.int64), shares.extras[hubs]]
    )  # fmt: skip
    cost = np.zeros(len(capacity), np.int64)
    cost[network.of("kept")] = costs.kept[cells]
    cost[network.of("moved")] = costs.moved[links]
    if start is not None:
        _preload(network, claims, blocks, shares, start, cells, members, sparing, kinds, hubs)
    _primal_dual(network, capacity, cost, int(units.sum()))
    kept = np.zeros(len(claims.count), np.int64)
    kept[cells] = network.flow[network.of("kept")]
    load = np.zeros(n_members, np.int64)
    load[members] = network.flow[network.of("base")]
    load[sparing] += network.flow[network.of("spare")]
    moved = network.flow[network.of("moved")]
    used = np.flatnonzero(moved)
    return Deal(
        claims.count - kept, load, classes.link_kind[links[used]], classes.link_camp[links[used]], moved[used],
        np.zeros(blocks.n_blocks, np.bool_),
    )  # fmt: skip


def _preload(
    network: Network, claims: Claims, blocks: Blocks, shares: Quotas, start: Start,
    cells: Int64, members: Int64, sparing: Int64, kinds: Int64, hubs: Int64,
) -> None:  # fmt: skip
    """Put the closed-form optimum at cost 0 on the network: each member keeps its first claims up to its quota."""
    count, member = claims.count[cells], claims.member[cells]
    order = np.argsort(member, kind="stable")
    before = np.cumsum(count[order]) - count[order]
    opening = np.searchsorted(member[order], member[order])
    before -= before[opening] if len(before) else 0
    kept = np.zeros(len(cells), np.int64)
    kept[order] = np.clip(start.quota[member[order]] - before, 0, count[order])
    total = sum_by(member, kept, len(start.quota))
    flow = network.flow
    flow[network.of("kept")] = kept
    flow[network.of("kinds")] = sum_by(claims.kind[cells], kept, int(blocks.of_kind.size))[kinds]
    flow[network.of("base")] = np.minimum(total, shares.base)[members]
    above = total - np.minimum(total, shares.base)
    flow[network.of("spare")] = above[sparing]
    flow[network.of("extras")] = sum_by(blocks.of_member[sparing], above[sparing], blocks.n_blocks)[hubs]


def _primal_dual(network: Network, capacity: Int64, cost: Int64, wanted: int) -> None:
    """Route `wanted` units from source to sink at the least cost, on top of a flow that is optimal for what it carries."""
    potential = np.zeros(network.n_nodes, np.int64)
    routed = int(network.flow[network.of("kinds")].sum())
    while routed < wanted:
        reduced = cost + potential[network.tail] - potential[network.head]
        potential += network.distances(capacity, reduced)
        reduced = cost + potential[network.tail] - potential[network.head]
        tight = reduced == 0
        gained = network.push(capacity, (tight, tight))
        if not gained:
            raise InvariantError(f"{wanted - routed} units do not fit a block that was proven feasible")
        routed += gained
