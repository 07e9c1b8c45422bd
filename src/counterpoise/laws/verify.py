"""verify: checks a plan by names, from anywhere, against the laws of its group."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from counterpoise.laws.check_owners import check_owners, chosen
from counterpoise.laws.cooperative import added_and_revoked, withheld
from counterpoise.laws.lag_bound import lag_report
from counterpoise.laws.lag_law import carried_lag, count_band, lag
from counterpoise.laws.named_owners import owners_by_names
from counterpoise.laws.promises import counts_compared, promised
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.problem import UNOWNED, Int32, Problem
from counterpoise.snapshot.checks import checked
from counterpoise.snapshot.group import Group, check_group
from counterpoise.snapshot.json_text import shown
from counterpoise.snapshot.names import Assignment
from counterpoise.snapshot.plan import PLAN_ADVICE, Plan, lag_figures, moves_as_json
from counterpoise.snapshot.written import WrittenPlan, written

__all__ = ["AnyPlan", "owners_or_faults", "same_codes", "verify"]

AnyPlan: TypeAlias = Plan | WrittenPlan | Mapping[str, Mapping[str, Sequence[int]]]
"""A Plan, one read back from JSON, or {member id: {topic: [partitions]}} from anywhere."""

_FIGURES = {
    "complete": ("unassigned",),
    "balanced": ("loads", "spread"),
    "sticky": ("kept", "moved", "moves"),
    "withheld": ("withheld",),
}
"""Law -> figures of a plan: a false one is reported under this law."""


def verify(group: Group, plan: AnyPlan, laws: Iterable[str] | None = None) -> list[Violation]:
    """Check a plan against the laws; an empty list is a proof.

    Parameters
    ----------
    group : Group
    plan : Plan, WrittenPlan, the object that `Plan.to_json` writes, or mapping of member id to topic to partition indices
        A mapping by member ids is the target: the owners in the end. If `laws` are given, it is also what this round
        hands out. For a cooperative plan pass the plan itself: its `assignment` leaves out what is withheld. A plan is
        checked by its target and by the figures that it carries; if it is cooperative or `laws` are given, also by what
        this round hands out.
    laws : iterable of str, optional
        Names from `laws.LAWS`; default: valid, complete, balanced, sticky, withheld, added-and-revoked. A strategy
        that does not promise balance (range, say) may well fail `balanced`: that answers the question "is this plan
        optimal", not "did the strategy keep its word". Two strategies give something up on purpose, and their plans
        are checked for what these promise: `sticky-first` by the law of that name instead of balanced and sticky,
        `lag-sticky`, if lag is known, by `lag` instead of sticky (and by `counts` instead of balanced if it has a band).

    Returns
    -------
    list of Violation
        Each in plain words; for balance and stickiness with the moves that would be better. A plan that is not
        valid and complete is not checked further. If its target gives a partition twice, or names a member or a partition
        that does not exist, no law is proven, and that fault is reported whatever `laws` are given.

    Raises
    ------
    OptionError
        A name that is no law; or the law `lag` is asked for, and the group's lag is not known.
    SnapshotError
        The plan is not of the form above; the message names the path.

    Notes
    -----
    The proof is made from the group and the plan alone; no solver takes part. Linear in partitions and
    subscriptions, except the search for the certificate. Racks and the spread of single topics are not certified.
    """
    problem = check_group(group).problem()
    plan = written(plan) or plan
    whole = plan if isinstance(plan, (Plan, WrittenPlan)) else None
    wanted = chosen(promised(whole.strategy, whole.options, problem) if laws is None and whole is not None else laws)
    words = Words(problem, group.member_ids, group.topic_names)
    target, faults = owners_or_faults(group, plan)
    if faults:
        return faults
    figures, rounds = wanted & {"counts", "lag"}, wanted & {"withheld", "added-and-revoked"}
    found = check_owners(problem, target, (wanted - figures) | ({"valid", "complete"} if figures else set()), words=words)
    broken = {fault.law for fault in found}
    if whole is None:
        found = [_withheld_perhaps(problem, target, fault) for fault in found]
    if not broken & {"valid", "complete"}:
        if "counts" in wanted:
            found += count_band(problem, target, options=whole.options if whole else None, words=words)
        if whole is None:
            found += lag(problem, target, words=words) if "lag" in wanted else []
        elif (laws is None or "lag" in wanted) and "balanced" not in broken:
            found += _lag_faults(group, whole, target, words, limited="lag" in wanted)
    handed = target
    if laws is not None or (whole is not None and whole.protocol != "eager"):
        handed, faults = owners_or_faults(group, plan, now=True)
        found += [fault for fault in faults if rounds or fault.law in wanted]
        if not faults and "withheld" in wanted:
            unknown = not isinstance(plan, Plan) and (whole is None or whole.target is whole.assignment)
            found += withheld(problem, None if unknown else target, handed, words=words)
        if not faults and "added-and-revoked" in wanted:
            found += added_and_revoked(problem, handed, words=words)
    if isinstance(plan, WrittenPlan) and not broken & {"valid", "complete"}:
        found += _figure_faults(group, plan, target, handed, _FIGURES if laws is None else wanted)
    return found


def _withheld_perhaps(problem: Problem, target: Int32, fault: Violation) -> Violation:
    """What a cooperative round withholds is missing from the mapping it hands out: the message says what to pass instead."""
    missing = (target == UNOWNED) & np.repeat(np.diff(problem.subscriber_start) > 0, np.diff(problem.topic_start))
    if fault.law != "complete" or (problem.holder[missing] == UNOWNED).any():
        return fault
    hint = "; a member holds each of them, so a cooperative round would withhold them: if this is plan.assignment, pass the plan"
    return replace(fault, message=fault.message + hint)


def _lag_faults(group: Group, plan: Plan | WrittenPlan, target: Int32, words: Words, *, limited: bool) -> list[Violation]:
    """Check the lag figures that the plan carries; if `limited`, also its lag, unless those of `lag-sticky` prove it."""
    problem, said = group.problem(), plan.lag_figures
    if problem.lag is None:
        unknown = Violation("lag", "the plan carries figures about lag, and the lag of the group is not known")
        return [unknown] if said is not None else lag(problem, target, words=words) if limited else []
    if said is not None:
        report = lag_report(problem, target, counts=counts_compared(plan.strategy, plan.options))
        wrong = carried_lag(problem, target, said, lag_figures(report, group.member_ids, group.topic_names))
        if wrong or not limited or plan.strategy == "lag-sticky":
            return wrong
    return lag(problem, target, options=plan.options, words=words) if limited else []


def _figure_faults(group: Group, plan: WrittenPlan, target: Int32, handed: Int32, laws: Container[str]) -> list[Violation]:
    """Compare the figures in a plan's file, except lag, with those of its owners. Reports the first difference of each."""
    by_owners = Plan("", "", group.problem(), group.member_ids, group.topic_names, target, handed, prove=lambda: None)
    found = []
    for law, name in ((law, name) for law, names in _FIGURES.items() if law in laws for name in names):
        if plan.content.get(name) is None:
            continue
        stated = _parts(name, plan.content[name])
        actual = _parts(name, moves_as_json(by_owners.moves) if name == "moves" else getattr(by_owners, name))
        at = next((at for at in (*actual, *stated) if stated.get(at) != actual.get(at)), None)
        if at is not None:
            message = f"the plan says {shown(at, str)} {shown(stated.get(at))}, but by its owners it is {shown(actual.get(at))}"
            found.append(Violation(law, message))
    return found


def _parts(name: str, value: Any) -> dict[str, Any]:
    """A figure, or its parts: ``loads[a]``, ``moves[0]``."""
    if not isinstance(value, (Mapping, list)):
        return {name: value}
    return {f"{name}[{key}]": part for key, part in (value.items() if isinstance(value, Mapping) else enumerate(value))}


def owners_or_faults(group: Group, plan: AnyPlan, *, now: bool = False) -> tuple[Int32, list[Violation]]:
    """The target owners of a plan in the group's codes, or those that its round assigns `now`, and what has no code.

    Owners and faults are as `owners_by_names` returns them.
    """
    if isinstance(plan, Plan) and same_codes(group, plan):
        return plan.owner if now else plan.target_owner, []
    if isinstance(plan, (Plan, WrittenPlan)):
        return owners_by_names(group, plan.assignment if now else plan.target)
    return owners_by_names(group, checked(plan, Assignment, "plan", PLAN_ADVICE))


def same_codes(group: Group, plan: Plan) -> bool:
    """Whether plan and group number their members, topics and partitions alike."""
    return (
        tuple(plan.member_ids) == group.member_ids
        and tuple(plan.topic_names) == group.topic_names
        and np.array_equal(plan.problem.topic_start, group.problem().topic_start)
    )
