"""The certificate of a plan: numbers that prove balance and stickiness, made from the plan alone, checked in linear time.

`certify` finds them by search in the exchange graph; `check` trusts nothing: it checks every partition and every
subscription against the numbers once. Neither uses the solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from counterpoise.laws.balance import MarginalCosts, heaviest, loads, marginal_costs, walk
from counterpoise.laws.exchange import along_walk, around_cycle, gain_in_kept
from counterpoise.laws.exchange_graph import ExchangeGraph, classes, exchange_graph
from counterpoise.laws.owners import complete, valid
from counterpoise.laws.stickiness import shortest_labels
from counterpoise.laws.violation import Move, Violation, Words
from counterpoise.model.arrays import LockedArrays
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["Certificate", "balance_violation", "certify", "check"]


@dataclass(frozen=True, eq=False)
class Certificate(LockedArrays):
    """The proof that a plan is optimal, or what is wrong with it.

    Attributes
    ----------
    balanced : bool
        The loads, sorted descending, are lexicographically smallest (with capacities: the sum of load²/capacity is).
    sticky : bool
        Balanced, and at that balance no plan keeps more partitions where they are.
    heaviest : int32[M]
        For each member: of the members that could pass partitions on to it, the one whose last partition costs most (the
        level of its block). The marginal cost of that partition is a dual value of the balance problem.
    member_label, topic_label : int32[M], int32[T]
        Shortest distances in the exchange graph: dual values of the stickiness problem.
    violations : tuple of Violation
        What the plan fails, each with a better move or exchange; empty exactly when both flags hold.

    Notes
    -----
    Proven are balance and stickiness, objectives 1 to 3. Racks and the spread of single topics come after these and
    are not certified; a strategy that puts racks before stickiness may rightly fail `sticky`.
    """

    balanced: bool
    sticky: bool
    heaviest: Int32
    member_label: Int32
    topic_label: Int32
    violations: tuple[Violation, ...]

    def __post_init__(self) -> None:
        for array in (self.heaviest, self.member_label, self.topic_label):
            array.flags.writeable = False


def certify(problem: Problem, owner: Int32, *, words: Words | None = None) -> Certificate:
    """Prove a plan balanced and sticky, or find what would be better.

    Parameters
    ----------
    problem : Problem
    owner : int32[P]
        The target owners, from anywhere; UNOWNED if no member subscribes.
    words : Words, optional
        Names for the messages; default codes.

    Raises
    ------
    ProblemError
        `problem` is no Problem (a Group has one: ``group.problem()``), or `owner` no array of integers, one per partition.

    Notes
    -----
    O(P + S) for the graph and O(arcs) for each sweep over it; a few sweeps as a rule, at most M + C.
    """
    broken = [*valid(problem, owner, words=words), *complete(problem, owner, words=words)]
    if broken:
        none = np.zeros(0, np.int32)
        return Certificate(False, False, none, none, none, tuple(broken))
    words = Words(problem) if words is None else words
    graph = exchange_graph(problem, owner, classes(problem))
    load = loads(problem.n_members, owner)
    marginal = marginal_costs(load, problem.capacity)
    top = heaviest(graph, marginal)
    found = _unbalanced(problem, owner, graph, marginal, top, words)
    balanced = not found
    labels = shortest_labels(graph, load, marginal, balanced=balanced)
    if labels.cycle:
        moves = around_cycle(problem, owner, graph.classes, labels.cycle)
        found.append(_unsticky(owner, problem.previous_owner, moves, words))
    label_of_topic = labels.topic_class[graph.classes.of_topic]
    return Certificate(balanced, balanced and not labels.cycle, top, labels.member, label_of_topic, tuple(found))


def balance_violation(
    problem: Problem, owner: Int32, movable: npt.NDArray[np.bool_] | None = None, words: Words | None = None
) -> list[Violation]:
    """Check that a valid, complete plan is as balanced as it can be if only `movable` partitions (bool[P]) may change hands."""
    graph = exchange_graph(problem, owner, classes(problem), movable)
    marginal = marginal_costs(loads(problem.n_members, owner), problem.capacity)
    words = Words(problem) if words is None else words
    return _unbalanced(problem, owner, graph, marginal, heaviest(graph, marginal), words, movable)


def check(problem: Problem, owner: Int32, certificate: Certificate) -> list[Violation]:
    """Check that the certificate proves the plan balanced and sticky; an empty list says that it does.

    Looks at nothing but the problem, the owners and the certificate's numbers (its flags are ignored).

    Returns
    -------
    list of Violation
        Laws ``valid``, ``complete``, ``balanced``, ``sticky``: what is wrong, or not proven.

    Notes
    -----
    O(P + S + M log M), no search: two inequalities per partition, two per subscription, two per member.

    - Balance: let level(m) be the marginal cost of the last partition of ``heaviest[m]``. Needed: last(m) <= level(m) <=
      next(m) for each member, and level(owner) <= level(subscriber) for each partition and subscriber of its topic.
      So no walk can lead from a member to one whose next partition is cheaper than the first one's last.
    - Stickiness: label(topic) <= label(owner) + 1, without the 1 if the owner does not claim the partition;
      label(subscriber) <= label(topic), and one less if it claims a partition of the topic it does not have;
      label(b) <= label(a) if a's next partition costs what b's last does. The costs around any cycle sum to at
      least 0.
    """
    broken = [*valid(problem, owner), *complete(problem, owner)]
    if broken:
        return broken
    lengths = (len(certificate.heaviest), len(certificate.member_label), len(certificate.topic_label))
    if lengths != (problem.n_members, problem.n_members, problem.n_topics):
        return [Violation("balanced", "the certificate belongs to another group: its arrays have other lengths")]
    load = loads(problem.n_members, owner)
    marginal = marginal_costs(load, problem.capacity)
    result = []
    if not _levels_hold(problem, owner, marginal, certificate.heaviest):
        result.append(Violation("balanced", "the levels of the certificate do not prove balance"))
    if not _labels_hold(problem, owner, load, marginal, certificate.member_label, certificate.topic_label):
        result.append(Violation("sticky", "the labels of the certificate do not prove stickiness"))
    return result


def _levels_hold(problem: Problem, owner: Int32, marginal: MarginalCosts, top: Int32) -> bool:
    if len(top) and (int(top.min()) < 0 or int(top.max()) >= problem.n_members):
        return False
    level = marginal.last[top]
    if np.any(marginal.last > level) or np.any(level > marginal.following):
        return False
    highest_owner = np.full(problem.n_topics, -1, np.int64)
    filled = np.flatnonzero(np.diff(problem.topic_start) > 0)
    if len(filled):
        highest_owner[filled] = np.maximum.reduceat(np.append(level, -1)[owner], problem.topic_start[filled])
    highest_of_pair = np.repeat(highest_owner, np.diff(problem.subscriber_start))
    return bool(np.all(highest_of_pair <= level[problem.subscriber]))


def _labels_hold(problem: Problem, owner: Int32, load: Int64, marginal: MarginalCosts, of_member: Int32, of_topic: Int32) -> bool:
    claims = problem.previous_owner
    topic = problem.topic_of_partition()
    owned = owner >= 0
    label_of_owner = np.append(of_member, np.int32(2**30))[owner]
    if np.any(of_topic[topic] > label_of_owner + (owned & (owner == claims))):
        return False
    if np.any(of_member[problem.subscriber] > np.repeat(of_topic, np.diff(problem.subscriber_start))):
        return False
    unmet = np.flatnonzero((claims >= 0) & (claims != owner))
    if np.any(of_member[claims[unmet]] > of_topic[topic[unmet]] - 1):
        return False
    level, at = np.unique(marginal.following, return_inverse=True)
    receiving = np.full(len(level) + 1, 2**30, np.int64)
    np.minimum.at(receiving, at, of_member)
    position = np.searchsorted(level, marginal.last)
    linked = (load > 0) & (np.append(level, -1)[position] == marginal.last)
    return bool(np.all(of_member[linked] <= receiving[position[linked]]))


def _unbalanced(
    problem: Problem,
    owner: Int32,
    graph: ExchangeGraph,
    marginal: MarginalCosts,
    top: Int32,
    words: Words,
    movable: npt.NDArray[np.bool_] | None = None,
) -> list[Violation]:
    excess = marginal.last[top] - marginal.following
    if not len(excess) or int(excess.max()) <= 0:
        return []
    taker = int(np.argmax(excess))
    giver = int(top[taker])
    moves = along_walk(problem, owner, graph.classes, walk(graph, giver, taker), movable)
    load = loads(problem.n_members, owner)
    gain = Fraction(2 * int(load[giver]) - 1, int(problem.capacity[giver]))
    gain -= Fraction(2 * int(load[taker]) + 1, int(problem.capacity[taker]))
    message = (
        f"{_loaded(problem, load, giver, words)} and {_loaded(problem, load, taker, words)}: "
        f"one fewer for the first and one more for the second is better balanced; move {words.moves(moves)}"
    )
    return [Violation("balanced", message, 1, words.named(moves), gain)]


def _loaded(problem: Problem, load: Int64, member: int, words: Words) -> str:
    uneven = int(problem.capacity.min()) != int(problem.capacity.max())
    capacity = f" at capacity {problem.capacity[member]}" if uneven else ""
    return f"{words.member(member)} has {load[member]} partition{'' if load[member] == 1 else 's'}{capacity}"


def _unsticky(owner: Int32, claims: Int32, moves: list[Move], words: Words) -> Violation:
    gain = gain_in_kept(owner, claims, moves)
    more, claimed = ("1 more partition", "it") if gain == 1 else (f"{gain} more partitions", "them")
    message = f"at the same balance {more} could stay with the owner that claims {claimed}; exchange {words.moves(moves)}"
    return Violation("sticky", message, 1, words.named(moves), gain)
