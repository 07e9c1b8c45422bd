"""Handover: claims as sets of members, and the claims that members above their quota give up."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.bitset.allocation import Allocation
from counterpoise.solver.bitset.exchange import Exchange
from counterpoise.solver.bitset.sets import ByCount, add_to, bits_of_rows, each_bit, everybody, take_from, width

__all__ = ["hand_over"]

FEW_CLAIMS = 100
"""So many are added to sets one by one."""


def hand_over(problem: Problem, allocation: Allocation, owner: Int32, excess: ByCount, work: int) -> bool:
    """Assign what is left with claims that change hands; those become UNOWNED in `owner`. False if that fails.

    Mostly members above their quota can give directly to members below it: then only their claims are read.
    """
    givers = np.zeros(problem.n_members + 1, np.bool_)  # the last entry is for UNOWNED
    givers[each_bit(everybody(excess))] = True
    exchange = Exchange(allocation, _claims(problem, owner, givers[owner].nonzero()[0]), excess, work)
    exchange.hand_over()
    if not exchange.settled():
        kept = _claims(problem, owner, (owner >= 0).nonzero()[0])
        for layers, gone in zip(kept, exchange.shed, strict=True):
            for members in gone:
                take_from(layers, members)
        exchange.kept = kept
        if not exchange.settle():
            return False
    starts = problem.topic_start.tolist()
    for topic, layers in enumerate(exchange.shed):
        for layer in layers:
            mine = owner[starts[topic] : starts[topic + 1]]
            for member in each_bit(layer):
                mine[(mine == member).argmax()] = UNOWNED
    return True


def _claims(problem: Problem, owner: Int32, where: Int64) -> list[list[int]]:
    """Per topic, the members that hold at least one of the partitions `where`, at least two, .."""
    n_topics, wide = problem.n_topics, width(problem.n_members)
    held: list[list[int]] = [[] for _ in range(n_topics)]
    topic = problem.topic_start.searchsorted(where, side="right") - 1
    if len(where) <= FEW_CLAIMS:
        for mine, member in zip(topic.tolist(), owner[where].tolist(), strict=True):
            add_to(held[mine], 1 << member)
        return held
    topic *= wide
    topic += owner[where]
    claims = np.bincount(topic, minlength=n_topics * wide).reshape(n_topics, -1)
    for layer in range(int(claims.max())):
        for layers, members in zip(held, bits_of_rows(claims > layer), strict=True):
            if members:
                layers.append(members)
    return held
