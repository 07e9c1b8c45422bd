"""Ours and the clients' own sticky assignors in one group, any of them leading: never two owners, and who keeps what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients import rounds
from tests.clients.rounds import play

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS = 2_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 5
ALL = '{"ours under own": "keep all", "own under ours": "keep all"}'
UNREAD = '{"ours under own": "lose some", "own under ours": "keep all"}'
"""kafka-python 3 expects two bytes that nobody else writes before the user data of `sticky`, and reads nothing of ours."""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("kafka-python", [f"sticky: {UNREAD}", f"cooperative-sticky: {ALL}"]),
        ("kafka-python-3.0.0", [f"sticky: {UNREAD}", f"cooperative-sticky: {ALL}"]),
        ("kafka-python-2.3.0", [f"sticky: {ALL}"]),
        ("kafka-python-2.2.0", [f"sticky: {ALL}"]),
        ("aiokafka", [f"sticky: {ALL}"]),
        ("aiokafka-0.12.0", [f"sticky: {ALL}"]),
    ],
)
def test_no_partition_has_two_owners_and_history_is_lost_only_where_the_guide_says_so(version: str, expected: list[str]) -> None:
    """The lines are the table in docs/migrate.md."""
    host = "aiokafka" if version.startswith("aiokafka") else "kafka_python"
    older = [str(ROOT / ".oldest" / version)] if version[-1].isdigit() else []
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.beside_own", host, str(GROUPS)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*older, str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == expected


def play_some() -> None:
    for seed in range(20):
        play("kafka_python", "cooperative-sticky", seed, beside_own=True)


def test_a_leader_that_hands_out_what_others_hold_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    class Hasty(CooperativeStickyAssignor):  # type: ignore[misc]
        """kafka-python's own, without its first round."""

        assign = StickyPartitionAssignor.assign

    def hasty(*_: Any) -> list[Any]:
        return [Hasty]

    monkeypatch.setattr(rounds, "own_assignors", hasty)
    with pytest.raises(AssertionError, match="holds it"):
        play_some()
