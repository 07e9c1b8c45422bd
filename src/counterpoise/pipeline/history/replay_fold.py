"""One group's generations through every strategy: with the inputs its leader (or the broker) really had, and closed loop.

Closed loop: a strategy is fed its own previous result instead of the group's, so that its habits show over time.
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
from counterpoise.model.problem import UNOWNED, Int32, Problem
from counterpoise.model.withhold import withhold
from counterpoise.pipeline.history.classic_fold import ClassicFold
from counterpoise.pipeline.history.inputs import Inputs, Planned, inputs_of, replayable
from counterpoise.pipeline.history.owners import left_by
from counterpoise.pipeline.history.replay_memo import PlanLookup, Plans

__all__ = ["BY_LAG", "CLOSED_LOOP", "FOLDED", "OBSERVED", "REPLAY", "Replay", "ReplayFold", "comparable"]

OBSERVED = "observed"
REPLAY = "replay"
CLOSED_LOOP = "closed_loop"
BY_LAG = ("lag", "lag-sticky")
"""Strategies that deal by lag."""
FOLDED = ("incarnation", "kind", "protocol_kind")
"""What a replay needs of the step that a generation made."""
_ROUNDS = ("rebalance", "cooperative_followup")

Row = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Replay:
    """One strategy's plan for one generation.

    Attributes
    ----------
    row, step : mapping
        The generation and its step in `rebalances`.
    name, mode : str
        Strategy (or `OBSERVED`) and mode.
    inputs : Inputs
        What the group looked like.
    owner : int32[P]
        The target.
    figures : Figures
        Of all plans of the generation, measured when they are looked at.
    number : int
        Which of them this is.
    matches : bool
        It hands out what the record hands out.
    """

    row: Row
    step: Mapping[str, Any]
    name: str
    mode: str
    inputs: Inputs
    owner: Int32
    figures: Figures
    number: int
    matches: bool

    @property
    def metrics(self) -> Metrics:
        """How good the plan is and what it costs."""
        return self.figures.of(self.number)

    @property
    def declared(self) -> bool:
        """Whether the group ran this strategy in this generation; a broker's assignor is none of them, whatever its name."""
        return bool(self.name == self.row["protocol"]) and self.inputs.kind != "server"


