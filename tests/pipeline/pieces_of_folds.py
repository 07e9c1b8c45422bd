"""Replays of a group that are put away after any generation, and gone on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.replay_fold import Replay, ReplayFold

ASKED = ("range", "sticky", "cooperative-sticky")


def replayed_in_pieces(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What is told of each replay, by a fold that is made from text before every generation."""
    found: list[Replay] = []
    fold = ReplayFold(ASKED)
    for row in rows:
        last = [] if fold.last is None else [fold.last]
        fold = ReplayFold(ASKED, from_text(to_text(fold.state)))
        assert [one for again in last for one in fold.feed(again)] == []
        found += fold.feed(row)
    return [told(one) for one in [*found, *fold.close()]]


def told(replay: Replay) -> tuple[Any, ...]:
    """All that must be the same."""
    step = {name: value for name, value in replay.step.items() if name != "assignment"}
    return replay.row["log_offset"], step, replay.name, replay.mode, replay.owner.tolist(), replay.metrics, replay.matches
