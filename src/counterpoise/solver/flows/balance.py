"""Balance: the canonical decomposition of a group into blocks of members that can trade units freely.

A load vector is decreasingly minimal iff for every level v the sum of min(load, v) equals the maximum flow with member
capacities v (Harvey, Ladner, Lovász, Tamir, *Semi-matchings for bipartite graphs and load balancing*; Frank & Murota,
*Decreasing minimization on M-convex sets*). If the flow at v falls short, let S be what the source still reaches in the
residual network. The topic classes in S have all their subscribers in S, so by complementary slackness every optimum has loads
of at least v inside S and at most v outside, and no unit of a topic class outside S goes to a member inside. The two sides are
independent in *every* optimum, whatever was owned before: Fujishige's decomposition, by divide and conquer. All blocks of one
depth share one flow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import Classes, sum_by
from counterpoise.solver.flows.flow import Arcs, Bools, first_units
from counterpoise.solver.flows.quotas import Capacities, Quotas, quotas_of

__all__ = ["Blocks", "decompose", "plausible", "single_block"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A split of the class network."""

    of_topic_class: Int64  # int64[C]
    of_member_class: Int64  # int64[G]
    of_member: Int64  # int64[M]: block of each; -1 for a member that takes no part
    units: Int64  # int64[B]: units to assign in each block

    @property
    def n_blocks(self) -> int:
        """B."""
        return len(self.units)


def single_block(classes: Classes, units: Int64) -> Blocks:
    """All members in one block: the true one if a flow takes all units."""
    return _blocks(classes, np.zeros(classes.n_topic_classes, np.int64), np.zeros(classes.n_member_classes, np.int64), 1, units)


def plausible(classes: Classes, units: Int64, quotas: Quotas) -> bool:
    """Whether sums do not rule out one block: every member class sees enough units, every topic class enough places; O(links)."""
    floor, places = classes.per_member_class(quotas.floor), classes.per_member_class(quotas.floor + quotas.candidate)
    seen = sum_by(classes.link_member_class, units[classes.link_topic_class], classes.n_member_classes)
    open_to = sum_by(classes.link_topic_class, places[classes.link_member_class], classes.n_topic_classes)
    return bool((seen >= floor).all() and (open_to >= units).all())


def decompose(
    classes: Classes,
    units: Int64,  # int64[C]: units of each topic class to assign
    capacities: Capacities,
    flow: Int64,  # int64[K]: where flows start, at most `units` of each topic class; changed. The blocks do not depend on it.
) -> tuple[Blocks, Quotas]:
    """Split topic classes and member classes into blocks in which the quotas are feasible; the blocks and their quotas.

    One maximum flow per depth of the split; the edges left shrink with every depth. A block is final when its quotas (the floor
    of each member, ceiling slots through a shared node) take all its units. Otherwise the minimum cut splits it.
    """
    of_topic_class = np.zeros(classes.n_topic_classes, np.int64)
    of_member_class = np.zeros(classes.n_member_classes, np.int64)
    n_blocks, open_blocks = 1, np.ones(1, np.bool_)
    while open_blocks.any():
        blocks = _blocks(classes, of_topic_class, of_member_class, n_blocks, units)
        quotas = quotas_of(blocks.units, blocks.of_member, capacities)
        short, topic_reached, member_reached = _cut(classes, units, blocks, quotas, open_blocks, flow)
        number = np.full(n_blocks, -1, np.int64)
        number[short] = n_blocks + np.arange(len(short))
        of_topic_class = np.where(topic_reached, number[of_topic_class], of_topic_class)
        of_member_class = np.where(member_reached, number[of_member_class], of_member_class)
        open_blocks = np.zeros(n_blocks + len(short), np.bool_)
        open_blocks[short] = True
        open_blocks[n_blocks:] = True
        n_blocks += len(short)
    return blocks, quotas


def _blocks(classes: Classes, of_topic_class: Int64, of_member_class: Int64, n_blocks: int, units: Int64) -> Blocks:
    of_member = np.concatenate([of_member_class, [-1]])[classes.member_class]
    return Blocks(of_topic_class, of_member_class, of_member, sum_by(of_topic_class, units, n_blocks))


def _cut(
    classes: Classes, units: Int64, blocks: Blocks, quotas: Quotas, open_blocks: Bools, flow: Int64
) -> tuple[Int64, Bools, Bools]:
    """Blocks whose units do not all fit; topic classes and member classes on the source side of their minimum cuts.

    The flow starts from `flow`, as far as the quotas allow, and is written there for the next cut.
    """
    floor, ceiling = classes.per_member_class(quotas.floor), classes.per_member_class(quotas.candidate)
    topic_classes = np.flatnonzero(open_blocks[blocks.of_topic_class] & (units > 0))
    member_classes = np.flatnonzero(open_blocks[blocks.of_member_class])
    hubs = np.flatnonzero(open_blocks & (quotas.ceiling_slots > 0))
    candidates = member_classes[
        (ceiling[member_classes] > 0) & (quotas.ceiling_slots[blocks.of_member_class[member_classes]] > 0)
    ]
    at_home = blocks.of_topic_class[classes.link_topic_class] == blocks.of_member_class[classes.link_member_class]
    links = np.flatnonzero(
        at_home & open_blocks[blocks.of_topic_class[classes.link_topic_class]] & (units[classes.link_topic_class] > 0)
    )
    link_topic_class, link_member_class = classes.link_topic_class[links], classes.link_member_class[links]
    arcs = Arcs(topic_class=classes.n_topic_classes, member_class=classes.n_member_classes, hub=blocks.n_blocks)
    arcs.add("topic_classes", "source", ("topic_class", topic_classes), units[topic_classes])
    arcs.add("links", ("topic_class", link_topic_class), ("member_class", link_member_class), units[link_topic_class])
    arcs.add("floor", ("member_class", member_classes), "sink", floor[member_classes])
    arcs.add("candidates", ("member_class", candidates), ("hub", blocks.of_member_class[candidates]), ceiling[candidates])
    arcs.add("ceiling_slots", ("hub", hubs), "sink", quotas.ceiling_slots[hubs])
    network = arcs.build()
    quota, seen = floor.copy(), sum_by(link_member_class, flow[links], classes.n_member_classes)
    wanted = np.clip(seen - floor, 0, ceiling)[candidates]
    quota[candidates] += first_units(blocks.of_member_class[candidates], wanted, quotas.ceiling_slots)
    network.start_with("links", first_units(link_member_class, flow[links], quota))
    network.push()
    flow[links] = network.of("links")
    routed = sum_by(blocks.of_topic_class[topic_classes], network.of("topic_classes"), blocks.n_blocks)
    short = np.flatnonzero(open_blocks & (routed < blocks.units)).astype(np.int64)
    topic_reached, member_reached = network.reached("topic_class", "member_class")
    return short, topic_reached, member_reached
