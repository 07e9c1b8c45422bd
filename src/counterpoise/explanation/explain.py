"""explain: one to three sentences on why a partition is where a plan puts it."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoise.errors import some
from counterpoise.explanation.facts import Behind, Facts, gather
from counterpoise.laws.verify import AnyPlan
from counterpoise.model.problem import CONTESTED
from counterpoise.snapshot.group import Group, check_group

__all__ = ["explain"]


def explain(group: Group, plan: AnyPlan, topic: str, partition: int) -> str:
    """Why is this partition there, why did it move, or why has it no owner?

    Parameters
    ----------
    group : Group
    plan : Plan, or mapping of member id to topic to partition indices
    topic : str
    partition : int

    Returns
    -------
    str
        One to three sentences, from the group's claims and lag, and the plan's loads.

    Raises
    ------
    SnapshotError
        The topic or the partition does not exist, or the plan is not a mapping of that form; the message says what is.

    Examples
    --------
    >>> from counterpoise import Group, Member, assign, explain
    >>> group = Group({"t": 4}, [Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), Member("b", ["t"])])
    >>> explain(group, assign(group, "sticky"), "t", 0)
    't-0 stays with a, which owns it.'
    """
    facts = gather(check_group(group), plan, topic, partition)
    names = group.member_ids
    parts = [_where(facts, names), *_claims_that_lost(facts, names)]
    if facts.waits:
        holders = f"{names[facts.holder]} has" if facts.holder >= 0 else "the members that claim it have"
        parts.append(f"It is withheld in this round until {holders} revoked it.")
    return " ".join(parts)


def _where(facts: Facts, names: Sequence[str]) -> str:
    """The first sentence: where it goes, and why."""
    if len(facts.given) > 1:
        given = _listed(range(len(facts.given)), facts.given)
        return f"{facts.name} is given to {given}: the plan is broken, one partition has one owner."
    if facts.target < 0:
        return _unassigned(facts, names)
    if facts.target not in facts.subscribers:
        return f"{facts.name} is given to {names[facts.target]}, which does not subscribe to {facts.topic}: the plan is broken."
    if facts.keeper == facts.target:
        return f"{facts.name} stays with {names[facts.target]}, which owns it."
    if facts.keeper >= 0:
        return _moved(facts, names)
    return f"{_free(facts, names)} {_taken(facts, names)}"


def _unassigned(facts: Facts, names: Sequence[str]) -> str:
    if facts.given:
        return f"{facts.name} is given to {facts.given[0]}, which is no member of the group: the plan is broken."
    if facts.subscribers:
        could = _listed(facts.subscribers, names)
        subscribe = "subscribes" if len(facts.subscribers) == 1 else "subscribe"
        return f"{facts.name} has no owner in this plan though it could: {could} {subscribe} to {facts.topic}."
    before = f"; {names[facts.holder]}, which held it, no longer does" if facts.holder >= 0 else ""
    return f"{facts.name} has no owner because no member subscribes to {facts.topic}{before}."


def _moved(facts: Facts, names: Sequence[str]) -> str:
    """It had a valid owner and goes to another one."""
    old, new = facts.keeper, facts.target
    head = f"{facts.name} moves from {names[old]} to {names[new]}"
    if facts.behind is not None and _for_lag(facts, facts.behind):
        return f"{head} {_by_lag(facts, facts.behind, names)}"
    stays = int(facts.load[old]) + 1
    rest = int(facts.load[new]) - 1
    if facts.claimed[old] == facts.load[old] and facts.claimed[new] == facts.load[new]:
        had = f"{names[old]} still owns {facts.load[old]} and {names[new]} {facts.load[new]}"
        return f"{head} in an exchange: {had}; the counts of others, racks, the spread of topics or lag may ask for it."
    if facts.marginal.following[old] > facts.marginal.last[new]:
        quota = f"{names[old]} has {_share(facts, old)} without it"
        if facts.claimed[old] > facts.load[old]:
            quota = f"{names[old]} owned {facts.claimed[old]} and its share is {_share(facts, old)}"
        return f"{head}: {quota}, and {names[new]} would be short, with {rest} instead of {_share(facts, new)}."
    would = f"{names[old]} would have {stays} and {names[new]} {rest}"
    verdict = "as balanced" if facts.marginal.following[old] == facts.marginal.last[new] else "better balanced"
    maker = f"{facts.strategy} has other aims" if facts.strategy else "this plan has other aims"
    return f"{head}, though staying would be {verdict} ({would}): {maker}."


def _for_lag(facts: Facts, behind: Behind) -> bool:
    """Whether it moved for lag: one partition less would not balance the old owner, or it has all it may keep and a lag fell."""
    old, new = facts.keeper, facts.target
    no_better = facts.marginal.following[old] <= facts.marginal.last[new]
    return bool(no_better or (facts.claimed[old] <= facts.load[old] and behind.relieved))


def _by_lag(facts: Facts, behind: Behind, names: Sequence[str]) -> str:
    """What the move has to do with lag, in records behind."""
    old, new = names[facts.keeper], names[facts.target]
    if behind.old < behind.kept:
        return (
            f"for its lag of {behind.partition}: with all it owned, {old} would be {behind.kept} records behind; "
            f"now it is {behind.old}, and {new} is {behind.new}."
        )
    relief = ", so that another is relieved" if behind.relieved else ""
    return (
        f"in an exchange for lag: {old} takes on more than it gives, {behind.old} records behind instead of {behind.kept}"
        f"{relief}; {new} is {behind.new} behind."
    )


def _free(facts: Facts, names: Sequence[str]) -> str:
    """Why no member may keep it."""
    if facts.holder == CONTESTED:
        newest = facts.claims[0].generation
        when = "without a generation" if newest < 0 else f"in the same generation {newest}"
        rivals = [claim.member for claim in facts.claims if claim.generation == newest]
        nobody = "neither" if len(rivals) == 2 else "none of them"
        return f"{_listed(rivals, names)} claim {facts.name} {when}, so {nobody} counts as its owner."
    if facts.holder >= 0:
        return f"{names[facts.holder]} holds {facts.name} but no longer subscribes to {facts.topic}."
    return f"Nobody in the group owns {facts.name} (it is new, or its owner has left)."


def _taken(facts: Facts, names: Sequence[str]) -> str:
    """Why its new owner gets it."""
    new = facts.target
    others = [member for member in facts.subscribers if member != new]
    if not others:
        return f"It goes to {names[new]}, the only subscriber."
    without = int(facts.load[new]) - 1
    lightest = min(int(facts.marginal.following[member]) for member in others)
    if int(facts.marginal.last[new]) <= lightest:
        return f"It goes to {names[new]}, which would be short with {without} instead of {_share(facts, new)}."
    lighter = min(others, key=lambda member: (int(facts.marginal.following[member]), member))
    maker = f"{facts.strategy} has other aims" if facts.strategy else "this plan is not balanced"
    less = f"though {names[lighter]} has only {_share(facts, lighter)}"
    return f"It goes to {names[new]}, which then has {_share(facts, new)}, {less}: {maker}."


def _claims_that_lost(facts: Facts, names: Sequence[str]) -> list[str]:
    """Claims that are older than the one that counts."""
    if not facts.claims or facts.claims[0].generation == facts.claims[-1].generation:
        return []
    newest = facts.claims[0]
    stale = [claim for claim in facts.claims if claim.generation < newest.generation]
    ages = some([f"{names[claim.member]} ({_of_generation(claim.generation)})" for claim in stale], 3)
    against = names[newest.member] if facts.holder >= 0 else "its rivals"
    return [f"The claim of {ages} is older than that of {against} ({_of_generation(newest.generation)}) and does not count."]


def _share(facts: Facts, member: int) -> str:
    weighted = int(facts.capacity.min()) != int(facts.capacity.max())
    return f"{facts.load[member]}" + (f" (capacity {facts.capacity[member]})" if weighted else "")


def _of_generation(generation: int) -> str:
    return "no generation" if generation < 0 else f"generation {generation}"


def _listed(members: Sequence[int], names: Sequence[str]) -> str:
    shown = [names[member] for member in members[:4]]
    if len(members) > 4:
        return ", ".join(shown) + f" and {len(members) - 4} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
