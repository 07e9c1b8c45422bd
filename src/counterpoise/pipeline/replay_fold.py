"""One classic group's generations through every strategy: with the inputs the leader really had, and closed loop.

Closed loop: a strategy is fed its own previous result instead of the group's, so that its habits show over time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.assignors.registry import assignor, strategies, strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.laws.lag_bound import lag_report
from counterpoise.metrics import Metrics
from counterpoise.metrics.figures import lag_floor
from counterpoise.model.problem import UNOWNED, Int32, Problem
from counterpoise.model.withhold import withhold
from counterpoise.pipeline.classic_fold import ClassicFold
from counterpoise.pipeline.inputs import Inputs, Planned, inputs_of, replayable
from counterpoise.pipeline.replay_memo import Memo

__all__ = ["BY_LAG", "CLOSED_LOOP", "OBSERVED", "REPLAY", "Replay", "ReplayFold", "comparable", "replays_of_group"]

OBSERVED = "observed"
REPLAY = "replay"
CLOSED_LOOP = "closed_loop"
BY_LAG = ("lag", "lag-sticky")
"""Strategies that deal by lag."""
_ROUNDS = ("rebalance", "cooperative_followup")

Row = Mapping[str, Any]


@dataclass(frozen=True)
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
    metrics : Metrics
    matches : bool
        It hands out what the record hands out.
    """

    row: Row
    step: Mapping[str, Any]
    name: str
    mode: str
    inputs: Inputs
    owner: Int32
    metrics: Metrics
    matches: bool

    @property
    def declared(self) -> bool:
        """Whether the group ran this strategy in this generation."""
        return bool(self.name == self.row["protocol"])


def comparable(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The strategies to compare: `names`, or all. Those of `BY_LAG` are left out of generations whose lag nobody knows.

    Raises
    ------
    UnknownStrategyError
    """
    if names is not None:
        return tuple(strategy(name).name for name in names)
    return strategies()


def replays_of_group(rows: Iterable[Row], names: Sequence[str]) -> Iterator[Replay]:
    """Replays of one group's rows of `group_generations`, in log order; memory is that of three generations."""
    fold = ReplayFold(names)
    for row in rows:
        yield from fold.feed(row)
    yield from fold.close()


class ReplayFold:
    """One group's generations, in log order, to the replays of each: finished when the generation after it is known.

    Parameters
    ----------
    names : sequence of str
        Strategies.
    state : mapping, optional
        `state` of an earlier fold of this group with the same strategies (see `fold_state`): feed it the last generation again,
        then what came after it.
    """

    def __init__(self, names: Sequence[str], state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._names = names
        self._fold = ClassicFold(saved.get("fold"))
        self._past = {name: _planned(about) for name, about in saved.get("past", {}).items()}
        self._before: Row | None = saved.get("before")
        self._held: Row | None = None

    @property
    def state(self) -> dict[str, Any]:
        """What the last generation is held against; not that itself, because what comes after it (and lag) may change it."""
        past = {name: vars(plan) for name, plan in self._past.items()}
        return {"fold": self._fold.state, "past": past, "before": self._before}

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
        """The replays of the last generation, as if none came after it. The fold cannot go on: take its `state` before."""
        if self._held is not None:
            yield from self._replay(self._held, None)

    def _replay(self, row: Row, following: Row | None) -> Iterator[Replay]:
        step = self._fold.feed(row)
        if row["deleted"] or not row["members"]:
            self._past, self._before = {}, None
            return
        if step["kind"] in _ROUNDS and replayable(row):
            ahead = following if following is not None and following["members"] and replayable(following) else None
            inputs = inputs_of(row, step["protocol_kind"], self._before, ahead)
            yield from _generation(row, step, inputs, self._names, self._past)
        self._before = row


def _planned(about: Mapping[str, Any]) -> Planned:
    return Planned(about["members"], about["topics"], about["topic_start"], about["owner"])


def _generation(row: Row, step: Row, inputs: Inputs, names: Sequence[str], past: dict[str, Planned]) -> Iterator[Replay]:
    problem = inputs.problem
    second_round = step["kind"] == "cooperative_followup"
    declared = row["protocol"]
    able = [name for name in names if problem.lag is not None or name not in BY_LAG]
    memo = Memo(problem, lambda: _floor(problem, targets))
    targets = {name: memo.plan(name, problem) for name in able if not second_round or name == declared}
    optimal = targets.get("sticky")
    cooperative = inputs.kind == "cooperative"
    observed = _resolved(inputs, targets.get(declared), declared)
    figures = memo.figures(problem, observed, cooperative=cooperative, optimal=optimal, duplicates=inputs.duplicates)
    yield Replay(row, step, OBSERVED, REPLAY, inputs, observed, figures, True)
    for name, owner in targets.items():
        cooperative = COOPERATIVE in strategy(name).protocols if name != declared else inputs.kind == "cooperative"
        figures = memo.figures(problem, owner, cooperative=cooperative, optimal=optimal)
        yield Replay(row, step, name, REPLAY, inputs, owner, figures, _matches(inputs, owner, problem))
        if not second_round:
            yield _closed_loop(row, step, inputs, name, past, memo)


def _floor(problem: Problem, targets: Mapping[str, Int32]) -> int | None:
    """The proven bound on the largest member lag that all plans of one generation are held against."""
    if problem.lag is None:
        return None
    floor = lag_floor(problem, problem.lag)
    if "lag-sticky" not in targets:
        return floor
    return max(floor, math.ceil(lag_report(problem, targets["lag-sticky"]).bound))


def _closed_loop(row: Row, step: Row, inputs: Inputs, name: str, past: dict[str, Planned], memo: Memo) -> Replay:
    problem = inputs.problem
    claims = np.full(problem.n_partitions, -1, np.int32) if name not in past else inputs.carry(past[name])
    own = memo.claiming(claims)
    owner = memo.plan(name, own)
    past[name] = inputs.planned(owner)
    figures = memo.figures(own, owner, cooperative=COOPERATIVE in strategy(name).protocols)
    return Replay(row, step, name, CLOSED_LOOP, inputs, owner, figures, bool(np.array_equal(owner, inputs.observed)))


def _resolved(inputs: Inputs, declared: Int32 | None, name: str) -> Int32:
    """The observed target. Where another rebalance came before the second round, nobody saw whom the withheld partitions
    were meant for: the declared strategy tells, beginning with what the record hands out at once.
    """
    unknown = inputs.observed == UNOWNED
    if inputs.kind == "eager" or declared is None or not unknown.any():
        return inputs.observed
    if _matches(inputs, declared, inputs.problem):
        return declared
    finished = assignor(name)(inputs.problem.replace(previous_owner=inputs.observed))
    return finished if bool(np.all(unknown | (finished == inputs.observed))) else inputs.observed


def _matches(inputs: Inputs, owner: Int32, problem: Problem) -> bool:
    handed = withhold(problem, owner) if inputs.kind == "cooperative" else owner
    return bool(np.array_equal(handed, inputs.handed)) and inputs.duplicates == 0
