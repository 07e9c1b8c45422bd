"""The past of a group, put away after any of its steps and gone on with, is told as if it had been looked at in one go."""

from __future__ import annotations

from typing import Any

from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.history import history_of
from counterpoise.pipeline.incremental.kept.kept_history import KeptHistory
from tests.pipeline.conftest import Audited


def test_a_history_goes_on_after_every_step(audited: Audited) -> None:
    of: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(audited.table("rebalances"), key=lambda row: (row["log_partition"], row["log_offset"])):
        of.setdefault(row["group_id"], []).append(row)
    assert max(map(len, of.values())) > 5
    for steps in of.values():
        history, text = KeptHistory(), to_text({})
        for step in steps:
            history = KeptHistory(from_text(text))
            history.add(step)
            text = to_text(history.state)
        assert KeptHistory(from_text(text)).summary() == history_of(steps)


def test_a_history_without_steps_is_nothing() -> None:
    assert KeptHistory().state == {}
    assert KeptHistory({}).summary() == {}
