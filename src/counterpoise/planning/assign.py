"""assign: one group and a strategy's name in, a plan out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial

from counterpoise.assignors.registry import assignor, check_options
from counterpoise.assignors.registry import strategy as record
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import OptionError, SubscriptionWarning
from counterpoise.laws.certificate import certify
from counterpoise.laws.lag_bound import lag_report
from counterpoise.laws.owners import check_codes
from counterpoise.laws.promises import counts_compared
from counterpoise.model.arrays import locked
from counterpoise.model.problem import Problem
from counterpoise.model.withhold import withhold
from counterpoise.snapshot.frozen import frozen
from counterpoise.snapshot.group import Group, check_group
from counterpoise.snapshot.plan import Plan

__all__ = ["assign", "planned", "problem_of", "protocol_of"]


def assign(group: Group, strategy: str = "sticky", *, protocol: str | None = None, **options: object) -> Plan:
    """Plan one group.

    Parameters
    ----------
    group : Group
    strategy : str
        A registered name, see `strategies`.
    protocol : "eager" or "cooperative", optional
        The members' rebalance protocol; default: what the strategy prefers. Under the cooperative protocol a partition that
        another member holds is withheld for one round.
    **options
        The strategy's own options.

    Raises
    ------
    UnknownStrategyError, OptionError
        The strategy is not registered; or it does not speak the protocol, has no such option, or the value does not fit it.
    ProblemError
        A strategy of your own returns something else than a member's code or UNOWNED for each partition.

    Warns
    -----
    SubscriptionWarning
        Members subscribe to topics that the group does not have (yet); they are named, and their subscribers counted.

    Notes
    -----
    Pure: the same group gives the same plan, whatever the order of its members and topics.
    """
    chosen = protocol_of(strategy, protocol)
    return planned(problem_of(group), group.member_ids, group.topic_names, strategy, chosen, options)


def problem_of(group: Group) -> Problem:
    """The problem of a group, which is checked. Warns of missing topics, with the line of the user's call."""
    problem = check_group(group).problem()
    if group.missing_topics:
        warnings.warn(SubscriptionWarning(group.missing_topics), stacklevel=3)
    return problem


def planned(
    problem: Problem,
    member_ids: Sequence[str],
    topic_names: Sequence[str],
    strategy: str,
    protocol: str,
    options: Mapping[str, object],
) -> Plan:
    """The plan of a problem whose members and topics have these names, in code order."""
    bound = check_options(strategy, options)
    target = assignor(strategy, **bound)(problem)
    check_codes(problem, target, f"strategy {strategy!r}, owner")
    used = {name: option.default for name, option in record(strategy).options.items()} | bound
    measure = partial(lag_report, problem, target, counts=counts_compared(strategy, used))
    return Plan(
        strategy=strategy,
        protocol=protocol,
        problem=problem,
        member_ids=member_ids,
        topic_names=topic_names,
        target_owner=locked(target),
        owner=withhold(problem, target) if protocol == COOPERATIVE else target,
        prove=partial(certify, problem, target),
        options=frozen(used),
        measure_lag=None if problem.lag is None else measure,
    )


def protocol_of(name: str, wanted: str | None = None) -> str:
    """The protocol a strategy runs under: the given one, which it must support, or its preferred one."""
    supported = record(name).protocols
    if wanted is None:
        return supported[0]
    if wanted not in supported:
        raise OptionError(f"strategy {name!r} does not speak the {wanted} protocol; it speaks: {', '.join(supported)}")
    return wanted