def comparable(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The strategies to compare: `names`, or all. Those of `BY_LAG` are left out of generations whose lag nobody knows.

    Raises
    ------
    UnknownStrategyError
    """
    if names is not None:
        return tuple(strategy(name).name for name in names)
    return strategies()


class ReplayFold:
    """One group's generations, in log order, to the replays of each: finished when the generation after it is known.

    Rows are those of `group_generations`, all of them with the step they made as `folded` (columns `FOLDED`) or none, and those
    of `epochs.as_generation`. Memory is that of three generations, and of `plans`.

    Parameters
    ----------
    names : sequence of str
        Strategies.
    state : mapping, optional
        `state` of an earlier fold of this group with the same strategies (see `fold_state`): feed it the last generation again,
        then what came after it.
    plans : Plans, optional
        Cache of plans, shared between groups. It changes no result and is not part of the state.
    """

    def __init__(self, names: Sequence[str], state: Mapping[str, Any] | None = None, plans: Plans | None = None) -> None:
        saved = state or {}
        self._names, self._plans = names, Plans() if plans is None else plans
        self._fold = ClassicFold(saved.get("fold"))
        self._past = {name: _planned(about) for name, about in saved.get("past", {}).items()}
        self._before: Row | None = saved.get("before")
        self._carried_over: bool = saved.get("carried_over", False)
        self._held: Row | None = None

    @property
    def state(self) -> dict[str, Any]:
        """The state without `last`, because later records (and lag) may change the replays of that generation."""
        past = {name: vars(plan) for name, plan in self._past.items()}
        return {"fold": self._fold.state, "past": past, "before": self._before, "carried_over": self._carried_over}

    @property
    def last(self) -> Row | None:
        """The last generation, which the one after it will finish."""
        return self._held

    def feed(self, row: Row) -> Iterator[Replay]:
        """The replays of the generation before `row`, which are finished by it."""
        if self._held is not None:
            yield from self._replay(self._held, row)
        self._held = row

    def close(self) -> Iterator[Replay]:
        """The replays of the last generation, as if none came after it. The fold cannot continue: take its `state` before."""
        if self._held is not None:
            yield from self._replay(self._held, None)

    def _replay(self, row: Row, following: Row | None) -> Iterator[Replay]:
        step = row.get("step") or row.get("folded") or self._fold.feed(row)
        if row.get("recreated"):
            self._forget(row["recreated"])
        if row["deleted"] or not row["members"]:
            self._ended(row, following)
            return
        # What a group has on its way to the other protocol is carried over by the broker: it is nobody's plan.
        carried_over, self._carried_over = self._carried_over, False
        if step["kind"] in _ROUNDS and replayable(row) and not carried_over:
            ahead = following if following is not None and following["members"] and replayable(following) else None
            inputs = inputs_of(row, step["protocol_kind"], self._before, ahead)
            yield from _generation(row, step, inputs, self._names, self._past, self._plans)
        self._before = row

    def _forget(self, topics: Sequence[str]) -> None:
        """Remove owners of recreated topics from past plans; equal plans stay one object."""
        known = {id(plan): plan.without(topics) for plan in self._past.values()}
        self._past = {name: known[id(plan)] for name, plan in self._past.items()}

    def _ended(self, row: Row, following: Row | None) -> None:
        """The group is empty or deleted, or continues under the other protocol with what its members hold."""
        self._carried_over = _crosses(row, following)
        if not self._carried_over:
            self._past, self._before = {}, None
        if "step" not in row or not row["deleted"]:
            return
        incarnation = row["step"]["incarnation"]
        if self._carried_over:
            left = left_by(() if self._before is None else self._before["members"])
            self._fold.inherit(left, row["generation"], incarnation)
        else:
            self._fold.end(incarnation)


def _crosses(row: Row, following: Row | None) -> bool:
    """Whether the group continues under the other protocol with what its members hold: in the same batch of the log."""
    if following is None or not row["deleted"] or following["deleted"]:
        return False
    return ("step" in row) != ("step" in following) and bool(row["log_ts"] == following["log_ts"])


def _planned(about: Mapping[str, Any]) -> Planned:
    return Planned(about["members"], about["topics"], about["topic_start"], about["owner"])


def _generation(
    row: Row, step: Row, inputs: Inputs, names: Sequence[str], past: dict[str, Planned], plans: Plans
) -> Iterator[Replay]:
    """The replays of one generation; updates `past`. All plans are computed here and measured later."""
    problem, declared = inputs.problem, None if inputs.kind == "server" else row["protocol"]
    second_round = step["kind"] == "cooperative_followup"
    lookup = PlanLookup(problem, plans)
    able = [name for name in names if problem.lag is not None or name not in BY_LAG]
    targets = {name: lookup.plan(name, problem) for name in able if not second_round or name == declared}
    # Whichever strategies are compared, the fewest moves are known.
    optimal, cooperative = targets["sticky"] if "sticky" in targets else lookup.plan("sticky", problem), inputs.kind != "eager"
    matching = _Matching(inputs)
    observed = lookup.known(inputs.observed if declared is None else _resolved(inputs, targets.get(declared), declared))
    made = [(OBSERVED, REPLAY, True)]
    queries = [Query(problem, observed, cooperative, optimal, inputs.duplicates)]
    closed_loop = _ClosedLoop(inputs, lookup)
    for name, owner in targets.items():
        able_to = COOPERATIVE in strategy(name).protocols
        made.append((name, REPLAY, matching.first_round(owner)))
        queries.append(Query(problem, owner, able_to if name != declared else cooperative, optimal))
        if not second_round:
            own = closed_loop.after(past.get(name))
            owner = lookup.plan(name, own)
            past[name] = closed_loop.planned(owner)
            made.append((name, CLOSED_LOOP, matching.whole(owner)))
            queries.append(Query(own, owner, able_to))
    figures = plans.waiting.add(queries, None if problem.lag is None else lag_floor(problem, targets.get("lag-sticky")))
    for number, ((name, mode, matches), one) in enumerate(zip(made, queries, strict=True)):
        yield Replay(row, step, name, mode, inputs, one.owner, figures, number, matches)


class _ClosedLoop:
    """Problems and plans of a generation in closed loop; strategies with equal plans share one object."""

    def __init__(self, inputs: Inputs, lookup: PlanLookup) -> None:
        self._inputs, self._lookup = inputs, lookup
        self._after: dict[int, tuple[Planned | None, Problem]] = {}
        self._planned: dict[int, Planned] = {}

    def after(self, before: Planned | None) -> Problem:
        """The generation with claims from an earlier plan."""
        known = self._after.get(id(before))
        if known is None:
            known = self._after[id(before)] = before, self._lookup.claiming(self._inputs.carry(before))
        return known[1]

    def planned(self, owner: Int32) -> Planned:
        """The plan of an owner array, one object per array."""
        known = self._planned.get(id(owner))
        if known is None:
            known = self._planned[id(owner)] = self._inputs.planned(owner)
        return known


def _resolved(inputs: Inputs, declared: Int32 | None, name: str) -> Int32:
    """The observed target. If another rebalance came before the second round, the record does not show the new owners of the
    withheld partitions. Then they are those of the declared strategy, if its first round equals the record.
    """
    unknown = inputs.observed == UNOWNED
    if inputs.kind == "eager" or declared is None or not unknown.any():
        return inputs.observed
    if _Matching(inputs).first_round(declared):
        return declared
    finished = assignor(name)(inputs.problem.replace(previous_owner=inputs.observed))
    return finished if bool(np.all(unknown | (finished == inputs.observed))) else inputs.observed


class _Matching:
    """Whether plans equal the record; equal plans are the same object and are compared once."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._first: dict[int, bool] = {}
        self._whole: dict[int, bool] = {}
        self._handed, self._observed = inputs.handed.tobytes(), inputs.observed.tobytes()

    def first_round(self, owner: Int32) -> bool:
        """Whether the first round of the plan is the assignment in the record."""
        key, inputs = id(owner), self._inputs
        found = self._first.get(key)
        if found is None:
            handed = withhold(inputs.problem, owner) if inputs.kind == "cooperative" else owner
            found = self._first[key] = handed.tobytes() == self._handed and inputs.duplicates == 0
        return found

    def whole(self, owner: Int32) -> bool:
        """Whether the plan is the observed target."""
        found = self._whole.get(id(owner))
        if found is None:
            found = self._whole[id(owner)] = owner.tobytes() == self._observed
        return found
