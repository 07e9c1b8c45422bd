"""Replays of one group's generations by each strategy: with the recorded input of its leader (or the broker), and closed loop.

Closed loop: a strategy starts from its own previous plan instead of the recorded assignment, which shows its long-term effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.assignors.registry import assignor, strategies, strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.laws.lag_bound import lag_floor
from counterpoise.metrics import Figures, Metrics, Query
from counterpoise.model.problem import UNOWNED, Int32
from counterpoise.model.withhold import withhold
from counterpoise.pipeline.history.inputs import Inputs, Planned, inputs_of, replayable
from counterpoise.pipeline.history.plan_cache import PlanCache, PlanLookup

__all__ = [
    "BY_LAG",
    "CLOSED_LOOP",
    "ENDED",
    "EPOCH_TYPE",
    "OBSERVED",
    "REPLAY",
    "STEP_COLUMNS",
    "Replay",
    "ReplayFold",
    "as_generation",
    "comparable",
]

OBSERVED = "observed"
REPLAY = "replay"
CLOSED_LOOP = "closed_loop"
BY_LAG = ("lag", "lag-sticky")
"""Strategies that need lag."""
STEP_COLUMNS = ("incarnation", "kind", "protocol_kind")
"""The columns of a step that a replay of its generation needs."""
_ROUNDS = ("rebalance", "cooperative_followup")

Row = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Replay:
    """One strategy's plan for one generation."""

    row: Row  # The generation, with its step in `rebalances`
    # Strategy (or `OBSERVED`) and mode
    name: str
    mode: str
    inputs: Inputs
    owner: Int32  # int32[P]: The target
    figures: Figures  # Figures of all plans of the generation, computed on first access
    number: int  # The number of this plan among them
    matches: bool  # The plan equals the recorded assignment

    @property
    def metrics(self) -> Metrics:
        """The figures of the plan."""
        return self.figures.of(self.number)

    @property
    def declared(self) -> bool:
        """Whether the group ran this strategy in this generation; the broker's assignors are no strategies, even of one name."""
        return bool(self.name == self.row["protocol"]) and self.inputs.kind != "server"


