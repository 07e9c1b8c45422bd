"""Two versions of counterpoise in one group, each leading the other. Minutes: in the long profile."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.fleet import ROOT, fleet
from tests.clients.live_runs import CLASS, crash_in_mid_rebalance, end, grow, read_on, run_of, sleep_beyond_the_session
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
OLD = "5a19fe1"
"""The oldest commit whose members and leaders write and read what those of today do."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of that commit, and the members of its tests; needs a clone with history."""
    tree = tmp_path_factory.mktemp("old")
    packed = subprocess.run(["git", "archive", OLD, "src", "tests"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    return tree


@pytest.mark.parametrize("strategy", CLASS)
@pytest.mark.parametrize("leader", ["old", "new"])
def test_two_versions_share_a_group_and_lead_it(broker: Broker, tmp_path: Path, old: Path, strategy: str, leader: str) -> None:
    """Joins, growth, a follower that sleeps beyond its session, a leader killed in a rebalance; all is kept that can be."""
    name = f"versions-{strategy}-{leader}"
    kinds = ["kafka_python", "aiokafka"]
    with fleet(broker, tmp_path, name, 10_000) as members:
        run = run_of(broker, members, strategy, "kafka_python", name)
        for at, kind in enumerate(kinds * 2):
            of = leader if at < 2 else "new" if leader == "old" else "old"
            more = {"tree": old} if of == "old" else {}
            member = kind if at == 0 else f"{kind}-{of}"
            deadly = {"deadly": str(tmp_path / "kafka_python.deadly")} if at == 0 else {}
            run.start(member, kind, **more, **deadly)
            run.settle()
        grow(run, 3)
        sleep_beyond_the_session(run, next(each for each in members.processes if each != "kafka_python"))
        crash_in_mid_rebalance(run)
        read_on(run)
        end(run)
