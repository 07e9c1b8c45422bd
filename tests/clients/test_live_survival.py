"""Everything is done to live groups on a real broker, under every leader, and the invariants of a run hold (`make soak`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.fleet import fleet
from tests.clients.live_runs import (
    EVERY,
    GROUPS,
    SESSION_MS,
    crash_in_mid_rebalance,
    finish,
    grow,
    lead_again,
    leader_of,
    restart_the_broker,
    rolling_restart,
    run_of,
    scale_out,
    sleep_beyond_the_session,
    sleep_in_mid_rebalance,
)
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(("group", "first"), [each for each in EVERY if "own" not in each[0]])
def test_a_group_survives_all_that_happens_to_groups(broker: Broker, tmp_path: Path, group: str, first: str) -> None:
    """Scale out, growth, sleeps, rolling restart, broker restart, crash of the leader, sleep of the next one, scale in."""
    name = f"all-{group}-{first}".replace("_", "-").replace(" ", "-")
    with fleet(broker, tmp_path, name, SESSION_MS) as members:
        run = run_of(broker, members, group, first, name)
        scale_out(run)
        grow(run, 3)
        kinds = GROUPS[group]
        run.begins("sleep of a follower")
        sleep_beyond_the_session(run, kinds[(kinds.index(first) + 1) % len(kinds)])
        rolling_restart(run)
        restart_the_broker(run)
        lead_again(run)
        sleep_in_mid_rebalance(run)
        lead_again(run)
        crash_in_mid_rebalance(run)
        sleep_beyond_the_session(run, leader_of(run))
        finish(run)
