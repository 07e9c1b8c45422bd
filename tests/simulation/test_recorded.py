"""The simulator's prediction against the recording: same generations, same partitions revoked; every deviation by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import ScenarioError
from counterpoise.simulation import simulate
from counterpoise.simulation.recorded import recorded

FILE = Path(__file__).parent.parent / "data" / "recorded" / "shop-generations.json.gz"
GROUPS: dict[str, list[dict[str, Any]]] = {}
for row in json.loads(gzip.decompress(FILE.read_bytes())):
    GROUPS.setdefault(row["group_id"], []).append(row)
DEVIATIONS = {"shipping-planner": (22, 22)}
"""Two members joined while a follow-up was under way; the simulated follow-up is over by then."""
REPLAYED = sorted(set(GROUPS) - {"connect-cluster", "payment-flagger"})


@pytest.mark.parametrize("group", REPLAYED)
def test_the_prediction_is_the_recording(group: str) -> None:
    past = recorded(GROUPS[group], name=group)
    outcome = simulate(past.scenario, [past.strategy])[past.strategy]
    assert (outcome.rounds, outcome.revoked) == DEVIATIONS.get(group, (past.generations, past.revoked))
    assert (outcome.settled, outcome.double_owned_seconds) == (True, 0)


def test_what_was_recorded_is_counted_by_hand() -> None:
    """order-service: 12 partitions; scale out to 4, in to 2, out to 3. Eager, so each survivor gives up all it has."""
    past = recorded(GROUPS["order-service"])
    assert (past.strategy, past.generations, past.revoked, past.missing, past.unexplained) == ("range", 6, 53, 0, 0)
    assert [event.do for event in past.scenario.events] == [*["join"] * 4, "leave", "leave", "join"]


def test_last_tuesday_with_cooperative_sticky() -> None:
    past = recorded(GROUPS["web-analytics"])
    found = simulate(past.scenario, [past.strategy, "cooperative-sticky"])
    assert found["cooperative-sticky"].revoked < found[past.strategy].revoked


@pytest.mark.parametrize("group", ["connect-cluster"])
def test_a_group_without_consumers_cannot_be_replayed(group: str) -> None:
    with pytest.raises(ScenarioError, match="no generation of consumers"):
        recorded(GROUPS[group], name=group)


def test_generations_of_streams_and_connect_are_no_consumers() -> None:
    rows = GROUPS["order-service"]
    with pytest.raises(ScenarioError, match="no generation of consumers"):
        recorded([{**row, "protocol": "stream"} for row in rows])
    planned = [row for row in rows if row["members"]]
    other = {**planned[1], "protocol_type": "connect", "members": [{**planned[1]["members"][0], "member_id": "worker"}]}
    past = recorded([other if row is planned[1] else row for row in rows])
    assert past.generations == 5
