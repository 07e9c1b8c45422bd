"""Transport: free units go to members with slack while everybody keeps the most that a closed form allows.

Inside a block the closed form says how many units each member may keep: its floor, and one more for those with most claims. A
maximum flow decides whether the rest fits: free units, and units given up by members above their quota, must reach members
below it. If they all do, the result is optimal without further proof: the loads are balanced, and nobody keeps less than a
bound that holds for every plan. If not, `stickiness` reroutes what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.claims import Claims
from counterpoise.solver.classes import Classes, sum_by
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs, Bools, first_units
from counterpoise.solver.flows.quotas import Quotas

__all__ = ["ClassAllocation", "Start", "closed_form", "transport"]


@dataclass(frozen=True, slots=True)
class Start:
    """The closed form: what each member may keep, and what is left to assign."""

    free: Int64  # int64[C]: units of each topic class nobody may keep
    # excess, slack (int64[M]): claims above the quota, and places below it. The quota is the floor, and one more for members that
    # take a ceiling slot to keep a claim.
    excess: Int64
    slack: Int64
    quota: Int64  # int64[M]
    open_candidate: Bools  # bool[M]: who may still take a ceiling slot
    ceiling_slots: Int64  # int64[B]: ceiling slots still to give in each block. If there are any, nobody is above quota.


@dataclass(frozen=True, slots=True)
class ClassAllocation:
    """Claims given up, final loads, and units by topic class and member class."""

    shed: Int64  # int64[K]: claims each cell of the history gives up
    load: Int64  # int64[M]: units each member ends with, without pinned ones
    # topic_class, member_class, count (int64[X]): units of each topic class that go to members of each member class; members of a
    # member class fill up to their loads
    topic_class: Int64
    member_class: Int64
    count: Int64
    short: Bools  # bool[B]: blocks in which not everything fits; entries of theirs mean nothing


def closed_form(classes: Classes, claims: Claims, units: Int64, blocks: Blocks, quotas: Quotas) -> Start:
    """Ceiling slots to the members with most claims above their floor (ties by id), as far as ceiling slots go; O(M log M)."""
    held = claims.per_member(len(classes.member_class))
    surplus = held - quotas.floor
    claiming = np.flatnonzero(quotas.candidate & (surplus > 0))
    claiming = claiming[np.argsort(-surplus[claiming], kind="stable")]
    block, quota = blocks.of_member[claiming], quotas.floor.copy()
    taken = first_units(block, np.ones(len(block), np.int64), quotas.ceiling_slots)
    quota[claiming] += taken
    ceiling_slots = quotas.ceiling_slots - sum_by(block, taken, blocks.n_blocks)
    open_candidate = quotas.candidate & np.concatenate([ceiling_slots > 0, [False]])[blocks.of_member]
    open_candidate[claiming] = False
    excess, slack = np.maximum(held - quota, 0), np.maximum(quota - held, 0)
    return Start(units - claims.per_topic_class(classes.n_topic_classes), excess, slack, quota, open_candidate, ceiling_slots)


def transport(classes: Classes, claims: Claims, blocks: Blocks, start: Start) -> ClassAllocation:
    """Route all free and given-up units at once by max flow.

    Three attempts on top of one flow: links capped near their proportional share, which keeps topics even, and ceiling slots
    for the lowest ids only; then ceiling slots for all candidates; then no caps.
    """
    givers = np.flatnonzero(start.excess)
    cells = np.flatnonzero(start.excess[claims.member] > 0)
    supply = start.free + sum_by(claims.topic_class[cells], claims.count[cells], classes.n_topic_classes)
    slack = classes.per_member_class(start.slack)
    candidate = start.open_candidate.astype(np.int64)
    ceiling = classes.per_member_class(candidate)
    first_ceiling = classes.per_member_class(first_units(blocks.of_member, candidate, start.ceiling_slots))
    links = np.flatnonzero(
        (supply[classes.link_topic_class] > 0)
        & (slack + ceiling > 0)[classes.link_member_class]
        & (blocks.of_topic_class[classes.link_topic_class] == blocks.of_member_class[classes.link_member_class])
    )
    topic_class, member_class = classes.link_topic_class[links], classes.link_member_class[links]
    topic_classes, hubs = np.flatnonzero(start.free), np.flatnonzero(start.ceiling_slots)
    below, candidates = np.flatnonzero(slack), np.flatnonzero(ceiling)
    arcs = Arcs(
        giver=len(givers), topic_class=classes.n_topic_classes, member_class=classes.n_member_classes, hub=blocks.n_blocks
    )
    arcs.add("free", "source", ("topic_class", topic_classes), start.free[topic_classes])
    arcs.add("givers", "source", ("giver", np.arange(len(givers))), start.excess[givers])
    giver = np.searchsorted(givers, claims.member[cells])
    arcs.add("shed", ("giver", giver), ("topic_class", claims.topic_class[cells]), claims.count[cells])
    arcs.add(
        "links",
        ("topic_class", topic_class),
        ("member_class", member_class),
        _even_share(supply, slack + ceiling, topic_class, member_class),
    )
    arcs.add("slack", ("member_class", below), "sink", slack[below])
    arcs.add("candidates", ("member_class", candidates), ("hub", blocks.of_member_class[candidates]), first_ceiling[candidates])
    arcs.add("ceiling_slots", ("hub", hubs), "sink", start.ceiling_slots[hubs])
    network = arcs.build()
    left = int(start.free.sum() + start.excess.sum()) - network.push()
    if left and len(candidates):
        network.widen("candidates", ceiling[candidates])
        left -= network.push()
    if left:
        network.widen("links", supply[topic_class])
        network.push()
    shed = np.zeros(len(claims.count), np.int64)
    shed[cells] = network.of("shed")
    at_ceiling = np.zeros(classes.n_member_classes, np.int64)
    at_ceiling[candidates] = network.of("candidates")
    load = start.quota + first_units(classes.member_class, candidate, at_ceiling)
    used = np.flatnonzero(network.of("links"))
    unmet = sum_by(blocks.of_topic_class[topic_classes], start.free[topic_classes] - network.of("free"), blocks.n_blocks)
    unmet += sum_by(blocks.of_member[givers], start.excess[givers] - network.of("givers"), blocks.n_blocks)
    return ClassAllocation(shed, load, topic_class[used], member_class[used], network.of("links")[used], unmet > 0)


def _even_share(supply: Int64, demand: Int64, link_topic_class: Int64, link_member_class: Int64) -> Int64:
    """A cap per link: its proportional share of the topic class or of the member class, the lesser, rounded up."""
    by_topic_class = sum_by(link_topic_class, demand[link_member_class], len(supply))
    by_member_class = sum_by(link_member_class, supply[link_topic_class], len(demand))
    product = supply[link_topic_class] * demand[link_member_class]
    return np.asarray(
        np.minimum(-(-product // by_topic_class[link_topic_class]), -(-product // by_member_class[link_member_class])), np.int64
    )
