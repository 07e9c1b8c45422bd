"""check_owners: checks one plan against the laws that the caller names, over integer arrays."""

from __future__ import annotations

from collections.abc import Iterable

from counterpoise.errors import InvariantError, OptionError, check_names
from counterpoise.laws.certificate import balance_violation, certify, check
from counterpoise.laws.lag_law import count_band, lag
from counterpoise.laws.owners import complete, valid
from counterpoise.laws.violation import Violation, Words, of_partitions
from counterpoise.model.problem import Int32, Problem

__all__ = ["DEFAULT_LAWS", "LAWS", "check_owners", "chosen", "sticky_first"]

LAWS = {
    "valid": "the owner of a partition is a member that subscribes to its topic",
    "complete": "every partition with a subscriber is owned by exactly one member, and only partitions that exist are",
    "balanced": "the loads, sorted descending, are lexicographically smallest (with capacities: the sum of load²/capacity)",
    "sticky": "balanced, and at that balance the most partitions stay with the member that claims them",
    "sticky-first": "no valid claim moves, and the loads are as balanced as that allows",
    "counts": "every member's count is within a stated band of one that it has in a balanced plan (no band stated: 0)",
    "lag": "the largest lag per capacity is within the tolerance of a proven bound, or the plan says by how much it misses",
    "withheld": "a cooperative round withholds exactly what another member holds",
    "added-and-revoked": "no partition is added to one member in the round in which another loses it",
}
"""The laws of a plan: name and meaning. The last two are about cooperative rounds."""

DEFAULT_LAWS = ("valid", "complete", "balanced", "sticky", "withheld", "added-and-revoked")


def chosen(laws: Iterable[str] | None) -> frozenset[str]:
    """The laws to check; None means all of `DEFAULT_LAWS`.

    Raises `OptionError` if a name is no law's.
    """
    laws = DEFAULT_LAWS if laws is None else laws
    check_names("laws", laws)
    wanted: list[object] = list(laws)
    unknown = sorted((name for name in wanted if not isinstance(name, str) or name not in LAWS), key=str)
    if unknown:
        raise OptionError(f"laws: {unknown[0]!r} is no law; there are: {', '.join(LAWS)}")
    return frozenset(name for name in wanted if isinstance(name, str))


def check_owners(
    problem: Problem,
    owner: Int32,  # int32[P]: the target owners, from anywhere
    # Names from `LAWS`; default `DEFAULT_LAWS`. The two cooperative ones need what a round hands out: only `verify` checks them.
    laws: Iterable[str] | None = None,
    *,
    words: Words | None = None,  # Names for the messages
) -> list[Violation]:
    """Check a plan against laws; an empty list proves them.

    Violations are in the order of `LAWS`. A plan that is not valid and complete is not checked further: nothing else can be
    proven about it, so its faults are reported if any law beyond these two was asked for.

    Balance and stickiness are proven by `certificate.check` in linear time from a certificate found by search.
    """
    wanted = chosen(laws)
    words = Words(problem) if words is None else words
    broken = [*valid(problem, owner, words=words), *complete(problem, owner, words=words)]
    if broken:
        beyond = wanted & {"balanced", "sticky", "sticky-first", "counts", "lag"}
        return [fault for fault in broken if beyond or fault.law in wanted]
    found: list[Violation] = []
    if wanted & {"balanced", "sticky"}:
        certificate = certify(problem, owner, words=words)
        if certificate.sticky and check(problem, owner, certificate):
            raise InvariantError("a certificate does not prove what it claims; please report this group and plan")
        found += [fault for fault in certificate.violations if fault.law in wanted]
        if not found and not certificate.balanced:
            found.append(Violation("sticky", "the plan is not balanced, and stickiness is measured at the best balance"))
    if "sticky-first" in wanted:
        found += sticky_first(problem, owner, words=words)
    if "counts" in wanted:
        found += count_band(problem, owner, words=words)
    if "lag" in wanted:
        found += lag(problem, owner, words=words)
    return found


def sticky_first(problem: Problem, owner: Int32, *, words: Words | None = None) -> list[Violation]:
    """Law ``sticky-first`` (KIP-54's "sticky yet fair"): no valid claim moves, and the loads are as balanced as that allows.

    Every partition whose claimant still subscribes stays with it, and the loads are lexicographically smallest among all plans
    that do so (with capacities: the sum of load²/capacity is smallest).

    Needs a valid, complete plan and says so otherwise. O(P + S) and a few sweeps over the exchange graph.
    """
    words = Words(problem) if words is None else words
    broken = [*valid(problem, owner, words=words), *complete(problem, owner, words=words)]
    if broken:
        return broken
    claims = problem.previous_owner
    moved = (claims >= 0) & (claims != owner)
    if moved.any():
        return of_partitions("sticky-first", moved, "taken from the member that claims it", words, owner)
    found = balance_violation(problem, owner, claims < 0, words)
    return [Violation("sticky-first", fault.message, fault.count, fault.moves, fault.gain) for fault in found]
