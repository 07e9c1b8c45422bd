"""The folds of a group over all its rows at once, and with the state saved and restored before every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from counterpoise.pipeline.history.classic_fold import ClassicFold
from counterpoise.pipeline.history.fold_state import decode_state, encode_state, restored
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.history.replay_fold import STEP_COLUMNS, Replay, ReplayFold
from counterpoise.pipeline.history.step_figures import StepFigures

ASKED = ("range", "sticky", "cooperative-sticky")


def history_of(steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of one group's steps in log order; the same if the state is saved and restored before every step."""
    whole, cut = StepFigures(), StepFigures()
    for step in steps:
        whole.add(step)
        cut = restored(StepFigures(), decode_state(encode_state(vars(cut))))
        cut.add(step)
    assert cut.summary() == whole.summary()
    return whole.summary()


def with_steps(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Generations of a classic group with their steps; of other rows nothing is missing."""
    fold = ClassicFold()
    for row in rows:
        yield row if "step" in row else {**row, "step": dict.fromkeys(STEP_COLUMNS) | fold.feed(row)}


def replays_of_group(rows: Iterable[Mapping[str, Any]], names: Sequence[str], plans: PlanCache | None = None) -> Iterator[Replay]:
    """Replays of one group's generations, in log order."""
    fold = ReplayFold(names, plans=plans)
    for row in with_steps(rows):
        yield from fold.feed(row)
    yield from fold.close()


def replayed_in_pieces(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The figures of each replay, by a fold that is made from its saved state before every generation."""
    found: list[Replay] = []
    fold = ReplayFold(ASKED)
    for row in with_steps(rows):
        last = [] if fold.last is None else [fold.last]
        fold = ReplayFold(ASKED, decode_state(encode_state(fold.state)))
        assert [one for again in last for one in fold.feed(again)] == []
        found += fold.feed(row)
    return [comparable(one) for one in [*found, *fold.close()]]


def comparable(replay: Replay) -> tuple[Any, ...]:
    """All that must be the same."""
    step = {name: value for name, value in replay.row["step"].items() if name != "assignment"}
    return replay.row["log_offset"], step, replay.name, replay.mode, replay.owner.tolist(), replay.metrics, replay.matches
