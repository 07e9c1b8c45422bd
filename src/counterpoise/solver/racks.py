"""Racks (KIP-881): classes split so that all partitions of a topic class match the same racks, and the cost of mismatches."""

from __future__ import annotations

import numpy as np

from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int32, Int64, Problem, Racks
from counterpoise.solver.claims import Claims
from counterpoise.solver.classes import Classes, classify_members, equal_slices, first_seen, split_topic_classes
from counterpoise.solver.flows.flow import Bools
from counterpoise.solver.flows.stickiness import Costs

_BITS = 62
"""So many racks fit into the bits of an integer."""

__all__ = ["rack_classes", "rack_costs", "racks_matter"]


def racks_matter(problem: Problem) -> bool:
    """Whether any member stands in a rack."""
    return problem.racks is not None and problem.n_members > 0 and int(problem.racks.rack_of_member.max()) >= 0


def rack_classes(problem: Problem, classes: Classes) -> tuple[Classes, Bools]:
    """Topic classes split by the racks of their replicas, member classes by the rack of their members.

    Also returns whether partitions of a topic class have a replica in a rack, bool[C, R+1]; the last column, rack -1, is False.
    Racks in which no member stands are left out first: they can match nobody. O(P + replicas), vectorised.
    """
    racks = problem.racks
    assert racks is not None
    start, rack = _inhabited(racks)
    rack_set, example = _rack_sets(start, rack)
    topic_class, size, edge_start, edge_member, first = split_topic_classes(classes, rack_set)
    match = np.zeros((len(first), int(max(racks.rack_of_member.max(), 0)) + 2), np.bool_)
    of_topic_class = example[rack_set[first]]
    width = (start[1:] - start[:-1])[of_topic_class]
    match[np.repeat(np.arange(len(first)), width), rack[ranges(start[of_topic_class], width)]] = True
    return classify_members(topic_class, size, edge_start, edge_member, problem.n_members, racks.rack_of_member), match


def rack_costs(classes: Classes, claims: Claims, match: Bools, rack_of_member: Int32, *, before: bool) -> Costs:
    """Costs of two sizes: moves outweigh all mismatches together, or (`before`) the other way round."""
    heavy = len(classes.topic_class) + 1
    rack_of_class = np.zeros(classes.n_member_classes, np.int64)
    taking = np.flatnonzero(classes.member_class >= 0)
    rack_of_class[classes.member_class[taking]] = rack_of_member[taking]
    kept_miss = (~match[claims.topic_class, rack_of_member[claims.member]]).astype(np.int64)
    moved_miss = (~match[classes.link_topic_class, rack_of_class[classes.link_member_class]]).astype(np.int64)
    if before:
        return Costs(kept_miss * heavy, moved_miss * heavy + 1)
    return Costs(kept_miss, moved_miss + heavy)


def _rack_sets(start: Int64, rack: Int32) -> tuple[Int64, Int64]:
    """Number the partitions' rack sets: the number of each, and the first partition of each number."""
    if int(rack.max(initial=0)) < _BITS:
        bits = np.append(0, np.cumsum(np.int64(1) << rack.astype(np.int64)))  # differences are right though the sums may overflow
        return first_seen(bits[start[1:]] - bits[start[:-1]])
    return equal_slices(rack, start[:-1], start[1:])


def _inhabited(racks: Racks) -> tuple[Int64, Int32]:
    """Replica racks (as CSR) without those in which no member stands."""
    known = np.zeros(max(int(racks.replica_rack.max(initial=-1)), int(racks.rack_of_member.max(initial=-1))) + 2, np.bool_)
    known[racks.rack_of_member] = True  # rack -1 marks the last entry, which no replica has
    stays = known[racks.replica_rack]
    kept = np.concatenate([[0], np.cumsum(stays)])
    return kept[racks.replica_start], racks.replica_rack[stays]
