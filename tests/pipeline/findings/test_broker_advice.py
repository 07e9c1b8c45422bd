"""Findings about KIP-848 groups: by the rules of classic groups, with advice that the broker can carry out."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.findings.actions import parts_of
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
    """The way back is advised if the strategy of the clients is predicted to stop less, and only then."""
    for runs, back in ((WORSE, True), (CASES[kind].get("strategies") or healthy()["strategies"], False)):
        text = found(kind, strategies=runs)
        assert text.startswith("the broker's assignor: ")
        assert ("group.protocol=classic\n" in text) is back
        assert ("keep the strategy" in text) is not back
        assert "two rolling restarts" not in text


def test_another_assignor_of_the_broker_is_advised_only_where_it_helps() -> None:
    assert "group.remote.assignor=uniform" in found("unbalanced", protocol="range")
    assert "group.remote.assignor" not in found("unbalanced", protocol="uniform")
    assert "group.remote.assignor" not in found("unbalanced")
    runs = [run("observed", "replay"), run("range", "closed_loop") | {"topic_spread_peak": 0}]
    text = found("topic_skew", protocol="uniform", strategies=runs)
    assert "group.remote.assignor=range" in text
    assert "group.protocol=classic" not in text, "the clients' range is eager: it stops all"


def test_a_way_back_is_lines_to_copy() -> None:
    text = found("unbalanced", strategies=WORSE)
    assert text.endswith(
        "\n  group.protocol=classic"
        "\n  java:\n    partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        "\n  librdkafka:\n    partition.assignment.strategy=cooperative-sticky"
    )


@pytest.mark.parametrize("protocol", [None, "uniform"])
def test_a_way_back_leaves_out_what_java_refuses_under_the_classic_protocol(protocol: str | None) -> None:
    text = found("unbalanced", strategies=WORSE, protocol=protocol)
    assert ("without group.remote.assignor, with\n  group.protocol=classic" in text) == (protocol is not None)


@pytest.mark.parametrize("protocol", [None, "uniform"])
def test_where_range_spreads_topics_as_well_the_broker_s_is_named_first(protocol: str | None) -> None:
    loops = [run(name, "closed_loop") for name in ("cooperative-sticky", "range")]
    runs = [run("observed", "replay", moved=12, revoked=12), *loops]
    text = found("topic_skew", protocol=protocol, strategies=runs)
    assert "range never had any topic more than 1 apart" in text
    assert "\nthe broker has an assignor for that; every member with\n  group.remote.assignor=range" in text


def test_members_that_the_broker_s_range_leaves_idle_are_not_stopped_but_given_partitions() -> None:
    """Also if the classic protocol is predicted to stop longer."""
    few = [run("observed", "replay", revoked=4, spread=2), run("range", "closed_loop", spread=2)]
    runs = [*few, *(run(one, "closed_loop", revoked=40, seconds=900.0) for one in ("cooperative-sticky", "sticky"))]
    about = {"members_now": 5, "partitions_now": 6, "spread_now": 2, "strategies": runs}
    text = found("idle_members", protocol="range", **about)
    assert "change the strategy\nthe broker has an assignor for that; every member with\n  group.remote.assignor=uniform" in text
    assert "stop 2 members" not in text
    assert "stop 2 members" in found("idle_members", protocol="uniform", **about)
    row = healthy(**CASES["idle_members"] | BY_BROKER | {"protocol": "range"} | about)
    assert [part["kind"] for part in parts_of(row, findings_of(row))] == ["switch_strategy"]


@pytest.mark.parametrize("kind", ["failed_generations", "slow_leader"])
def test_what_leaders_did_before_the_broker_assigned_asks_for_nothing(kind: str) -> None:
    """Java refuses session.timeout.ms under KIP-848, and there is no leader to look at."""
    row = healthy(**CASES[kind] | BY_BROKER | {"libraries": ["java"]})
    assert list(findings_of(row)) == []


def test_moves_are_said_of_as_many_generations_as_were_looked_at() -> None:
    assert "over 5 generations 30 partitions moved" in found("needless_moves")


def test_no_assignor_of_the_broker_uses_lag() -> None:
    assert "no assignor of the broker uses lag" in found("lag_on_one_owner")


def test_advice_is_given_where_a_strategy_would_have_done_better_over_the_same_epochs() -> None:
    advised = advice(healthy(**BY_BROKER, strategies=WORSE))
    assert advised["suggested_strategy"] == "cooperative-sticky"
    assert "members at most 1 partitions apart instead of 5, 4 moves instead of 12" in advised["suggestion"]
    assert "group.protocol=classic" in advised["migration_note"]
    assert advice(healthy(**BY_BROKER)) == {}
    # A partition that moves stops for two rounds there, for one here.
    few = [run("observed", "replay", revoked=9), run("cooperative-sticky", "closed_loop", revoked=4)]
    assert advice(healthy(**BY_BROKER, strategies=few)) == {}
    changes = BY_BROKER | advised | {"strategies": WORSE}
    (finding,) = (one for one in findings_of(healthy(**changes)) if one.kind == "better_strategy")
    assert finding.numbers["saved_partition_seconds"] == 2
    assert advice(healthy(**BY_BROKER | {"group_type": "share"}, strategies=WORSE)) == {}
