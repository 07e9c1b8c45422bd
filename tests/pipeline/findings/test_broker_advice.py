"""What is said of KIP-848 groups: judged like classic ones, and told what a broker's groups can be told."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.findings.advice import advice
from tests.pipeline.findings.test_findings import CASES, healthy, run

BY_BROKER = {"group_type": "consumer", "protocol": None, "protocol_kind": "server", "libraries": None, "leader_libraries": None}
BY_BROKER |= {"compared_generations": None, "replay_fidelity": None}
WORSE = [
    run("observed", "replay", moved=12, revoked=12, spread=5),
    run("cooperative-sticky", "closed_loop", moved=4, revoked=4),
    run("range", "closed_loop", moved=9, revoked=20) | {"topic_spread_peak": 0, "spread_peak": 9},
]


def found(kind: str, **changes: Any) -> str:
    (finding,) = [finding for finding in findings_of(healthy(**CASES[kind] | BY_BROKER | changes)) if finding.kind == kind]
    assert "None" not in f"{finding.title} {finding.evidence} {finding.cost} {finding.action}"
    return f"{finding.evidence}\n{finding.action}"


def test_a_healthy_group_of_a_broker_has_no_findings() -> None:
    assert list(findings_of(healthy(**BY_BROKER))) == []


@pytest.mark.parametrize("kind", ["unbalanced", "needless_moves", "topic_skew"])
def test_a_broker_is_not_advised_to_run_a_clients_strategy(kind: str) -> None:
    """The way back is told where the strategy of the clients is predicted to stop less; else there is none."""
    for runs, back in ((WORSE, True), (CASES[kind].get("strategies") or healthy()["strategies"], False)):
        told = found(kind, strategies=runs)
        assert told.startswith("the broker's assignor: ")
        assert ("group.protocol=classic\n" in told) is back
        assert ("keep the strategy" in told) is not back
        assert "two rolling restarts" not in told


def test_another_assignor_of_the_broker_is_named_where_it_brings_one_for_that() -> None:
    assert "group.remote.assignor=uniform" in found("unbalanced", protocol="range")
    assert "group.remote.assignor" not in found("unbalanced", protocol="uniform")
    assert "group.remote.assignor" not in found("unbalanced")
    runs = [run("observed", "replay"), run("range", "closed_loop") | {"topic_spread_peak": 0}]
    told = found("topic_skew", protocol="uniform", strategies=runs)
    assert "group.remote.assignor=range" in told
    assert "group.protocol=classic" not in told, "the clients' range is eager: it stops all"


def test_moves_are_said_of_as_many_generations_as_were_looked_at() -> None:
    assert "over 5 generations 30 partitions moved" in found("needless_moves")


def test_nothing_a_broker_brings_deals_by_lag() -> None:
    assert "no assignor of the broker uses lag" in found("lag_on_one_owner")


def test_advice_is_given_where_a_strategy_would_have_done_better_over_the_same_epochs() -> None:
    told = advice(healthy(**BY_BROKER, strategies=WORSE))
    assert told["suggested_strategy"] == "cooperative-sticky"
    assert "members at most 1 partitions apart instead of 5, 4 moves instead of 12" in told["suggestion"]
    assert "group.protocol=classic" in told["migration_note"]
    assert advice(healthy(**BY_BROKER)) == {}
    # A partition that moves stops for two rounds there, for one here.
    few = [run("observed", "replay", revoked=9), run("cooperative-sticky", "closed_loop", revoked=4)]
    assert advice(healthy(**BY_BROKER, strategies=few)) == {}
    changes = BY_BROKER | told | {"strategies": WORSE}
    (finding,) = (one for one in findings_of(healthy(**changes)) if one.kind == "better_strategy")
    assert finding.numbers["saved_partition_seconds"] == 2
    assert advice(healthy(**BY_BROKER | {"group_type": "share"}, strategies=WORSE)) == {}
