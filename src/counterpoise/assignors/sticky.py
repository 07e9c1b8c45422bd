"""Optimal balance, then what history says: `sticky` and its variants for the cooperative protocol, without history, and pinned.

KIP-54, KIP-341 and KIP-429; KAFKA-9987 and KAFKA-12464 for `constrained-cooperative-sticky`; KIP-49 for `fair`; `sticky-first` is
KIP-54's "sticky yet fair".
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Assignor, Option, Strategy
from counterpoise.model.problem import Int32, Problem
from counterpoise.model.withhold import final_owners

if TYPE_CHECKING:
    from counterpoise.solver.engine import Evenness, History, RackOrder

__all__ = ["CONSTRAINED", "COOPERATIVE_STICKY", "FAIR", "STICKY", "STICKY_FIRST", "optimal", "prepare_optimal"]

_OPTIONS = MappingProxyType(
    {
        "racks": Option(
            "rank of rack matches: after stickiness or before it (balance always comes first), or ignored",
            "after",
            ("after", "before", "ignore"),
        ),
        "evenness": Option(
            "how evenly each topic is spread over members: near (heuristic, fast) or exact, as far as the other aims allow",
            "near",
            ("near", "exact"),
        ),
    }
)
_READS = frozenset({"previous_owner", "holder", "capacity", "racks"})


def optimal(problem: Problem, *, history: History = "prefer", racks: RackOrder = "after", evenness: Evenness = "near") -> Int32:
    """Optimal target owners, int32[P]; options and guarantee are those of `counterpoise.solver.engine.solve`.

    Among optimal owners these are ones that the second round of a cooperative rebalance plans again (`final_owners`).
    """
    return prepare_optimal(problem, history=history, racks=racks, evenness=evenness)(problem)


def prepare_optimal(
    problem: Problem, *, history: History = "prefer", racks: RackOrder = "after", evenness: Evenness = "near"
) -> Assignor:
    """`optimal` with these options, for problems that differ from this one only in claims."""
    from counterpoise.solver.engine import prepare

    prepared = prepare(problem, history=history, racks=racks, evenness=evenness)
    if history == "ignore":
        return prepared.plan
    return partial(final_owners, assign=prepared.plan, depends_on_kept=prepared.depends_on_kept)


def _constrained(problem: Problem) -> Int32:
    """Target owners, int32[P].

    With equal subscriptions: quotas C_f = floor(P/N) and C_c = ceil(P/N), the C_r = P mod N larger ones for the members with
    the most claims above C_f (then by id); a member keeps its first claims in partition order; free partitions in the order t0p0,
    t1p0, t2p0, t0p1, .. go in turns, by id, to members that are short. Other groups get what `sticky` gives them, racks ignored.
    """
    from counterpoise.solver.equal import assign_equal, common_subscribers

    members = common_subscribers(problem)
    if members is None:
        return optimal(problem, racks="ignore")
    return final_owners(problem, partial(assign_equal, members=members, by_index=True), depends_on_kept=True)


STICKY = Strategy(
    name="sticky",
    protocols=(EAGER,),
    kernel=optimal,
    prepare=prepare_optimal,
    guarantee="optimal balance, then maximal stickiness, then rack matches; any subscriptions",
    options=_OPTIONS,
    reads=_READS,
)

COOPERATIVE_STICKY = replace(
    STICKY,
    name="cooperative-sticky",
    protocols=(COOPERATIVE, EAGER),
    guarantee="the target of sticky; partitions that change hands are withheld until revoked",
)

CONSTRAINED = Strategy(
    name="constrained-cooperative-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=_constrained,
    guarantee="equal subscriptions: optimal balance and stickiness in linear passes, free partitions by index; others as sticky",
    reads=_READS - {"racks"},
)

FAIR = replace(
    STICKY,
    name="fair",
    kernel=partial(optimal, history="ignore"),
    prepare=partial(prepare_optimal, history="ignore"),
    guarantee="optimal balance, then rack matches, whatever was owned before",
    reads=_READS - {"previous_owner", "holder"},
)

STICKY_FIRST = replace(
    STICKY,
    name="sticky-first",
    protocols=(EAGER, COOPERATIVE),
    kernel=partial(optimal, history="pin"),
    prepare=partial(prepare_optimal, history="pin"),
    guarantee="valid claims never move; the rest is as balanced as that allows",
)