def comparable(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The strategies to replay: `names`, or all. Raises `UnknownStrategyError` if one is not registered.

    Those of `BY_LAG` are not replayed for generations with unknown lag.
    """
    return strategies() if names is None else tuple(strategy(name).name for name in names)


class ReplayFold:
    """The fold of one group's generations, in log order, to their replays. A generation is replayed when the next one is known.

    Rows come from `group_generations` or `as_generation`, each with its `step` (`STEP_COLUMNS`). `plans` is a cache shared
    between groups. Memory is `plans` and three generations. To continue from `state`, use the same strategies and first feed the
    row that was `last`.
    """

    def __init__(self, names: Sequence[str], state: Mapping[str, Any] | None = None, plans: PlanCache | None = None) -> None:
        saved = state or {}
        self._names, self._plans = names, PlanCache() if plans is None else plans
        self._past = {name: Planned(**about) for name, about in saved.get("past", {}).items()}
        self._before: Row | None = saved.get("before")
        self._migrated: bool = saved.get("migrated", False)
        self.last: Row | None = None  # the last generation, which is not replayed yet

    @property
    def state(self) -> dict[str, Any]:
        """The state without `last`, because later records (and lag) may change the replays of that generation."""
        past = {name: vars(plan) for name, plan in self._past.items()}
        return {"past": past, "before": self._before, "migrated": self._migrated}

    def feed(self, row: Row) -> Iterator[Replay]:
        """Yield the replays of the generation before `row`."""
        if self.last is not None:
            yield from self._replay(self.last, row)
        self.last = row

    def close(self) -> Iterator[Replay]:
        """Yield the replays of the last generation, as if none followed. The fold cannot continue: take its `state` before."""
        if self.last is not None:
            yield from self._replay(self.last, None)

    def _replay(self, row: Row, following: Row | None) -> Iterator[Replay]:
        step = row["step"]
        if row.get("recreated"):
            self._past = {name: plan.without(row["recreated"]) for name, plan in self._past.items()}
        if row["deleted"] or not row["members"]:
            self._migrated = _is_migrated(row, following)
            if not self._migrated:
                self._past, self._before = {}, None
            return
        # The broker keeps the assignment when the protocol changes: it is no plan of a strategy.
        migrated, self._migrated = self._migrated, False
        if step["kind"] in _ROUNDS and replayable(row) and not migrated:
            ahead = following if following is not None and following["members"] and replayable(following) else None
            inputs = inputs_of(row, step["protocol_kind"], self._before, ahead)
            yield from _generation(row, inputs, self._names, self._past, self._plans)
        self._before = row


def _is_migrated(row: Row, following: Row | None) -> bool:
    """Whether the group continues under the other protocol: in the same batch of the log."""
    if following is None or not row["deleted"] or following["deleted"]:
        return False
    now, then = row["step"], following["step"]
    changes = (now["protocol_kind"] == "server") != (then["protocol_kind"] == "server")
    # If the group was empty, the broker creates a new one and keeps nothing.
    return changes and bool(row["log_ts"] == following["log_ts"] and now["incarnation"] == then["incarnation"])


def _generation(row: Row, inputs: Inputs, names: Sequence[str], past: dict[str, Planned], plans: PlanCache) -> Iterator[Replay]:
    """The replays of one generation; updates `past`. All plans are computed here and measured later."""
    problem, declared = inputs.problem, None if inputs.kind == "server" else row["protocol"]
    second_round = row["step"]["kind"] == "cooperative_followup"
    lookup = PlanLookup(problem, plans)
    able = [name for name in names if problem.lag is not None or name not in BY_LAG]
    targets = {name: lookup.plan(name, problem) for name in able if not second_round or name == declared}
    # The fewest moves are figures of all plans, also if `sticky` is not replayed.
    optimal, cooperative = targets["sticky"] if "sticky" in targets else lookup.plan("sticky", problem), inputs.kind != "eager"
    observed = lookup.intern(inputs.observed if declared is None else _resolved(inputs, targets.get(declared), declared))
    as_observed = lookup.intern(inputs.observed)
    distinct = {id(owner): owner for owner in targets.values()}  # equal plans are one object
    recorded = {key for key, owner in distinct.items() if _is_recorded(inputs, owner)}
    made = [(OBSERVED, REPLAY, True)]
    queries = [Query(problem, observed, cooperative, optimal, inputs.duplicates)]
    for name, owner in targets.items():
        able_to = COOPERATIVE in strategy(name).protocols
        made.append((name, REPLAY, id(owner) in recorded))
        queries.append(Query(problem, owner, able_to if name != declared else cooperative, optimal))
        if not second_round:
            own = lookup.with_claims(inputs.translated(past.get(name)))
            owner = lookup.plan(name, own)
            past[name] = inputs.planned(owner)
            made.append((name, CLOSED_LOOP, owner is as_observed))
            queries.append(Query(own, owner, able_to))
    figures = plans.unmeasured.add(queries, None if problem.lag is None else lag_floor(problem, targets.get("lag-sticky")))
    for number, ((name, mode, matches), one) in enumerate(zip(made, queries, strict=True)):
        yield Replay(row, name, mode, inputs, one.owner, figures, number, matches)


def _resolved(inputs: Inputs, declared: Int32 | None, name: str) -> Int32:
    """The observed target. If another rebalance came before the second round, the new owners of withheld partitions are not
    recorded; then they are those of the declared strategy, if its first round equals the record.
    """
    unknown = inputs.observed == UNOWNED
    if inputs.kind == "eager" or declared is None or not unknown.any():
        return inputs.observed
    if _is_recorded(inputs, declared):
        return declared
    finished = assignor(name)(inputs.problem.replace(previous_owner=inputs.observed))
    return finished if bool(np.all(unknown | (finished == inputs.observed))) else inputs.observed


def _is_recorded(inputs: Inputs, owner: Int32) -> bool:
    """Whether the first round of a plan is the assignment in the record."""
    first = withhold(inputs.problem, owner) if inputs.kind == "cooperative" else owner
    return inputs.duplicates == 0 and bool(np.array_equal(first, inputs.recorded))


ENDED = ("deleted", "migrated")
"""Kinds of steps at which all members leave together."""
EPOCH_TYPE = "consumer"
"""Type of groups whose assignor is the broker and whose members consume partitions. Each of their steps is a generation."""


def as_generation(step: Row) -> dict[str, Any]:
    """A row of `rebalances` of a group of `EPOCH_TYPE`, as a row of `group_generations` with its step.

    If `subscriptions` is null the topics of members are unknown, and the generation is not `replayable`. Members do not report
    what they own: they own what the previous generation assigned.
    """
    of_member = {one["member_id"]: one for one in step["subscriptions"] or ()}
    members = []
    for member in step["assignment"] or ():
        own = of_member.get(member["member_id"], {"group_instance_id": None, "topics": None})
        members.append({**member, "group_instance_id": own["group_instance_id"], "topics": own["topics"]})
    return {
        **{name: step[name] for name in ("group_id", "log_partition", "log_offset", "log_ts", "generation", "protocol")},
        "protocol_type": "consumer",
        "leader_library": None,
        "deleted": step["kind"] in ENDED,
        "members": members,
        "recreated": step.get("recreated"),
        "step": {name: step[name] for name in STEP_COLUMNS},
    }
