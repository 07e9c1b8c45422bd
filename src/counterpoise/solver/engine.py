"""The engine's front door: one problem in, the optimal owners out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from counterpoise.model.problem import Int32, Int64, Problem
from counterpoise.solver.chains.chain import chain_of, deal_chain
from counterpoise.solver.classes import Classes, classify
from counterpoise.solver.decode import fill, give_up
from counterpoise.solver.equal import common_subscribers, deal_equal
from counterpoise.solver.evenness import deal_evenly, view_by_topic
from counterpoise.solver.flows.balance import Blocks, decompose, one_block, plausible
from counterpoise.solver.flows.flow import Bools
from counterpoise.solver.flows.levels import Demand, Quotas, quotas
from counterpoise.solver.flows.stickiness import Costs, reroute
from counterpoise.solver.flows.transport import Deal, closed_form, transport
from counterpoise.solver.history import Claims, claims_of, no_claims
from counterpoise.solver.level.direct import deal_directly
from counterpoise.solver.racks import priced, rack_classes, racks_matter

__all__ = ["Evenness", "History", "RackOrder", "solve"]

History: TypeAlias = Literal["prefer", "ignore", "pin"]
RackOrder: TypeAlias = Literal["after", "before", "ignore"]
Evenness: TypeAlias = Literal["near", "exact"]


def solve(problem: Problem, *, history: History = "prefer", racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Owners that are optimal, in lexicographic order of aims.

    Parameters
    ----------
    problem : Problem
    history : "prefer", "ignore", "pin"
        What becomes of valid claims: kept as far as balance allows; forgotten; never moved.
    racks : "after", "before", "ignore"
        Where rack matches stand: after stickiness, before it, or nowhere.
    evenness : "near", "exact"
        How even each topic is spread over members: by rule, or as far as the other aims allow (least sum of squares of the
        partitions of a topic on a member). The latter costs a min-cost flow over topics x members.

    Returns
    -------
    int32[P]
        UNOWNED exactly where nobody subscribes.

    Notes
    -----
    1. Every partition with a subscriber is owned by one.
    2. The loads, sorted descending, are lexicographically smallest; with capacities, sum(load**2 / capacity) is minimal.
       With "pin": among plans in which every valid claim stays.
    3. The number of partitions that stay is maximal, then the number whose owner stands in a replica's rack
       (`racks="before"`: the other way round).
    4. Topics are spread: what is free is dealt to camps of members near their proportional shares, and in turns inside a
       camp. That is a rule; with `evenness="exact"` it is an optimum.
    5. Ties: extras go to those with most claims, then by id; free partitions follow in order, each to the lowest load, then
       by id.

    Integers throughout. With few kinds and camps O(P) and a handful of small flows; see docs/algorithm.md for the proof.
    """
    members = common_subscribers(problem)
    with_racks = racks != "ignore" and racks_matter(problem)
    if members is not None and not with_racks and evenness == "near":
        return deal_equal(problem, members, history=history)
    if not with_racks and evenness == "near" and history != "pin" and int(problem.capacity.min()) == int(problem.capacity.max()):
        owner = deal_directly(problem, with_history=history == "prefer")
        if owner is not None:
            return owner
    classes, match = classify(problem), None
    if with_racks:
        classes, match = rack_classes(problem, classes)
    claims = no_claims(problem.n_partitions) if history == "ignore" else claims_of(problem, classes)
    pinned = claims.per_member(problem.n_members) if history == "pin" else None
    task = _task(problem, classes, claims, pinned)
    if evenness == "exact":
        return _solve_evenly(problem, task, claims, match, pinned, before=racks == "before")
    if match is None:
        chain = chain_of(classes) if task.demand.capacity is None and task.demand.offset is None else None
        deal = _sticky_deal(task) if chain is None else deal_chain(classes, task.claims, chain)
    else:
        assert problem.racks is not None
        costs = priced(classes, task.claims, match, problem.racks.rack_of_member, before=racks == "before")
        deal = _priced_deal(task, costs)
    return _decode(task, claims.owner, deal, pinned)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is dealt: units of each kind, claims that may be kept or not, and who takes part how."""

    classes: Classes
    claims: Claims
    units: Int64
    demand: Demand


def _task(problem: Problem, classes: Classes, claims: Claims, pinned: Int64 | None) -> _Task:
    capacity = problem.capacity
    weights = capacity if problem.n_members and bool((capacity != capacity[0]).any()) else None
    if pinned is None:
        return _Task(classes, claims, classes.size, Demand(weights))
    units = classes.size - claims.per_kind(classes.n_kinds)
    return _Task(classes, no_claims(0), units, Demand(weights, pinned))


def _sticky_deal(task: _Task) -> Deal:
    """The optimal deal: first on the guess that all is one block, which a complete flow proves, then block by block."""
    whole = one_block(task.classes, task.units)
    shares = quotas(whole.units, whole.of_member, task.demand)
    if plausible(task.classes, task.units, shares):
        deal = _attempt(task, whole, shares)
        if not deal.short.any():
            return deal
    blocks = decompose(task.classes, task.units, task.demand)
    return _attempt(task, blocks, quotas(blocks.units, blocks.of_member, task.demand), final=True)


def _priced_deal(task: _Task, costs: Costs) -> Deal:
    """The cheapest deal at optimal balance, for any costs."""
    blocks = decompose(task.classes, task.units, task.demand)
    shares = quotas(blocks.units, blocks.of_member, task.demand)
    return reroute(task.classes, task.claims, task.units, blocks, shares, costs, None)


def _solve_evenly(
    problem: Problem, task: _Task, claims: Claims, match: Bools | None, pinned: Int64 | None, *, before: bool
) -> Int32:
    """Owners with every topic as even as the other aims allow: the same blocks, but a network by topic and member."""
    blocks = decompose(task.classes, task.units, task.demand)
    shares = quotas(blocks.units, blocks.of_member, task.demand)
    view = view_by_topic(problem, task.classes)
    fine = view.classes
    mine = replace(claims_of(problem, fine), owner=claims.owner) if len(claims.count) else claims
    kept, fixed = (mine, no_claims(0)) if pinned is None else (no_claims(0), mine)
    units = fine.size - fixed.per_kind(fine.n_kinds)
    if match is None:
        costs = Costs(np.zeros(len(kept.count), np.int64), np.ones(len(fine.link_kind), np.int64))
    else:
        assert problem.racks is not None
        costs = priced(fine, kept, match[view.old_kind], problem.racks.rack_of_member, before=before)
    deal = deal_evenly(view, kept, fixed, units, blocks, shares, costs)
    return _decode(replace(task, classes=fine, claims=kept), claims.owner, deal, pinned)


def _attempt(task: _Task, blocks: Blocks, shares: Quotas, *, final: bool = False) -> Deal:
    """The optimal deal if `blocks` are the true ones; blocks in which not everything fits are `short`, unless `final`."""
    classes, claims, units = task.classes, task.claims, task.units
    home = blocks.of_kind[claims.kind] == blocks.of_member[claims.member]
    inside = claims if bool(home.all()) else Claims(claims.owner, claims.kind[home], claims.member[home], claims.count[home])
    start = closed_form(classes, inside, units, blocks, shares)
    deal = transport(classes, inside, blocks, start)
    if final and deal.short.any():
        costs = Costs(np.zeros(len(inside.count), np.int64), np.ones(len(classes.link_kind), np.int64))
        hard = np.where(deal.short[blocks.of_kind], units, 0)
        rest = reroute(classes, inside, hard, blocks, shares, costs, start)
        deal = _merge(deal, rest, inside, blocks)
    shed = claims.count.copy()  # a claim across blocks is kept by no optimal plan
    shed[home] = deal.shed
    return replace(deal, shed=shed)


def _merge(easy: Deal, hard: Deal, inside: Claims, blocks: Blocks) -> Deal:
    """Take `hard` for the blocks that are short in `easy`."""
    short = np.concatenate([easy.short, [False]])
    mine = ~short[blocks.of_kind[easy.kind]]
    return Deal(
        np.where(short[blocks.of_kind[inside.kind]], hard.shed, easy.shed),
        np.where(short[blocks.of_member], hard.load, easy.load),
        np.concatenate([easy.kind[mine], hard.kind]),
        np.concatenate([easy.camp[mine], hard.camp]),
        np.concatenate([easy.count[mine], hard.count]),
        np.zeros(blocks.n_blocks, np.bool_),
    )


def _decode(task: _Task, owner: Int32, deal: Deal, pinned: Int64 | None) -> Int32:
    """Owners from counts; `owner` (the engine's own copy of the valid claims) is changed and returned."""
    n_members = len(task.classes.camp)
    give_up(owner, task.claims, task.classes.kind, deal.shed, n_members)
    if pinned is None:
        kept = replace(task.claims, count=task.claims.count - deal.shed).per_member(n_members)
        load = deal.load
    else:
        kept, load = pinned, pinned + deal.load
    fill(owner, task.classes, kept, load, (deal.kind, deal.camp, deal.count))
    return owner
