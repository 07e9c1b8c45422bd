"""Advice per client library: nothing is advised that would stop partitions for longer, and measured seconds decide."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.findings.advice import advice, change_lines
from counterpoise.pipeline.predicted_stops import seconds_of, with_stopped_seconds
from counterpoise.planning.client_libraries import BEHAVIOURS, HELD, MOVED, Behaviour
from tests.pipeline.findings.test_findings import AT, healthy, migration_note, run

OURS = "counterpoise (kafka-python)"
NAMES = {"eager": "sticky", "cooperative": "cooperative-sticky"}
HOSTS = {OURS: "kafka-python", "counterpoise (aiokafka)": "aiokafka"}


def recorded(libraries: list[str], kind: str, seconds: float | None, *, held: int = HELD, moved: int = MOVED) -> dict[str, Any]:
    """A group of a kind whose commits show so many partition-seconds; over its history sticky strategies move so much."""
    eager = kind == "eager"
    row = healthy(
        protocol="range" if eager else "cooperative-sticky",
        protocol_kind=kind,
        libraries=libraries,
        observed_revoked=held if eager else moved,
        observed_moved=moved,
        stopped_partition_seconds=seconds,
        longest_stop_seconds=seconds,
        longest_stop_ts=AT,
        longest_stop_generation=3,
        last_ts=AT + timedelta(minutes=10),
        strategies=[
            run("observed", "replay", revoked=held if eager else moved, moved=moved),
            run("sticky", "closed_loop", revoked=held, moved=moved),
            run("cooperative-sticky", "closed_loop", revoked=moved, moved=moved),
        ],
    )
    return row | {"strategies": with_stopped_seconds(row)}


PAIRS = [
    (one, other)
    for one, other in permutations([row for row in BEHAVIOURS if row.kind in NAMES], 2)
    if HOSTS.get(one.library, one.library) == HOSTS.get(other.library, other.library) and one.kind != other.kind
]


@pytest.mark.parametrize(("now", "then"), PAIRS, ids=lambda row: f"{row.library} {row.kind}")
def test_the_sign_of_a_prediction_is_that_of_the_benchmark(now: Behaviour, then: Behaviour) -> None:
    """A group that stood still as the first line did is predicted to stop more, or less, as the second line did."""
    row = recorded([now.library], now.kind, now.all_s)
    seconds, _ = seconds_of(row)
    advised = {HOSTS.get(then.library): then.library, then.library: then.library}
    lines = {(each.library, each.kind): each for each in BEHAVIOURS}
    # What is advised to members of kafka-python and aiokafka is an assignor of ours.
    target = next((each for name in HOSTS for each in [lines.get((name, then.kind))] if each and HOSTS[name] in advised), then)
    assert (seconds[NAMES[then.kind], "closed_loop"] > seconds["observed", "replay"]) == (target.all_s > now.all_s)


@pytest.mark.parametrize(("seconds", "advised"), [(2.4, False), (60.0, True), (None, True)])
def test_an_eager_group_of_kafka_python_is_advised_to_cooperate_unless_its_rebalances_are_short(
    seconds: float | None, advised: bool
) -> None:
    """The benchmark's eager groups stood still for 2 s with heartbeats in step and 60 out of step, cooperative ones 4 and 6."""
    row = recorded(["kafka-python"], "eager", seconds)
    assert (advice(row).get("suggested_strategy") == "cooperative-sticky") == advised
    if advised:
        assert (
            "from counterpoise.clients.kafka_python import CooperativeStickyAssignor, RangeAssignor"
            in advice(row)["migration_note"]
        )


def test_whoever_cooperates_with_kafka_pythons_own_assignor_is_advised_to_run_ours_or_an_eager_one() -> None:
    """Commits of a member that stays show no stop, so both are estimates."""
    row = recorded(["kafka-python"], "cooperative", 30.0)
    assert {run["stopped_seconds"] for run in row["strategies"]} == {None}
    advised = advice(row)
    assert "instead of an estimated 139" in advised["suggestion"]
    assert "from counterpoise.clients.kafka_python import" in advised["migration_note"]
    large = recorded(["kafka-python"], "cooperative", 30.0, held=2000, moved=20)
    (found,) = (one for one in findings_of(large | advice(large)) if one.kind == "better_strategy")
    assert found.title == "counterpoise's cooperative-sticky would have been better than cooperative-sticky"
    assert "one rolling restart with" in change_lines(row, "cooperative-sticky")


@pytest.mark.parametrize("library", [OURS, "java", "librdkafka"])
def test_whoever_cooperates_and_reads_on_is_not_advised_to_stop_cooperating(library: str) -> None:
    """Of two recorded groups the cooperative one stood still for 7 s, the eager one for 14 s: heartbeats were not in step."""
    assert advice(recorded([library], "cooperative", 7.1)) == {}


@pytest.mark.parametrize(("library", "seconds"), [("java", 30), ("librdkafka", 17)])
def test_an_eager_group_of_a_library_that_reads_on_while_it_joins_is_advised_to_cooperate(library: str, seconds: int) -> None:
    advised = advice(recorded([library], "eager", 48.0))
    assert advised["suggested_strategy"] == "cooperative-sticky"
    assert f"about {seconds} partition-seconds stopped instead of the 48" in advised["suggestion"]


@pytest.mark.parametrize("libraries", [["aiokafka"], ["counterpoise (aiokafka)"], ["java", "aiokafka"], ["unknown"]])
def test_a_library_that_cannot_cooperate_or_is_unknown_is_not_advised_to(libraries: list[str]) -> None:
    row = recorded(libraries, "eager", 300.0)
    assert advice(row).get("suggested_strategy") in (None, "sticky")
    (found,) = (one for one in findings_of(row | advice(row)) if one.kind == "eager_stops")
    assert found.action.startswith("keep the strategy: no other one of its client libraries is predicted to stop less")


@pytest.mark.parametrize(("seconds", "severity"), [(1.0, None), (9.0, "notice"), (48.0, "warning"), (None, "notice")])
def test_measured_seconds_weigh_more_than_partitions(seconds: float | None, severity: str | None) -> None:
    """48 partitions were stopped to move 9 in each: one second in ten minutes is no finding."""
    row = recorded(["java"], "eager", seconds)
    found = [one.severity for one in findings_of(row | advice(row)) if one.kind == "eager_stops"]
    assert found == ([] if severity is None else [severity])


def test_a_long_recording_makes_the_same_seconds_no_warning() -> None:
    row = recorded(["java"], "eager", 48.0) | {"last_ts": AT + timedelta(days=30)}
    assert [one for one in findings_of(row | advice(row)) if one.kind == "eager_stops"] == []


def test_balance_is_no_reason_to_stop_partitions_for_longer() -> None:
    row = recorded([OURS], "eager", 2.4)
    uneven = [one | {"spread_peak": 9 if one["strategy"] == "observed" else 1} for one in row["strategies"]]
    advised = advice(row | {"strategies": uneven, "protocol": "roundrobin"})
    assert advised.get("suggested_strategy") != "cooperative-sticky"


def test_advice_for_members_that_run_counterpoise_names_its_classes() -> None:
    note = migration_note("range", "sticky", [OURS, "counterpoise (aiokafka)"])
    assert "from counterpoise.clients.kafka_python import StickyAssignor, RangeAssignor" in note
    assert "from counterpoise.clients.aiokafka import StickyAssignor, RangeAssignor" in note
    assert "counterpoise (" not in note
