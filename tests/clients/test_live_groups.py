"""Live groups of every kind of member on a real broker: members join, the leader crashes, members leave, and the invariants hold.

test_live_survival.py does everything to a group. Groups in which a client's own assignors take part are the long profile's
(`make soak`). That the leader really was the one a run is about is read from the coordinator's record.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.fleet import fleet
from tests.clients.live_runs import EVERY, LONG, SESSION_MS, crash_in_mid_rebalance, finish, run_of, scale_out
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
SHORT = [
    ("sticky", "java"),
    ("cooperative-sticky", "aiokafka"),
]


@pytest.mark.parametrize(("group", "first"), [each for each in EVERY if "own" in each[0]] if LONG else SHORT)
def test_any_kind_of_member_may_lead_any_other(broker: Broker, tmp_path: Path, group: str, first: str) -> None:
    """Scale out under each leader, the leader's crash, scale in."""
    name = f"lead-{group}-{first}".replace("_", "-").replace(" ", "-")
    with fleet(broker, tmp_path, name, SESSION_MS) as members:
        run = run_of(broker, members, group, first, name)
        scale_out(run)
        crash_in_mid_rebalance(run)
        finish(run)
