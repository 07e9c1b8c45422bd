"""Even topics, exactly: among plans that are optimal in everything else, the least sum of squares over topics and members.

The spread of a topic is the sum, over members, of (partitions of the topic on the member) squared. This cost is convex, so it
joins the minimum-cost flow of `stickiness` as parallel unit arcs: the j-th partition of a topic on a member costs 2j - 1,
scaled so that all unit arcs of a plan together cost less than one move or one mismatch. Every topic is a class of its own here,
as is every member, so the network grows with topics x members: an option for groups in which that is affordable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int64, Problem
from counterpoise.solver.claims import Claims
from counterpoise.solver.classes import Classes, first_seen, split_topic_classes, sum_by
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs, Network
from counterpoise.solver.flows.quotas import Quotas
from counterpoise.solver.flows.stickiness import Costs
from counterpoise.solver.flows.transport import ClassAllocation

__all__ = ["TopicView", "assign_evenly", "view_by_topic"]


@dataclass(frozen=True, slots=True)
class TopicView:
    """Classes in which every topic class lies in one topic and every member is its own member class."""

    classes: Classes
    coarse_class: Int64  # int64[C']: topic class of the coarser classes
    topic: Int64  # int64[C']


def view_by_topic(problem: Problem, classes: Classes) -> TopicView:
    """Split topic classes by topic, member classes into members; O(P + topics x subscribers)."""
    topic = problem.topic_of_partition().astype(np.int64)
    topic_class, size, start, member, first = split_topic_classes(classes, topic)
    member_class = np.where(classes.member_class >= 0, np.arange(len(classes.member_class)), -1)
    links = np.repeat(np.arange(len(first)), np.diff(start))
    fine = Classes(topic_class, size, start, member, member_class, len(member_class), links, member)
    return TopicView(fine, classes.topic_class[first].astype(np.int64), topic[first])


def assign_evenly(
    view: TopicView, claims: Claims, pinned: Claims, units: Int64, blocks: Blocks, quotas: Quotas, costs: Costs
) -> ClassAllocation:
    """The cheapest plan, and the evenest among those.

    `claims`, `units` and `costs` refer to the classes of the view, `blocks` to the coarser ones. `claims` may be kept, `pinned`
    ones never move (they count for the spread); one of the two is empty. Raises `OptionError` if the group is so large that
    moves, mismatches and unit arcs together would leave exact arithmetic.
    """
    classes = view.classes
    block_of_class = blocks.of_topic_class[view.coarse_class]
    links = np.flatnonzero(
        (block_of_class[classes.link_topic_class] == blocks.of_member[classes.link_member_class])
        & (units[classes.link_topic_class] > 0)
    )
    topic_class, member = classes.link_topic_class[links], classes.link_member_class[links]
    n_members = len(classes.member_class)
    pair, example = first_seen(view.topic[topic_class] * n_members + member)
    topic_of_pair, member_of_pair = view.topic[topic_class][example], member[example]
    most = sum_by(view.topic, units, int(view.topic.max(initial=-1)) + 1)
    held = _pinned_counts(view, pinned, topic_of_pair * n_members + member_of_pair)
    sharing = np.bincount(topic_of_pair, minlength=len(most))
    unit_arcs = np.minimum(most // np.maximum(sharing, 1) + 2, most)[topic_of_pair]
    scale = 1 + int((sum_by(view.topic, classes.size, len(most)) ** 2).sum())
    heaviest = max(int(costs.kept.max(initial=0)), int(costs.moved.max(initial=0))) * scale
    if heaviest >= 2**46:  # a path adds up a few of these, and must stay below 2**53
        raise OptionError("option 'evenness': this group is too large for 'exact'; use 'near', or ignore racks")
    while True:
        convex = _ConvexCost(pair, member_of_pair, held, unit_arcs, most[topic_of_pair])
        network, cells = _network(view, claims, units, blocks, quotas, costs, links, convex, scale)
        network.push_cheaply(int(units.sum()))
        # The last unit arc carries all higher units at its own, too low, cost: exact if it carries one at most.
        above = (network.of("unit_arcs")[convex.last()] > 1) & (unit_arcs < most[topic_of_pair])
        if not above.any():
            break
        unit_arcs = np.where(above, np.minimum(2 * unit_arcs, most[topic_of_pair]), unit_arcs)
    shed = claims.count.copy()
    shed[cells] -= network.of("kept")
    moved = network.of("moved")
    load = sum_by(member, moved, n_members) + sum_by(claims.member[cells], network.of("kept"), n_members)
    used = np.flatnonzero(moved)
    return ClassAllocation(shed, load, topic_class[used], member[used], moved[used], np.zeros(blocks.n_blocks, np.bool_))


@dataclass(frozen=True, slots=True)
class _ConvexCost:
    """Unit arcs of each pair (topic, member): pair of each link; member, pinned count, unit arcs and units of each pair."""

    pair_of_link: Int64
    member: Int64
    held: Int64
    unit_arcs: Int64
    most: Int64

    def last(self) -> Int64:
        return np.cumsum(self.unit_arcs) - 1


def _network(
    view: TopicView,
    claims: Claims,
    units: Int64,
    blocks: Blocks,
    quotas: Quotas,
    costs: Costs,
    links: Int64,
    convex: _ConvexCost,
    scale: int,
) -> tuple[Network, Int64]:
    """Source -> topic class -> (port of a move) -> pair -> unit arc -> member -> sink; and the cells of the history in use."""
    classes, n_members = view.classes, len(view.classes.member_class)
    topic_class, member = classes.link_topic_class[links], classes.link_member_class[links]
    link, claimed = topic_class * n_members + member, claims.topic_class * n_members + claims.member
    cells = np.flatnonzero(np.isin(claimed, link))
    pair_of_cell = convex.pair_of_link[np.searchsorted(link, claimed[cells])]
    pairs = np.arange(len(convex.unit_arcs))
    pair, step = np.repeat(pairs, convex.unit_arcs), ranks_in_runs(convex.unit_arcs)
    height = int(convex.unit_arcs.max(initial=0))
    width = np.ones(len(pair), np.int64)
    width[convex.last()] = convex.most
    taking = np.flatnonzero(np.bincount(member, minlength=n_members))
    candidates = taking[quotas.candidate[taking]]
    hubs = np.flatnonzero(quotas.ceiling_slots)
    topic_classes = np.flatnonzero(units)
    used_steps = np.unique(convex.member[pair] * height + step)
    layers = {"port": len(links), "pair": len(pairs), "step": n_members * height, "member": n_members, "hub": blocks.n_blocks}
    arcs = Arcs(topic_class=classes.n_topic_classes, **layers)
    arcs.add("topic_classes", "source", ("topic_class", topic_classes), units[topic_classes])
    arcs.add(
        "moved", ("topic_class", topic_class), ("port", np.arange(len(links))), units[topic_class], costs.moved[links] * scale
    )
    arcs.add("ports", ("port", np.arange(len(links))), ("pair", convex.pair_of_link), units[topic_class])
    arcs.add(
        "kept", ("topic_class", claims.topic_class[cells]), ("pair", pair_of_cell), claims.count[cells], costs.kept[cells] * scale
    )
    arcs.add(
        "unit_arcs", ("pair", pair), ("step", convex.member[pair] * height + step), width, 2 * (convex.held[pair] + step) + 1
    )
    carried = np.full(len(used_steps), int(units.sum()), np.int64)
    arcs.add("tops", ("step", used_steps), ("member", used_steps // max(height, 1)), carried)
    arcs.add("floor", ("member", taking), "sink", quotas.floor[taking])
    arcs.add("candidates", ("member", candidates), ("hub", blocks.of_member[candidates]), np.ones(len(candidates), np.int64))
    arcs.add("ceiling_slots", ("hub", hubs), "sink", quotas.ceiling_slots[hubs])
    return arcs.build(), cells


def _pinned_counts(view: TopicView, pinned: Claims, wanted: Int64) -> Int64:
    """Pinned claims of each pair, given as topic * members + member."""
    n_members = len(view.classes.member_class)
    number, _ = first_seen(np.concatenate([wanted, view.topic[pinned.topic_class] * n_members + pinned.member]))
    return sum_by(number[len(wanted) :], pinned.count, int(number.max(initial=-1)) + 1)[number[: len(wanted)]]
