"""Balance: the canonical split of a group into blocks whose members can all reach the same level.

A load vector is decreasingly minimal iff for every level v the sum of min(load, v) equals the maximum flow with member
capacities v (Harvey, Ladner, Lovász, Tamir, *Semi-matchings for bipartite graphs and load balancing*; Frank & Murota,
*Decreasing minimization on M-convex sets*). Where the flow at v falls short, let S be what the source still reaches: the kinds
in S see only members in S, so by complementary slackness every optimum has loads of at least v inside S, at most v outside,
and no unit of a kind outside S on a member inside. The two sides are independent in *every* optimum, whatever was owned before:
this is Fujishige's decomposition, by divide and conquer. All blocks of one depth share one flow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import Classes, sum_by
from counterpoise.solver.flows.flow import Arcs, Bools
from counterpoise.solver.flows.levels import Demand, Quotas, quotas

__all__ = ["Blocks", "decompose", "one_block", "plausible"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A split of the class network.

    Attributes
    ----------
    of_kind : int64[C]
    of_camp : int64[G]
    of_member : int64[M]
        Block of each; -1 for a member that takes no part.
    units : int64[B]
        Units to deal in each block.
    """

    of_kind: Int64
    of_camp: Int64
    of_member: Int64
    units: Int64

    @property
    def n_blocks(self) -> int:
        """B."""
        return len(self.units)


def one_block(classes: Classes, units: Int64) -> Blocks:
    """Everything in one block: a guess that a complete flow proves right."""
    camps = np.zeros(classes.n_camps, np.int64)
    return _blocks(classes, np.zeros(classes.n_kinds, np.int64), camps, 1, units)


def plausible(classes: Classes, units: Int64, shares: Quotas) -> bool:
    """Whether one block is not ruled out at sight: no camp sees too few units, no kind too few places; O(links)."""
    base, places = classes.per_camp(shares.base), classes.per_camp(shares.base + shares.eligible)
    seen = sum_by(classes.link_camp, units[classes.link_kind], classes.n_camps)
    open_to = sum_by(classes.link_kind, places[classes.link_camp], classes.n_kinds)
    return bool((seen >= base).all() and (open_to >= units).all())


def decompose(classes: Classes, units: Int64, demand: Demand) -> Blocks:
    """Split kinds and camps into blocks inside which the quotas of `levels` are feasible.

    Parameters
    ----------
    classes : Classes
    units : int64[C]
        Units of each kind to deal.
    demand : Demand

    Notes
    -----
    One max flow per depth of the split; the edges left shrink with every depth. A block is final when its quotas (base for
    everybody, extras through a shared node) take all its units. Otherwise the minimum cut gives both sides.
    """
    of_kind = np.zeros(classes.n_kinds, np.int64)
    of_camp = np.zeros(classes.n_camps, np.int64)
    n_blocks, open_blocks = 1, np.ones(1, np.bool_)
    while open_blocks.any():
        blocks = _blocks(classes, of_kind, of_camp, n_blocks, units)
        shares = quotas(blocks.units, blocks.of_member, demand)
        short, kind_reached, camp_reached = _cut(classes, units, blocks, shares, open_blocks)
        number = np.full(n_blocks, -1, np.int64)
        number[short] = n_blocks + np.arange(len(short))
        of_kind = np.where(kind_reached, number[of_kind], of_kind)
        of_camp = np.where(camp_reached, number[of_camp], of_camp)
        open_blocks = np.zeros(n_blocks + len(short), np.bool_)
        open_blocks[short] = True
        open_blocks[n_blocks:] = True
        n_blocks += len(short)
    return blocks


def _blocks(classes: Classes, of_kind: Int64, of_camp: Int64, n_blocks: int, units: Int64) -> Blocks:
    of_member = np.concatenate([of_camp, [-1]])[classes.camp]
    return Blocks(of_kind, of_camp, of_member, sum_by(of_kind, units, n_blocks))


def _cut(classes: Classes, units: Int64, blocks: Blocks, shares: Quotas, open_blocks: Bools) -> tuple[Int64, Bools, Bools]:
    """Blocks whose units do not all fit, and the kinds and camps on the source side of their minimum cuts."""
    base, spare = classes.per_camp(shares.base), classes.per_camp(shares.eligible)
    kinds = np.flatnonzero(open_blocks[blocks.of_kind] & (units > 0))
    camps = np.flatnonzero(open_blocks[blocks.of_camp])
    hubs = np.flatnonzero(open_blocks & (shares.extras > 0))
    sparing = camps[(spare[camps] > 0) & (shares.extras[blocks.of_camp[camps]] > 0)]
    at_home = blocks.of_kind[classes.link_kind] == blocks.of_camp[classes.link_camp]
    links = np.flatnonzero(at_home & open_blocks[blocks.of_kind[classes.link_kind]] & (units[classes.link_kind] > 0))
    link_kind, link_camp = classes.link_kind[links], classes.link_camp[links]
    arcs = Arcs(kind=classes.n_kinds, camp=classes.n_camps, hub=blocks.n_blocks)
    arcs.add("kinds", "source", ("kind", kinds), units[kinds])
    arcs.add("links", ("kind", link_kind), ("camp", link_camp), units[link_kind])
    arcs.add("base", ("camp", camps), "sink", base[camps])
    arcs.add("spare", ("camp", sparing), ("hub", blocks.of_camp[sparing]), spare[sparing])
    arcs.add("extras", ("hub", hubs), "sink", shares.extras[hubs])
    network = arcs.build()
    network.push()
    routed = sum_by(blocks.of_kind[kinds], network.of("kinds"), blocks.n_blocks)
    short = np.flatnonzero(open_blocks & (routed < blocks.units)).astype(np.int64)
    kind_reached, camp_reached = network.reached("kind", "camp")
    return short, kind_reached, camp_reached
