"""Stickiness: a minimum-cost flow inside each block, by the primal-dual method on integer costs.

Source -> topic class -> member -> sink. A member's arc to the sink has the capacity of its floor; one unit more goes through
a node that its block shares and whose capacity is the number of ceiling slots. So only balanced loads are possible. A unit is
kept on an arc topic class -> member with capacity *claimed*, or goes topic class -> member class -> member at the cost of a
move. Units of a topic class differ only in their holder, so ``kept <= claimed`` for each pair of topic class and member is
the only constraint that history adds.

The primal-dual method (Ford & Fulkerson) keeps all reduced costs non-negative, so when everything is routed the cost is
minimal, and the last potentials are the dual certificate. Each phase raises the potentials to the shortest distances and
pushes a maximum flow through the arcs of reduced cost 0; costs are 0 and 1 (or two sizes with racks), so phases are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.claims import Claims
from counterpoise.solver.classes import Classes
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs, first_units
from counterpoise.solver.flows.quotas import Quotas
from counterpoise.solver.flows.transport import ClassAllocation, Start

__all__ = ["Costs", "reroute"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a unit costs, as integers."""

    kept: Int64  # int64[K]: per cell of the history
    moved: Int64  # int64[K']: per link of the class network


def reroute(
    classes: Classes,
    claims: Claims,
    units: Int64,  # int64[C]: units of each topic class; 0 leaves a topic class out
    blocks: Blocks,
    quotas: Quotas,
    costs: Costs,
    start: Start | None,  # The closed form, optimal if kept units cost nothing: saves the first phase
) -> ClassAllocation:
    """The cheapest way to fill the balanced loads."""
    at_work = np.zeros(blocks.n_blocks + 1, np.bool_)
    at_work[blocks.of_topic_class[units > 0]] = True
    members = np.flatnonzero(at_work[blocks.of_member])
    candidates = members[quotas.candidate[members]]
    topic_classes, hubs = np.flatnonzero(units), np.flatnonzero((quotas.ceiling_slots > 0) & at_work[:-1])
    cells = np.flatnonzero(
        (units[claims.topic_class] > 0) & (blocks.of_topic_class[claims.topic_class] == blocks.of_member[claims.member])
    )
    same = blocks.of_topic_class[classes.link_topic_class] == blocks.of_member_class[classes.link_member_class]
    links = np.flatnonzero(same & (units[classes.link_topic_class] > 0))
    floor, n = quotas.floor[members], len(classes.member_class)
    arcs = Arcs(topic_class=classes.n_topic_classes, member_class=classes.n_member_classes, member=n, hub=blocks.n_blocks)
    arcs.add("topic_classes", "source", ("topic_class", topic_classes), units[topic_classes])
    claimed_class, claimant = ("topic_class", claims.topic_class[cells]), ("member", claims.member[cells])
    arcs.add("kept", claimed_class, claimant, claims.count[cells], costs.kept[cells])
    link_topic_class, link_member_class = classes.link_topic_class[links], classes.link_member_class[links]
    ends = ("topic_class", link_topic_class), ("member_class", link_member_class)
    arcs.add("moved", *ends, units[link_topic_class], costs.moved[links])
    arcs.add(
        "member_classes", ("member_class", classes.member_class[members]), ("member", members), floor + quotas.candidate[members]
    )
    arcs.add("floor", ("member", members), "sink", floor)
    arcs.add("candidates", ("member", candidates), ("hub", blocks.of_member[candidates]), np.ones(len(candidates), np.int64))
    arcs.add("ceiling_slots", ("hub", hubs), "sink", quotas.ceiling_slots[hubs])
    network = arcs.build()
    if start is not None:
        network.start_with("kept", first_units(claims.member[cells], claims.count[cells], start.quota))
    network.push_cheaply(int(units.sum()))
    shed = claims.count.copy()
    shed[cells] -= network.of("kept")
    load = np.zeros(n, np.int64)
    load[members] = network.of("floor")
    load[candidates] += network.of("candidates")
    used = np.flatnonzero(network.of("moved"))
    nothing_short = np.zeros(blocks.n_blocks, np.bool_)
    return ClassAllocation(shed, load, link_topic_class[used], link_member_class[used], network.of("moved")[used], nothing_short)
