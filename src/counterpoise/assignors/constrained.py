"""`constrained-cooperative-sticky` (KAFKA-9987, KAFKA-12464): linear passes for equal subscriptions, else the engine."""

from __future__ import annotations

from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Strategy
from counterpoise.model.problem import Int32, Problem

__all__ = ["CONSTRAINED", "constrained"]


def constrained(problem: Problem) -> Int32:
    """Target owners, int32[P].

    With equal subscriptions: quotas C_f = floor(P/N) and C_c = ceil(P/N), the C_r = P mod N larger ones for the members with
    the most claims (ties by id); a member keeps its first claims in partition order; free partitions in the order t0p0, t1p0,
    t2p0, t0p1, .. go in turns, by id, to members that are short. Other groups get what `sticky` gives them. Racks are ignored.
    """
    from counterpoise.solver.engine import solve
    from counterpoise.solver.equal import assign_equal, common_subscribers

    members = common_subscribers(problem)
    return solve(problem, racks="ignore") if members is None else assign_equal(problem, members, by_index=True)


CONSTRAINED = Strategy(
    name="constrained-cooperative-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=constrained,
    guarantee="equal subscriptions: optimal balance and stickiness in linear passes, free partitions by index; others as sticky",
    reads=frozenset({"previous_owner", "capacity"}),
)
