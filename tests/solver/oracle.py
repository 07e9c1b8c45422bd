"""Independent oracles: SciPy's assignment and integer programs over single partitions, and brute force for tiny problems."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import block_array


def options_of(problem):
    """Members that may own each partition, a list of lists."""
    lists = []
    for topic in range(problem.n_topics):
        members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]].tolist()
        lists += [members] * int(problem.topic_start[topic + 1] - problem.topic_start[topic])
    return lists


def rack_match(problem, partition, member):
    if problem.racks is None:
        return 0
    home = int(problem.racks.rack_of_member[member])
    start, end = problem.racks.replica_start[partition : partition + 2]
    return int(home >= 0 and home in problem.racks.replica_rack[start:end].tolist())


def score(problem, owner):
    """(unowned, sum of load**2 / capacity, kept, rack matches) of a plan; raises where a plan is invalid."""
    loads = np.zeros(problem.n_members, int)
    kept = matched = unowned = 0
    for partition, members in enumerate(options_of(problem)):
        member = int(owner[partition])
        if member < 0:
            assert not members, f"partition {partition} has subscribers and no owner"
            unowned += 1
            continue
        assert member in members, f"partition {partition} is owned by {member}, which does not subscribe"
        loads[member] += 1
        kept += member == int(problem.previous_owner[partition])
        matched += rack_match(problem, partition, member)
    cost = sum((Fraction(int(load) ** 2, int(c)) for load, c in zip(loads, problem.capacity, strict=True)), Fraction(0))
    return unowned, cost, kept, matched


def spread(problem, owner):
    """Sum over topics and members of (partitions of the topic on the member) squared."""
    counts = np.zeros((problem.n_topics, problem.n_members + 1), int)
    np.add.at(counts, (problem.topic_of_partition(), owner), 1)
    return int((counts[:, : problem.n_members] ** 2).sum())


def worth_of(problem, weights, fixed):
    """Rows: partitions with subscribers; columns: what each member is worth to them, minus infinity if it may not own them."""
    stay, match = weights
    worth = np.full((problem.n_partitions, problem.n_members), -np.inf)
    for partition, members in enumerate(options_of(problem)):
        previous = int(problem.previous_owner[partition])
        for member in [previous] if fixed and previous in members else members:
            worth[partition, member] = stay * (member == previous) + match * rack_match(problem, partition, member)
    served = np.flatnonzero(np.isfinite(worth).any(axis=1))
    return worth[served], served


def units_of(owners):
    """A unit for every entry: its owner (sorted), and 2k - 1 if it is the owner's k-th, so that k units cost k squared."""
    owner = np.sort(owners)
    return owner, 2 * (np.arange(len(owner)) - np.searchsorted(owner, owner)) + 1


def optimum(problem, weights=(1, 0), fixed=False):
    """A plan of the least cost, by SciPy's assignment of partitions to units of members: the k-th costs (2k - 1) / capacity.

    `weights` = (stay, match): what keeping and a rack match are worth; `fixed` pins valid claims. Balance always comes first:
    its step is larger than everything the others can add up to. All costs are whole numbers that floats hold exactly.
    Returns an owner per partition.
    """
    owner = np.full(problem.n_partitions, -1, np.int32)
    worth, served = worth_of(problem, weights, fixed)
    if len(served):
        member, odd = units_of(np.nonzero(np.isfinite(worth))[1])
        step = 2 * (sum(weights) + 1) * (len(served) + 1) + 1
        marginal_cost = odd * (np.lcm.reduce(problem.capacity) // problem.capacity[member]) * step
        assert int(marginal_cost.max()) * len(served) < 2**53
        rows, units = linear_sum_assignment(marginal_cost - worth[:, member])
        owner[served[rows]] = member[units]
    return owner


def least_spread(problem, weights, fixed=False):
    """The least `spread` of all plans that are as good as `optimum`, by an integer program (HiGHS).

    Variables: who owns what, the k-th unit of each member, and the k-th unit of each member within a topic.
    """
    worth, served = worth_of(problem, weights, fixed)
    if not len(served):
        return 0
    row, member = np.nonzero(np.isfinite(worth))
    topic_member = problem.topic_of_partition()[served][row] * problem.n_members + member
    (unit, odd), (pair, cost) = units_of(member), units_of(topic_member)
    marginal_cost = odd * (np.lcm.reduce(problem.capacity) // problem.capacity[unit])
    best = optimum(problem, weights, fixed)[served]
    least = sum(marginal_cost[unit == owner][:load].sum() for owner, load in enumerate(np.bincount(best)))
    most = worth[np.arange(len(best)), best].sum()
    rules = block_array(
        [
            [one_of(row, row), None, None],
            [one_of(member, member), -one_of(member, unit), None],
            [one_of(topic_member, topic_member), None, -one_of(topic_member, pair)],
            [None, marginal_cost[None, :], None],
            [worth[row, member][None, :], None, None],
        ]
    )
    sums = np.concatenate([np.ones(len(served)), np.zeros(rules.shape[0] - len(served) - 2), [least, most]])
    goal = np.concatenate([np.zeros(len(row) + len(unit)), cost])
    found = milp(goal, integrality=np.ones(len(goal), int), bounds=Bounds(0, 1), constraints=LinearConstraint(rules, sums, sums))
    assert found.success, found.message
    return round(found.fun)


def one_of(names, entries):
    """A row for each name: 1 where the entry is this name."""
    return (np.unique(names)[:, None] == entries).astype(float)


def brute_force(problem):
    """The best (cost, -kept) over every valid plan; only for tiny problems."""
    lists = [members or [-1] for members in options_of(problem)]
    best = None
    for owner in itertools.product(*lists):
        _, cost, kept, _ = score(problem, owner)
        if best is None or (cost, -kept) < best:
            best = (cost, -kept)
    return best
