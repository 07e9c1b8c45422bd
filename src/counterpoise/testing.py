"""`check_strategy`: all laws that a strategy of your own must keep, on random groups, as one line of its tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from counterpoise.assignors.strategy import COOPERATIVE, EVERYTHING, Assignor, Strategy
from counterpoise.errors import OptionError, check_names
from counterpoise.laws.check_owners import LAWS, check_owners
from counterpoise.laws.rounds import idempotent, pure, two_rounds
from counterpoise.laws.violation import Violation
from counterpoise.model.problem import CONTESTED, UNOWNED, Problem, Racks

__all__ = ["check_strategy", "random_problem"]


def check_strategy(strategy: Strategy, *, laws: Iterable[str] = (), groups: int = 200) -> None:
    """Check a strategy, with its default options, on random groups.

    Every strategy must keep these laws. Owners are int32[P] and subscribe to the topic. Every partition with a subscriber has an
    owner. Equal problems get equal plans. A plan depends only on what `Strategy.reads` lists. `Strategy.prepare` gives the plans
    of the kernel. If it is cooperative, a rebalance ends with its second round.

    Parameters
    ----------
    strategy : Strategy
        It need not be registered.
    laws : iterable of str
        Further laws: names in `counterpoise.laws.LAWS` that are about target owners, such as "balanced" and "sticky"; or
        "idempotent".
    groups : int
        Number of groups: `random_problem(0)` to `random_problem(groups - 1)`.

    Raises
    ------
    AssertionError
        With the number of the first group that breaks a law, and what is wrong with its plan.
    OptionError
        A name in `laws` is unknown, or of a law about a round.

    Notes
    -----
    Errors of `Strategy.kernel` and `Strategy.prepare` are raised unchanged, with the number of the group as a note.
    """
    further = _known(laws)
    for number in range(groups):
        problem = random_problem(number)
        try:
            found = _violations(strategy, problem, random_problem(number, other_values=number + groups), further)
        except Exception as error:
            error.add_note(_header(strategy, number))
            raise
        if found:
            raise AssertionError("\n".join([_header(strategy, number), *(f"{one.law}: {one.message}" for one in found)]))


def _known(laws: Iterable[str]) -> set[str]:
    check_names("laws", laws)
    known = {*LAWS, "idempotent"} - {"withheld", "added-and-revoked"}  # these are about a round, and always checked
    if unknown := sorted(set(laws) - known):
        raise OptionError(f"laws: {unknown[0]!r} is no law of a target; there are: {', '.join(sorted(known))}")
    return set(laws)


def _header(strategy: Strategy, number: int) -> str:
    return f"strategy {strategy.name!r} on counterpoise.testing.random_problem({number}):"


def _violations(strategy: Strategy, problem: Problem, other: Problem, laws: set[str]) -> list[Violation]:
    assign: Assignor = strategy.kernel
    found = pure(assign, problem)
    if found:
        return found
    owner = assign(problem)
    found = check_owners(problem, owner, {"valid", "complete", *laws} - {"idempotent"})
    if "idempotent" in laws:
        found += idempotent(assign, problem)
    if COOPERATIVE in strategy.protocols:
        found += two_rounds(assign, problem)
    for name in sorted(EVERYTHING - strategy.reads):
        changed = {"holder": problem.holder} | {name: getattr(other, name)}  # by default `holder` follows `previous_owner`
        if not np.array_equal(assign(problem.replace(**changed)), owner):
            found.append(Violation("reads", f"the plan depends on {name}, which Strategy.reads does not list"))
    if strategy.prepare is not None:
        claimed = problem.replace(previous_owner=other.previous_owner, holder=other.holder)
        prepared, expected = strategy.prepare(problem), assign(claimed)
        plans = [(prepared(claimed), expected), (prepared(problem), owner), (prepared(claimed), expected)]
        if not all(np.array_equal(plan, wanted) for plan, wanted in plans):
            found.append(Violation("prepare", "Strategy.prepare gives another plan than the kernel if claims differ"))
    return found


def random_problem(number: int, *, other_values: int | None = None) -> Problem:
    """Random group `number`, the same in every process: up to 7 members, 5 topics and 40 partitions.

    Among them are groups without members, members without topics, topics without partitions, contested and stale claims,
    capacities, racks and lag. `other_values`: seed for owners, capacities, lag, racks and static ranks. Members, topics and
    subscriptions stay those of `number`.
    """
    rng = np.random.default_rng([number, 1])
    members, counts = int(rng.integers(0, 8)), rng.integers(0, 9, int(rng.integers(0, 6)))
    share = rng.choice([1.0, 0.6])
    listed = [np.flatnonzero(rng.random(members) < share) for _ in counts]
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    ends = np.cumsum([0, *(len(one) for one in listed)])
    subscriber = np.concatenate([np.empty(0, np.int32), *listed]).astype(np.int32)
    rng = np.random.default_rng([number if other_values is None else other_values, 2])
    size = int(start[-1])
    holder = rng.integers(CONTESTED, members, size)
    topic = np.repeat(np.arange(len(counts)), counts)
    keeps = [at == CONTESTED or at in listed[one] for at, one in zip(holder, topic, strict=True)]
    values: dict[str, Any] = {
        "holder": holder,
        "previous_owner": np.where(keeps, holder, UNOWNED) if size else holder,
        "capacity": rng.integers(1, 4, members) if rng.random() < 0.5 else np.ones(members, np.int64),
        "lag": rng.integers(0, 10 ** int(rng.integers(1, 9)), size),
        "racks": Racks(
            rng.integers(-1, 3, members).astype(np.int32), np.arange(size + 1), rng.integers(0, 3, size).astype(np.int32)
        ),
        "static_rank": rng.permutation(members),
    }
    return Problem(members, start, ends, subscriber, **values)
