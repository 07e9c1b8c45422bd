"""What is dealt in turns: class by class everybody with a slot once, then whoever has another, and so on."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.solver.lag import parts
from counterpoise.solver.lag.parts import in_turns


@pytest.mark.parametrize("short", [0, 32])
def test_turns_are_those_of_a_loop_over_classes_and_turns(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    """Sorted in 32 bits, and in 64."""
    monkeypatch.setattr(parts, "_SHORT", short)
    rng = np.random.default_rng(3)
    for _ in range(100):
        kinds, members = rng.integers(1, 12, 2).tolist()
        slots = rng.integers(0, int(rng.integers(1, 9)), (kinds, members))
        rows = slots.tolist()
        wanted = [member for row in rows for turn in range(max(row)) for member in range(members) if row[member] > turn]
        assert in_turns(slots).tolist() == wanted
