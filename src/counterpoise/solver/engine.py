"""The engine's entry: one problem in, the optimal owners out.

Methods, tried in this order: `equal` (equal subscriptions), `bitset` (all members in one block), and `flows` (the rest, and every
group with racks or exact evenness).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np

from counterpoise.model.problem import Int32, Int64, Problem
from counterpoise.solver.bitset.one_block import one_block
from counterpoise.solver.claims import Claims, claims_of, no_claims
from counterpoise.solver.classes import Classes, classify
from counterpoise.solver.decode import fill, give_up
from counterpoise.solver.equal import assign_equal, common_subscribers
from counterpoise.solver.evenness import assign_evenly, view_by_topic
from counterpoise.solver.flows.balance import Blocks, decompose, plausible, single_block
from counterpoise.solver.flows.flow import Bools
from counterpoise.solver.flows.quotas import Capacities, Quotas, quotas_of
from counterpoise.solver.flows.stickiness import Costs, reroute
from counterpoise.solver.flows.transport import ClassAllocation, closed_form, transport
from counterpoise.solver.racks import rack_classes, rack_costs, racks_matter

__all__ = ["Evenness", "History", "Prepared", "RackOrder", "prepare", "solve"]

History: TypeAlias = Literal["prefer", "ignore", "pin"]
RackOrder: TypeAlias = Literal["after", "before", "ignore"]
Evenness: TypeAlias = Literal["near", "exact"]


def solve(problem: Problem, *, history: History = "prefer", racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Owners that are optimal in the objectives 1 to 4, each among the plans that are optimal in those before it.

    5 is a rule for what is left open. Returns the owners, int32[P]: UNOWNED exactly where nobody subscribes.

    1. Every partition with a subscriber is owned by one.
    2. The loads, sorted descending, are lexicographically smallest; with capacities, sum(load**2 / capacity) is minimal.
       With `history="pin"`: among plans in which every valid claim stays.
    3. The number of partitions that stay is maximal.
    4. The number of partitions whose owner is in a replica's rack is maximal (`racks="before"`: 4 comes before 3).
    5. Topics are spread (`evenness="exact"`: optimally): free partitions go to member classes near their proportional shares,
       and inside a member class to the least loaded member. Ties: ceiling slots go to the members with most claims above
       their floor, then by id; free partitions follow in order, each to the least loaded member, then by id.
    Integers throughout. With few classes O(P) and a handful of small flows; docs/algorithm.md has the proof.
    """
    return prepare(problem, history=history, racks=racks, evenness=evenness).plan(problem)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The solver for one group: members, topics and subscriptions are fixed, and `plan` takes the group with any claims."""

    # plan(problem, history=...): `history` replaces that of `prepare`; only "ignore" is possible
    plan: Callable[..., Int32]
    # Whether `plan` depends only on the claims that it keeps: without the others the owners are the same. So it is if
    # subscriptions are equal
    depends_on_kept: bool


def prepare(
    problem: Problem,
    *,
    history: History = "prefer",  # Valid claims are kept as far as balance allows, ignored, or never moved
    racks: RackOrder = "after",  # Rack matches count after stickiness, before it, or not at all
    # Each topic is spread over members by a rule, or as evenly as the other objectives allow (least sum of squares of the
    # partitions of a topic on a member). The latter costs a minimum-cost flow over topics x members.
    evenness: Evenness = "near",
) -> Prepared:
    """`solve` with these options for problems that differ from this one only in claims; the rest is computed once."""
    members = common_subscribers(problem)
    with_racks = racks != "ignore" and racks_matter(problem)
    simple = not with_racks and evenness == "near"
    if members is not None and simple:
        return Prepared(partial(assign_equal, members=members, history=history), depends_on_kept=True)
    block = one_block(problem) if simple and history != "pin" else None

    by_flows = _FlowSolver(problem, with_racks, racks, evenness)

    def plan(claiming: Problem, *, history: History = history) -> Int32:
        several = by_flows.blocks is not None and by_flows.blocks[0].n_blocks > 1
        owner = None if block is None or several else block.assign(claiming, with_history=history == "prefer")
        return by_flows.plan(claiming, history) if owner is None else owner

    return Prepared(plan, depends_on_kept=False)


@dataclass
class _FlowSolver:
    """Solves problems of one group with network flows. The problems differ only in claims, which `plan` takes.

    The classes are computed once; so are the blocks, unless claims are pinned.
    """

    problem: Problem
    with_racks: bool
    racks: RackOrder
    evenness: Evenness
    blocks: tuple[Blocks, Quotas] | None = None  # Cached after the first plan. None if claims are pinned: they depend on these

    @cached_property
    def _classes_and_match(self) -> tuple[Classes, Bools | None]:
        """The classes, and a table of the pairs of classes (topic, member) that match in racks; None if racks are ignored."""
        classes = classify(self.problem)
        return rack_classes(self.problem, classes) if self.with_racks else (classes, None)

    def plan(self, problem: Problem, history: History) -> Int32:
        """`solve` for this group with the claims of `problem`."""
        classes, match = self._classes_and_match
        claims = no_claims(problem.n_partitions) if history == "ignore" else claims_of(problem, classes)
        task = _task(problem, classes, claims, claims.per_member(problem.n_members) if history == "pin" else None)
        if self.evenness == "exact":
            return self._evenly(problem, task, claims, match)
        if match is None:
            allocation = self._stickiest(task)
        else:
            costs = self._rack_costs(classes, task.claims, match)
            allocation = reroute(classes, task.claims, task.units, *self._blocks_and_quotas(task), costs, None)
        return _decode(task, claims.owner, allocation)

    def _rack_costs(self, classes: Classes, claims: Claims, match: Bools) -> Costs:
        assert self.problem.racks is not None
        return rack_costs(classes, claims, match, self.problem.racks.rack_of_member, before=self.racks == "before")

    def _stickiest(self, task: _Task) -> ClassAllocation:
        """The stickiest balanced plan: first as one block, which is right if everything fits, then block by block."""
        tried = None
        if self.blocks is None:
            whole = single_block(task.classes, task.units)
            quotas = quotas_of(whole.units, whole.of_member, task.capacities)
            if plausible(task.classes, task.units, quotas):
                tried = _attempt(task, whole, quotas)
                if not tried.short.any():
                    self._keep(task, (whole, quotas))
                    return tried
        return _attempt(task, *self._blocks_and_quotas(task, tried), final=True)

    def _blocks_and_quotas(self, task: _Task, tried: ClassAllocation | None = None) -> tuple[Blocks, Quotas]:
        """The blocks and their quotas. The maximum flow starts from the claims, or from `tried`, which left units unassigned."""
        if self.blocks is not None:
            return self.blocks
        classes, claims = task.classes, task.claims
        kept = claims.count if tried is None else claims.count - tried.shed
        flow = classes.per_link(claims.topic_class, classes.member_class[claims.member], kept)
        if tried is not None:
            flow += classes.per_link(tried.topic_class, tried.member_class, tried.count)
        return self._keep(task, decompose(classes, task.units, task.capacities, flow))

    def _keep(self, task: _Task, blocks: tuple[Blocks, Quotas]) -> tuple[Blocks, Quotas]:
        """Cache the blocks for later plans, unless claims are pinned; returns them."""
        if task.pinned is None:
            self.blocks = blocks
        return blocks

    def _evenly(self, problem: Problem, task: _Task, claims: Claims, match: Bools | None) -> Int32:
        """Owners with every topic as even as the other objectives allow: the same blocks, but a network by topic and member."""
        blocks, quotas = self._blocks_and_quotas(task)
        view = view_by_topic(problem, task.classes)
        fine = view.classes
        mine = replace(claims_of(problem, fine), owner=claims.owner) if len(claims.count) else claims
        kept, fixed = (mine, no_claims(0)) if task.pinned is None else (no_claims(0), mine)
        units = fine.size - fixed.per_topic_class(fine.n_topic_classes)
        if match is None:
            costs = Costs(np.zeros(len(kept.count), np.int64), np.ones(len(fine.link_topic_class), np.int64))
        else:
            costs = self._rack_costs(fine, kept, match[view.coarse_class])
        allocation = assign_evenly(view, kept, fixed, units, blocks, quotas, costs)
        return _decode(replace(task, classes=fine, claims=kept), claims.owner, allocation)


@dataclass(frozen=True, slots=True)
class _Task:
    """Units of each topic class to assign, claims that may be kept, and capacities with what is pinned."""

    classes: Classes
    claims: Claims
    units: Int64
    capacities: Capacities
    pinned: Int64 | None  # int64[M]: claims of each member that never move; None: claims may move


def _task(problem: Problem, classes: Classes, claims: Claims, pinned: Int64 | None) -> _Task:
    capacities = Capacities.of(problem.capacity, pinned)
    if pinned is None:
        return _Task(classes, claims, classes.size, capacities, pinned)
    units = classes.size - claims.per_topic_class(classes.n_topic_classes)
    return _Task(classes, no_claims(0), units, capacities, pinned)


def _attempt(task: _Task, blocks: Blocks, quotas: Quotas, *, final: bool = False) -> ClassAllocation:
    """The optimal plan if `blocks` are the true ones; blocks in which not everything fits are `short`, unless `final`."""
    classes, claims, units = task.classes, task.claims, task.units
    home = blocks.of_topic_class[claims.topic_class] == blocks.of_member[claims.member]
    inside = (
        claims if bool(home.all()) else Claims(claims.owner, claims.topic_class[home], claims.member[home], claims.count[home])
    )
    start = closed_form(classes, inside, units, blocks, quotas)
    allocation = transport(classes, inside, blocks, start)
    if final and allocation.short.any():
        costs = Costs(np.zeros(len(inside.count), np.int64), np.ones(len(classes.link_topic_class), np.int64))
        hard = np.where(allocation.short[blocks.of_topic_class], units, 0)
        rest = reroute(classes, inside, hard, blocks, quotas, costs, start)
        allocation = _merge(allocation, rest, inside, blocks)
    shed = claims.count.copy()  # a claim across blocks is kept by no optimal plan
    shed[home] = allocation.shed
    return replace(allocation, shed=shed)


def _merge(easy: ClassAllocation, hard: ClassAllocation, inside: Claims, blocks: Blocks) -> ClassAllocation:
    """Take `hard` for the blocks that are short in `easy`."""
    short = np.concatenate([easy.short, [False]])
    mine = ~short[blocks.of_topic_class[easy.topic_class]]
    return ClassAllocation(
        np.where(short[blocks.of_topic_class[inside.topic_class]], hard.shed, easy.shed),
        np.where(short[blocks.of_member], hard.load, easy.load),
        np.concatenate([easy.topic_class[mine], hard.topic_class]),
        np.concatenate([easy.member_class[mine], hard.member_class]),
        np.concatenate([easy.count[mine], hard.count]),
        np.zeros(blocks.n_blocks, np.bool_),
    )


def _decode(task: _Task, owner: Int32, allocation: ClassAllocation) -> Int32:
    """Owners from counts; `owner` (the engine's own copy of the valid claims) is changed and returned."""
    n_members = len(task.classes.member_class)
    give_up(owner, task.claims, task.classes.topic_class, allocation.shed, n_members)
    if task.pinned is None:
        kept = replace(task.claims, count=task.claims.count - allocation.shed).per_member(n_members)
        load = allocation.load
    else:
        kept, load = task.pinned, task.pinned + allocation.load
    fill(owner, task.classes, kept, load, (allocation.topic_class, allocation.member_class, allocation.count))
    return owner
