"""The past of a group, put away after any of its steps and gone on with, is told as if it had been looked at in one go."""

from __future__ import annotations

from typing import Any

from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.history import history_of
from counterpoise.pipeline.incremental.kept.kept_history import KeptHistory
from counterpoise.pipeline.rebalances import steps_of_group
from counterpoise.pipeline.schemas import REBALANCES
from tests.pipeline.conftest import Audited
from tests.pipeline.rows import created, generation, member


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


def test_what_no_recording_at_hand_has_goes_on_too() -> None:
    """A failed generation, and a client that leaves and comes back."""
    a, both = {"t": [0, 1]}, ({"t": [0]}, {"t": [1]})
    pair = [member("a-1", both[0]), member("b-1", both[1])]
    rows = [
        created(),
        generation(1, *pair),
        generation(4, member("a-1", a)),
        generation(5, *pair),
        generation(6, member("a-1", a)),
    ]
    steps = [dict.fromkeys(REBALANCES.names) | step for step in steps_of_group(rows)]
    history = KeptHistory()
    for step in steps:
        history = KeptHistory(from_text(to_text(history.state)))
        history.add(step)
    told = KeptHistory(from_text(to_text(history.state))).summary()
    assert told == history_of(steps)
    assert (told["failed_generation"], told["restart_clients"], told["leave_clients"]) == (4, ["b"], ["b"])


def test_a_history_without_steps_is_nothing() -> None:
    assert KeptHistory().state == {}
    assert KeptHistory({}).summary() == {}
