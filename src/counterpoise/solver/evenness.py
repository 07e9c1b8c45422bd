"""Even topics, exactly: among plans that are optimal in everything else, the least sum of squares over topics and members.

The spread of a topic is the sum, over members, of (partitions of the topic on the member) squared. It is convex, so it joins
the min-cost flow of `stickiness` as rungs: the j-th partition of a topic on a member costs 2j - 1, in a unit so small that
all rungs of a plan together weigh less than one move or one mismatch. Every topic is a kind of its own here and every member
a camp, so this network grows with topics x members: an option for groups in which that is affordable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.model.problem import Int64, Problem
from counterpoise.solver.classes import Classes, first_seen, ranges, sum_by
from counterpoise.solver.decode import ranks_in_runs
from counterpoise.solver.flows.balance import Blocks
from counterpoise.solver.flows.flow import Arcs, Network
from counterpoise.solver.flows.levels import Quotas
from counterpoise.solver.flows.stickiness import Costs
from counterpoise.solver.flows.transport import Deal
from counterpoise.solver.history import Claims

__all__ = ["TopicView", "deal_evenly", "view_by_topic"]


@dataclass(frozen=True, slots=True)
class TopicView:
    """Classes in which every kind lies in one topic and every member is its own camp.

    Attributes
    ----------
    classes : Classes
    old_kind : int64[C']
        Kind of the coarser classes.
    topic : int64[C']
    """

    classes: Classes
    old_kind: Int64
    topic: Int64


def view_by_topic(problem: Problem, classes: Classes) -> TopicView:
    """Split kinds by topic, camps into members; O(P + topics x subscribers)."""
    live = np.flatnonzero(classes.kind >= 0)
    topic_of = problem.topic_of_partition()[live].astype(np.int64)
    number, first = first_seen(topic_of * classes.n_kinds + classes.kind[live])
    old_kind = classes.kind[live][first].astype(np.int64)
    kind = np.full(len(classes.kind), -1, np.int32)
    kind[live] = number
    count = np.diff(classes.edge_start)[old_kind]
    member = classes.edge_member[ranges(classes.edge_start[old_kind], count)]
    start = np.concatenate([[0], np.cumsum(count)])
    camp = np.where(classes.camp >= 0, np.arange(len(classes.camp)), -1)
    size = np.bincount(number, minlength=len(first)).astype(np.int64)
    links = np.repeat(np.arange(len(first)), count)
    fine = Classes(kind, size, start, member, camp, len(camp), links, member)
    return TopicView(fine, old_kind, topic_of[first])


def deal_evenly(
    view: TopicView, claims: Claims, pinned: Claims, units: Int64, blocks: Blocks, shares: Quotas, costs: Costs
) -> Deal:
    """The cheapest deal, and the evenest among those.

    Parameters
    ----------
    view : TopicView
        `claims`, `units` and `costs` speak of its classes; `blocks` of the coarser ones.
    claims, pinned : Claims
        Claims that may be kept, and claims that stay whatever happens (they count for the spread); one of them is empty.

    Raises
    ------
    OptionError
        The group is so large that moves, mismatches and rungs together would leave exact arithmetic.
    """
    classes = view.classes
    block_of_kind = blocks.of_kind[view.old_kind]
    links = np.flatnonzero(
        (block_of_kind[classes.link_kind] == blocks.of_member[classes.link_camp]) & (units[classes.link_kind] > 0)
    )
    kind, member = classes.link_kind[links], classes.link_camp[links]
    n_members = len(classes.camp)
    pair, example = first_seen(view.topic[kind] * n_members + member)
    topic_of_pair, member_of_pair = view.topic[kind][example], member[example]
    most = sum_by(view.topic, units, int(view.topic.max(initial=-1)) + 1)
    held = _pinned_counts(view, pinned, topic_of_pair * n_members + member_of_pair)
    sharing = np.bincount(topic_of_pair, minlength=len(most))
    rungs = np.minimum(most // np.maximum(sharing, 1) + 2, most)[topic_of_pair]
    scale = 1 + int((sum_by(view.topic, classes.size, len(most)) ** 2).sum())
    heaviest = max(int(costs.kept.max(initial=0)), int(costs.moved.max(initial=0))) * scale
    if heaviest >= 2**46:  # a path adds up a few of these, and must stay below 2**53
        raise OptionError("option 'evenness': this group is too large for 'exact'; use 'near', or ignore racks")
    while True:
        tower = _Tower(pair, member_of_pair, held, rungs, most[topic_of_pair])
        network, cells = _network(view, claims, units, blocks, shares, costs, links, tower, scale)
        network.push_cheaply(int(units.sum()))
        # The last rung stands for all higher ones at its own, too low, cost: exact if nobody stands above it.
        above = (network.of("rungs")[tower.last()] > 1) & (rungs < most[topic_of_pair])
        if not above.any():
            break
        rungs = np.where(above, np.minimum(2 * rungs, most[topic_of_pair]), rungs)
    shed = claims.count.copy()
    shed[cells] -= network.of("kept")
    moved = network.of("moved")
    load = sum_by(member, moved, n_members) + sum_by(claims.member[cells], network.of("kept"), n_members)
    used = np.flatnonzero(moved)
    return Deal(shed, load, kind[used], member[used], moved[used], np.zeros(blocks.n_blocks, np.bool_))


@dataclass(frozen=True, slots=True)
class _Tower:
    """The rungs of every pair (topic, member): pair of each link, member and pinned count of each pair, rungs, units."""

    pair_of_link: Int64
    member: Int64
    held: Int64
    rungs: Int64
    most: Int64

    def last(self) -> Int64:
        return np.cumsum(self.rungs) - 1


def _network(
    view: TopicView,
    claims: Claims,
    units: Int64,
    blocks: Blocks,
    shares: Quotas,
    costs: Costs,
    links: Int64,
    tower: _Tower,
    scale: int,
) -> tuple[Network, Int64]:
    """Source -> kind -> (port of a move) -> pair -> rung -> member -> sink; and the cells of the history in use."""
    classes, n_members = view.classes, len(view.classes.camp)
    kind, member = classes.link_kind[links], classes.link_camp[links]
    at = np.searchsorted(kind * n_members + member, claims.kind * n_members + claims.member)
    at = np.minimum(at, max(len(links) - 1, 0))
    home = (kind[at] == claims.kind) & (member[at] == claims.member) if len(links) else np.zeros(len(claims.kind), np.bool_)
    cells = np.flatnonzero(home)
    pair_of_cell = tower.pair_of_link[at[cells]]
    pairs = np.arange(len(tower.rungs))
    pair, step = np.repeat(pairs, tower.rungs), ranks_in_runs(tower.rungs)
    height = int(tower.rungs.max(initial=0))
    width = np.ones(len(pair), np.int64)
    width[tower.last()] = tower.most
    taking = np.flatnonzero(np.bincount(member, minlength=n_members))
    sparing = taking[shares.eligible[taking]]
    hubs = np.flatnonzero(shares.extras)
    kinds = np.flatnonzero(units)
    used_rungs = np.unique(tower.member[pair] * height + step)
    arcs = Arcs(
        kind=classes.n_kinds, port=len(links), pair=len(pairs), rung=n_members * height, member=n_members, hub=blocks.n_blocks
    )
    arcs.add("kinds", "source", ("kind", kinds), units[kinds])
    arcs.add("moved", ("kind", kind), ("port", np.arange(len(links))), units[kind], costs.moved[links] * scale)
    arcs.add("ports", ("port", np.arange(len(links))), ("pair", tower.pair_of_link), units[kind])
    arcs.add("kept", ("kind", claims.kind[cells]), ("pair", pair_of_cell), claims.count[cells], costs.kept[cells] * scale)
    arcs.add("rungs", ("pair", pair), ("rung", tower.member[pair] * height + step), width, 2 * (tower.held[pair] + step) + 1)
    carried = np.full(len(used_rungs), int(units.sum()), np.int64)
    arcs.add("tops", ("rung", used_rungs), ("member", used_rungs // max(height, 1)), carried)
    arcs.add("base", ("member", taking), "sink", shares.base[taking])
    arcs.add("spare", ("member", sparing), ("hub", blocks.of_member[sparing]), np.ones(len(sparing), np.int64))
    arcs.add("extras", ("hub", hubs), "sink", shares.extras[hubs])
    return arcs.build(), cells


def _pinned_counts(view: TopicView, pinned: Claims, wanted: Int64) -> Int64:
    """Pinned claims of each pair, given as topic * members + member."""
    n_members = len(view.classes.camp)
    number, first = first_seen(np.concatenate([wanted, view.topic[pinned.kind] * n_members + pinned.member]))
    del first
    return sum_by(number[len(wanted) :], pinned.count, int(number.max(initial=-1)) + 1)[number[: len(wanted)]]
