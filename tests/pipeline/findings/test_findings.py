"""Every rule finds what it is for in a group that has it, and nothing in one that has not."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from counterpoise.pipeline.findings import RULES, findings_of
from counterpoise.pipeline.findings.advice import (
    advice,
    change_lines,
    config_lines,
    fidelity_note,
    migration_notes,
    setting_lines,
    suggested_strategy,
)
from counterpoise.pipeline.findings.finding import Finding
from counterpoise.pipeline.findings.rebalancing import share_of_time
from counterpoise.pipeline.findings.without_members import deletion
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.wording import grouped, seconds, times


def migration_note(now: str, target: str, libraries: list[str]) -> str:
    return "\n".join(note.lines for note in migration_notes(now, target, libraries))


AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def run(
    strategy: str, mode: str, *, moved: int = 4, revoked: int = 4, spread: int = 1, seconds: float | None = None
) -> dict[str, Any]:
    figures = {"moved": moved, "revoked": revoked, "spread_peak": spread, "topic_spread_peak": 1, "stopped_seconds": seconds}
    return {"strategy": strategy, "mode": mode, **figures, "balanced": 5, "generations": 5}


def healthy(**changes: Any) -> dict[str, Any]:
    """A row of `group_report` in which nothing is to be found."""
    row: dict[str, Any] = dict.fromkeys(TABLES["group_report"].names)
    row |= {
        "cluster": "default",
        "group_id": "g",
        "group_type": "classic",
        "protocol_type": "consumer",
        "protocol": "cooperative-sticky",
        "protocol_kind": "cooperative",
        "libraries": ["java"],
        "leader_libraries": ["java"],
        "first_ts": AT,
        "last_ts": AT,
        "state": "stable",
        "complete": True,
        "members_now": 3,
        "members_peak": 3,
        "idle_now": 0,
        "idle_clients": [],
        "partitions_now": 12,
        "topics": ["orders"],
        "rebalances": 5,
        "generations": 7,
        "failed_generations": 0,
        "joins": 4,
        "leaves": 1,
        "restarts": 0,
        "static_now": 0,
        "distinct_members": 4,
        "storm_rebalances": 2,
        "storm_seconds": 30.0,
        "storm_start": AT,
        "storm_clients": [],
        "sync_latency_ms_max": 40,
        "sync_latency_ms_p50": 4.0,
        "sync_latency_ts": AT,
        "commits": 1000,
        "commits_without_owner": 0,
        "committed_partitions": 12,
        "lag_now": 10,
        "lag_owner_share": 0.4,
        "spread_now": 1,
        "spread_peak": 3,
        "topic_spread_now": 1,
        "compared_generations": 7,
        "replay_fidelity": 1.0,
        "observed_moved": 4,
        "observed_revoked": 4,
        "needless_moves": 0,
        "strategies": [run("observed", "replay"), run("cooperative-sticky", "closed_loop")],
        "polled": False,
        "generation_now": 7,
        "first_commit": AT,
        "last_commit": AT,
    }
    return row | changes


EAGER = {
    "protocol": "range",
    "protocol_kind": "eager",
    "observed_revoked": 60,
    "strategies": [
        run("observed", "replay", revoked=60, moved=30, spread=4),
        run("cooperative-sticky", "closed_loop", moved=8, revoked=8),
    ],
}

SKEWED = {"topic": "orders", "most": 6, "fewest": 2, "most_client": "c-1", "fewest_client": "c-2"}

SIZED: dict[str, Any] = {
    "production_per_second": 400.0,
    "production_ts": AT,
    "busiest_partitions": [{"topic": "orders", "partition": 3, "per_second": 60.0}],
    "capacity_per_second": 100.0,
    "capacity_quality": "sustained",
    "capacity_windows": 9,
    "member_load_per_second": 80.0,
    "members_needed": 3,
    "members_useful": 6,
    "sizing_seconds": 200_000.0,
}
"""A group with three members, which is what it needs."""


def unhealthy(name: str, **changes: Any) -> dict[str, Any]:
    """Two partitions are in a state, one of which is named."""
    state = {"state": name, "seconds": 90.0, "partitions": 2, "since": AT, "lag": 5000, "lost": 0}
    rates = {"produced_per_second": 120.0, "consumed_per_second": 80.0, "seconds_left": None}
    worst = {"state": name, "topic": "orders", "partition": 3, "client_id": "c-1", "since": AT, "lag": 4000, "lost": 0}
    fine = {**state, "state": "ok", "partitions": 4}
    return {"health": name, "health_states": [state | rates | changes, fine | rates], "unhealthy": [worst]}


CASES: dict[str, dict[str, Any]] = {
    "losing_data": unhealthy("losing_data", lost=700, seconds_left=0.0),
    "stalled_partition": unhealthy("stalled"),
    "stopped_partition": unhealthy("stopped"),
    "falling_behind": unhealthy("falling_behind", seconds_left=7200.0),
    "idle_members": {"idle_now": 2, "idle_clients": ["c-4", "c-5"], "members_now": 6, "partitions_now": 4},
    "unbalanced": {"protocol": "range", "spread_now": 9, "topic_spread_now": 3, "busiest_clients": ["c-1"]},
    "topic_skew": {"topic_spread_now": 4, "n_skewed_topics": 1, "skewed_topics": [SKEWED]},
    "needless_moves": {"needless_moves": 12, "observed_moved": 30, "needless_generation": 4, "needless_ts": AT},
    "better_strategy": {"suggested_strategy": "cooperative-sticky", "suggestion": "fewer moves", "migration_note": "do this"},
    "too_few_members": SIZED | {"member_load_per_second": 140.0, "members_needed": 5},
    "too_many_members": SIZED | {"members_now": 8, "members_needed": 5, "capacity_quality": "lower_bound"},
    "hot_partition": SIZED
    | {"busiest_partitions": [{"topic": "orders", "partition": 3, "per_second": 160.0}], "members_needed": None},
    "lag_on_one_owner": {
        "lag_now": 5000,
        "lag_owner_share": 0.95,
        "lag_owner": "c-1",
        "lag_partitions": [{"topic": "orders", "partition": 3, "lag": 4100}],
    },
    "storm": {"storm_rebalances": 7, "storm_clients": ["c-1"]},
    "eager_stops": EAGER,
    "failed_generations": {"failed_generations": 3, "failed_generation": 4, "failed_ts": AT},
    "slow_leader": {"sync_latency_ms_max": 1500, "sync_latency_generation": 6, "slow_leader": "c-1"},
    "static_membership": {"restarts": 5, "restart_rebalances": 5, "leaves": 5, "restart_clients": ["c-1"]},
    "flapping": {"leaves": 9, "members_peak": 3, "leave_clients": ["c-1"]},
    "polled_too_late": {
        "poll_kicks": 2,
        "poll_kick_clients": ["c-1"],
        "poll_kick_generation": 4,
        "poll_interval_ms": 300_000,
        "poll_kick_ts": AT,
    },
    "dead_groups": {"state": "empty", "lag_now": 46038},
    "simple_consumer": {"group_type": "simple"},
    "commits_by_nobody": {
        "commits_without_owner": 9,
        "partitions_without_owner": 7,
        "unowned_commits": [{"topic": "orders", "partition": 3, "commits": 2}, {"topic": "orders", "partition": 0, "commits": 1}],
        "unowned_generation": 4,
    },
}


SKEWED_TOPIC = CASES["topic_skew"]


def test_a_healthy_group_has_no_findings() -> None:
    assert list(findings_of(healthy())) == []


def test_every_rule_has_a_case() -> None:
    assert {rule.__name__ for rule in RULES} == set(CASES)


def test_every_rule_is_in_the_docs_with_the_severities_it_can_have() -> None:
    page = (Path(__file__).parents[3] / "docs" / "findings.md").read_text(encoding="utf-8")
    listed = page.split("\n## Findings\n")[1].split("\n## ")[0]
    described = re.findall(r"^### (\w+)\n\n(?:(?!###).*\n)+?Severity: (.+)\.$", listed, re.MULTILINE)
    assert [kind for kind, _ in described] == [rule.__name__ for rule in RULES]
    for kind, severities in described:
        (finding,) = (one for one in findings_of(healthy(**CASES[kind])) if one.kind == kind)
        assert finding.severity in severities, kind


@pytest.mark.parametrize("kind", CASES)
def test_a_rule_finds_its_case(kind: str) -> None:
    """With the group, words, numbers that the words hold, and something to do."""
    row = healthy(**CASES[kind])
    found = {finding.kind: finding for finding in findings_of(row)}
    assert kind in found
    finding = found[kind]
    assert (finding.group_id, finding.cluster) == ("g", "default")
    assert all((finding.title, finding.evidence, finding.cost, finding.action))
    assert finding.numbers
    assert finding.at == AT


@pytest.mark.parametrize("kind", sorted({*CASES} - {"eager_stops", "simple_consumer"}))
def test_a_cost_is_a_figure(kind: str) -> None:
    """That of eager stops is one where it is known; the others say how far to trust the audit, or are a risk and no cost."""
    (finding,) = (one for one in findings_of(healthy(**CASES[kind])) if one.kind == kind)
    assert re.search(r"\d", finding.cost), finding.cost


@pytest.mark.parametrize("kind", CASES)
def test_numbers_are_those_in_the_words(kind: str) -> None:
    """As they are, in per cent or in seconds; from a thousand on with separators."""
    (finding,) = (one for one in findings_of(healthy(**CASES[kind])) if one.kind == kind)
    numbers = set(re.findall(r"[\d,]*\d%?", f"{finding.title} {finding.evidence} {finding.cost}"))
    assert all({f"{n:,.15g}", f"{n:.0%}", f"{n / 1000:,.15g}"} & numbers for n in finding.numbers.values()), finding
    assert re.search(r"\d", finding.evidence) or kind == "better_strategy", "whose evidence is the suggestion, made elsewhere"


@pytest.mark.parametrize(
    ("libraries", "ending"),
    [
        (["java"], "members with\n  group.protocol=consumer"),
        (
            ["java", "librdkafka"],
            "members with\n  java:\n    group.protocol=consumer\n  librdkafka:\n    group.protocol=consumer",
        ),
        (["aiokafka", "java"], "the time on metadata"),
        (None, "the time on metadata"),
    ],
)
def test_where_all_clients_can_a_slow_leader_is_done_without(libraries: list[str] | None, ending: str) -> None:
    (finding,) = findings_of(healthy(**CASES["slow_leader"], libraries=libraries))
    assert finding.action.endswith(ending)
    # Java and librdkafka do not start with both settings.
    assert ("without partition.assignment.strategy" in finding.action) == ("group.protocol" in ending)


def test_members_are_named_where_it_is_about_them() -> None:
    about = (
        "idle_members",
        "unbalanced",
        "topic_skew",
        "lag_on_one_owner",
        "storm",
        "slow_leader",
        "static_membership",
        "flapping",
        "polled_too_late",
    )
    for kind in about:
        (finding,) = (one for one in findings_of(healthy(**CASES[kind])) if one.kind == kind)
        assert "c-" in finding.evidence, kind


def test_partitions_without_progress_are_named_with_their_clients_rates_and_what_is_left() -> None:
    (found,) = findings_of(healthy(**CASES["stalled_partition"]))
    assert found.evidence == (
        "orders-3 (4,000 records, since 2026-01-01 12:30:00 UTC, client c-1) and 1 partition more; 5,000 records wait in all; "
        "120 records/s are produced, 80 consumed since then"
    )
    (behind,) = findings_of(healthy(**CASES["falling_behind"]))
    assert behind.severity == "critical"
    assert behind.cost.endswith("the lag doubles in 2 min 05 s; retention deletes records before they are read in 2 h")
    (safe,) = findings_of(healthy(**unhealthy("falling_behind", consumed_per_second=130.0)))
    assert (safe.severity, safe.cost) == (
        "warning",
        "records are read later and later; retention deletes records before they are read, in the end",
    )
    (soon,) = findings_of(healthy(**unhealthy("losing_data", seconds_left=90.0)))
    assert soon.title == "retention is about to delete records of 2 partitions"
    assert soon.evidence.endswith("; 90 s left")


@pytest.mark.parametrize(("left", "severity"), [(timedelta(minutes=2), "critical"), (timedelta(0), "warning")])
def test_of_an_abandoned_group_it_is_reported_what_was_lost(left: timedelta, severity: str) -> None:
    """Critical if it was losing data before its last member left."""
    (found,) = findings_of(healthy(**CASES["dead_groups"] | unhealthy("losing_data", lost=700), last_ts=AT + left))
    assert (found.kind, found.severity, found.numbers["lost"]) == ("dead_groups", severity, 700)
    assert found.title.endswith(" UTC, 700 records deleted unread")
    assert found.evidence.endswith("46,038 records behind by now; losing data since 2026-01-01 12:30:00 UTC")
    for state in (unhealthy("unowned"), unhealthy("ok", lost=12)):
        (whole,) = findings_of(healthy(**CASES["dead_groups"] | state, last_ts=AT + left))
        assert (whole.severity, "lost" in whole.numbers) == ("warning", False)
        assert "deleted" not in whole.title


def test_more_partitions_are_advised_only_if_there_are_fewer_than_members() -> None:
    (few,) = findings_of(healthy(**CASES["idle_members"]))
    (enough,) = findings_of(healthy(**CASES["idle_members"] | {"partitions_now": 31}))
    assert ["kafka-topics" in one.action for one in (few, enough)] == [True, False]


@pytest.mark.parametrize("streams", [{"group_type": "streams", "protocol": None}, {"protocol": "stream"}])
def test_members_of_kafka_streams_without_an_active_task_are_not_called_idle(streams: dict[str, Any]) -> None:
    """They may have standby tasks, which are not recorded as an assignment."""
    assert list(findings_of(healthy(**CASES["idle_members"] | streams))) == []


def test_of_an_unbalanced_group_it_is_said_that_its_own_strategy_does_better_here() -> None:
    for names, words in ((("range",), "counterpoise's range never"), (("range", "sticky"), "another strategy never")):
        runs = [run("observed", "replay"), *(run(name, "closed_loop") for name in names)]
        (found,) = [one for one in findings_of(healthy(**CASES["unbalanced"], strategies=runs)) if one.kind == "unbalanced"]
        assert words in found.evidence


def test_no_eager_strategy_spreads_the_topics_of_a_cooperative_group() -> None:
    """Its libraries read on during a join; one recorded generation stops no partition under any strategy."""
    skewed = CASES["topic_skew"] | {"protocol_kind": "cooperative", "protocol": "cooperative-sticky"}
    runs = [
        run(name, "closed_loop") | {"topic_spread_peak": spread} for name, spread in (("range", 1), ("cooperative-sticky", 4))
    ]
    assert list(findings_of(healthy(**skewed, strategies=[run("observed", "replay"), *runs]))) == []


def test_of_many_topics_the_first_are_named() -> None:
    for n, words in ((2, "of t0, t1; idle"), (40, "of t0, t1, t2, t3, t4 and 35 topics more; idle")):
        (found,) = findings_of(healthy(**CASES["idle_members"], topics=[f"t{at}" for at in range(n)]))
        assert words in found.evidence


def test_kafka_streams_is_not_advised_to_assign_by_lag() -> None:
    (found,) = findings_of(healthy(**CASES["lag_on_one_owner"], protocol="stream", libraries=["kafka-streams"]))
    assert found.action.endswith("\nKafka Streams has its own assignor: keep it")


def test_all_lag_is_with_the_only_member_that_has_partitions() -> None:
    for idle, found in ((0, ["lag_on_one_owner"]), (1, ["lag_on_one_owner"]), (2, [])):
        row = healthy(**CASES["lag_on_one_owner"], idle_now=idle)
        kinds = [one.kind for one in findings_of(row) if one.kind != "idle_members"]
        assert kinds == found


@pytest.mark.parametrize("state", ["falling_behind", "stopped", "stalled", "losing_data", "unowned"])
def test_members_are_not_given_back_while_partitions_are_in_trouble(state: str) -> None:
    for name, expected in (("catching_up", True), (state, False)):
        row = healthy(**CASES["too_many_members"] | unhealthy(name))
        assert ("too_many_members" in {one.kind for one in findings_of(row)}) is expected


@pytest.mark.parametrize(("peak", "words"), [(3, "the last member left in"), (0, "no member was in")])
def test_a_group_that_was_empty_before_the_recording_lost_no_member_in_it(peak: int, words: str) -> None:
    (found,) = findings_of(healthy(**CASES["dead_groups"], members_peak=peak))
    assert found.evidence.startswith(words)


@pytest.mark.parametrize("state", ["ok", "catching_up", "unowned"])
def test_states_without_trouble_are_no_findings(state: str) -> None:
    assert list(findings_of(healthy(**unhealthy(state)))) == []


def test_topics_that_are_skewed_are_named_with_who_has_most_and_fewest_and_the_rest_is_counted() -> None:
    other = {"topic": "payments", "most": 5, "fewest": 2, "most_client": None, "fewest_client": "c-3"}
    (found,) = findings_of(healthy(**SKEWED_TOPIC | {"n_skewed_topics": 4, "skewed_topics": [SKEWED, other]}))
    assert found.title == "members are 4 partitions of orders apart"
    assert found.evidence == (
        "cooperative-sticky: loads are 1 partition apart in all, but of orders c-1 owns 6 and c-2 2, of payments a member owns 5 "
        "and c-3 2 (and so on in 2 topics more); over the same history cooperative-sticky never had any topic more than 1 apart"
    )
    assert found.numbers == {"topic_spread": 4, "most": 6, "fewest": 2, "topics": 4, "reachable": 1, "spread": 1}
    (one,) = findings_of(healthy(**SKEWED_TOPIC))
    assert "c-1 owns 6 and c-2 2; over the same" in one.evidence
    (far,) = (one for one in findings_of(healthy(**SKEWED_TOPIC | {"spread_now": 9})) if one.kind == "unbalanced")
    assert "(4 within orders)" in far.evidence


def test_partitions_with_commits_by_nobody_are_named_and_the_rest_is_counted() -> None:
    columns = CASES["commits_by_nobody"]
    (many,) = findings_of(healthy(**columns))
    assert "that time: orders-3 (2), orders-0 (1) and 5 partitions more; most after generation 4" in many.evidence
    (few,) = findings_of(healthy(**columns | {"partitions_without_owner": 2}))
    assert "that time: orders-3 (2), orders-0 (1); most after" in few.evidence


def test_the_partitions_that_are_behind_are_named() -> None:
    (found,) = findings_of(healthy(**CASES["lag_on_one_owner"]))
    assert found.evidence == "5,000 records behind in all, 4,750 of them with c-1, most on orders-3 (4,100)"


@pytest.mark.parametrize(
    ("seconds", "severity", "words"),
    [
        (60.0, "warning", "about 52 partition-seconds stopped needlessly"),
        (6.0, "notice", "about 5 partition-seconds stopped needlessly"),
        (None, "notice", "from a benchmark: commits do not show how long partitions were stopped"),
    ],
)
def test_advice_states_the_time_that_a_better_strategy_saves_and_warns_if_commits_show_otherwise(
    seconds: float | None, severity: str, words: str
) -> None:
    runs = [
        run("observed", "replay", revoked=60, seconds=seconds),
        run("sticky", "closed_loop", revoked=8, seconds=None if seconds is None else seconds * 8 / 60),
    ]
    wanted = {"suggested_strategy": "sticky", "suggestion": "fewer stops", "strategies": runs}
    (found,) = (one for one in findings_of(healthy(**wanted)) if one.kind == "better_strategy")
    assert found.severity == severity
    assert words in found.cost


def test_times_in_words_have_their_day_and_are_utc_whatever_zone_the_row_came_in() -> None:
    """A session in another time zone hands rows over in that zone."""
    there = AT.astimezone(timezone(timedelta(hours=13)))
    for changes in (CASES["storm"] | {"storm_start": there}, CASES["dead_groups"] | {"last_ts": there}):
        (finding,) = findings_of(healthy(**changes))
        assert "2026-01-01 12:30:00 UTC" in finding.title + finding.evidence


@pytest.mark.parametrize(
    ("libraries", "setting"),
    [
        (["java"], "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
        (["librdkafka"], "partition.assignment.strategy=cooperative-sticky"),
        (["kafka-python"], "partition_assignment_strategy=[CooperativeStickyAssignor, RangeAssignor]"),
        (["kafka-python or aiokafka"], "partition_assignment_strategy=[StickyPartitionAssignor, RangePartitionAssignor]"),
        (["aiokafka"], "partition_assignment_strategy=[StickyPartitionAssignor, RangePartitionAssignor]"),
    ],
)
@pytest.mark.parametrize("kind", ["idle_members", "unbalanced", "needless_moves"])
def test_advice_writes_a_change_of_strategy_as_the_groups_own_library_does(kind: str, libraries: list[str], setting: str) -> None:
    changes = CASES[kind] | {"protocol": "range", "libraries": libraries, "partitions_now": 12, "spread_now": 9}
    if "aiokafka" in libraries[0]:
        changes |= {"protocol_kind": "eager", "strategies": [run("observed", "replay"), run("sticky", "closed_loop")]}
    (finding,) = (one for one in findings_of(healthy(**changes)) if one.kind == kind)
    assert f"\n  {setting}" in finding.action


def test_a_group_that_runs_the_best_strategy_is_not_advised_to_change_to_it() -> None:
    """kafka-python takes an assignor of ours; Java and librdkafka do not."""
    for libraries, words in (
        (["kafka-python"], "\n  from counterpoise.clients.kafka_python import CooperativeStickyAssignor\n"),
        (["java"], "assign() a plan there"),
    ):
        (finding,) = findings_of(healthy(spread_now=9, libraries=libraries))
        assert words in finding.action
        assert "rolling restarts" not in finding.action
    (by_lag,) = findings_of(healthy(**CASES["lag_on_one_owner"], libraries=["aiokafka"]))
    assert "\n  partition_assignment_strategy=[LagStickyAssignor]" in by_lag.action


def test_a_group_that_cannot_be_cooperative_is_advised_static_members_for_its_restarts() -> None:
    (finding,) = findings_of(healthy(**EAGER | {"protocol": "sticky", "libraries": ["aiokafka"], "restarts": 1}))
    assert "\n  group_instance_id=" in finding.action


def test_the_command_that_deletes_a_group_is_safe_to_copy() -> None:
    """A group's name may be anything."""
    for name, shown in (("g", "g"), ("x; rm -rf ~", "'x; rm -rf ~'"), ("x\n  rm -rf ~", "<group>")):
        (finding,) = findings_of(healthy(**CASES["dead_groups"], group_id=name))
        assert finding.action.endswith(f"--delete --group {shown}")


def test_the_commands_that_delete_groups_name_a_hundred_and_say_how_many_there_are_besides() -> None:
    few = deletion(["worst", "x y", "z\n--all"]).splitlines()
    assert few[0] == "  kafka-consumer-groups --bootstrap-server <broker> --delete --group worst --group 'x y'"
    assert few[1:] == ["with the name typed by hand for 1 group whose name holds control characters"]
    *commands, rest = deletion([f"g{at:03}" for at in range(130)]).splitlines()
    assert [line.count("--group ") for line in commands] == [20] * 5
    assert rest == "and 30 groups more: those of group_report whose state is empty"


@pytest.mark.parametrize("kind", CASES)
def test_of_a_group_that_was_deleted_nothing_is_found_and_nothing_is_advised(kind: str) -> None:
    row = healthy(**CASES[kind] | {"state": "deleted"})
    assert (list(findings_of(row)), advice(row)) == ([], {})


def test_a_class_that_is_not_the_librarys_own_is_not_made_up() -> None:
    assert config_lines("java", ["sticky", "lag"]).endswith("consumer.StickyAssignor,<class of lag>")
    assert config_lines("kafka-python", ["lag"]) == "partition_assignment_strategy=[<class of lag>]"


def test_restarts_count_by_the_rebalances_that_static_members_avoid() -> None:
    for avoided, severity in ((1, "notice"), (7, "notice"), (8, "warning")):
        (finding,) = findings_of(healthy(**CASES["static_membership"] | {"restart_rebalances": avoided}))
        assert (finding.severity, finding.weight) == (severity, avoided)


def test_a_group_whose_assignor_is_the_broker_is_advised_of_its_own_session_timeout() -> None:
    """KIP-848 members can be static too; share groups cannot."""
    modern = {"group_type": "consumer", "protocol_kind": "server", "libraries": None}
    (finding,) = findings_of(healthy(**CASES["static_membership"], **modern))
    assert "\n  group.instance.id=" in finding.action
    assert "\n  kafka-configs --bootstrap-server <broker> --alter --entity-type groups" in finding.action
    assert "\n  session.timeout.ms" not in finding.action
    share = modern | {"group_type": "share", "protocol_type": "share"}
    assert list(findings_of(healthy(**CASES["static_membership"], **share))) == []


def test_a_stop_that_nobody_saw_the_end_of_is_no_stop_of_0_seconds() -> None:
    unknown = {"stopped_partition_seconds": None, "longest_stop_seconds": None, "longest_stop_generation": None}
    (finding,) = (one for one in findings_of(healthy(**EAGER, **unknown)) if one.kind == "eager_stops")
    assert finding.cost.startswith("how long partitions were stopped is unknown")
    assert finding.severity == "notice"
    assert finding.numbers == {"rebalances": 5, "revoked": 60, "moved": 4}


def test_of_a_group_that_was_downgraded_rebalances_by_the_broker_are_not_counted() -> None:
    """What was stopped and moved is a sum over its life under the protocol it has now."""
    (finding,) = (one for one in findings_of(healthy(**EAGER, rebalances=13)) if one.kind == "eager_stops")
    assert finding.evidence.startswith("5 rebalances (range, which is eager) revoked 60 partitions")
    assert finding.numbers["rebalances"] == 5


@pytest.mark.parametrize("kind", ["storm", "flapping"])
def test_stops_of_a_migrated_group_do_not_follow_from_the_protocol_it_has_now(kind: str) -> None:
    for rebalances, words in (
        (5, "cooperative members continue with the partitions that they keep"),
        (13, "depends on the protocol that the group had"),
    ):
        (finding,) = (one for one in findings_of(healthy(**CASES[kind], rebalances=rebalances)) if one.kind == kind)
        assert words in finding.cost


def test_epochs_of_a_starting_kip_848_group_are_no_critical_storm() -> None:
    """Each member that joins is an epoch, and only what moves stops. A migrated group may have had the storm before."""
    epochs, rounds = ("warning", "12 epochs in "), ("critical", "12 rounds of joining in ")
    for group_type, rebalances, (severity, words) in (
        *(("consumer", 5, epochs), ("streams", 5, epochs), ("consumer", 40, rounds), ("classic", 5, rounds)),
    ):
        row = healthy(**CASES["storm"] | {"storm_rebalances": 12, "rebalances": rebalances}, group_type=group_type)
        (finding,) = (one for one in findings_of(row) if one.kind == "storm")
        assert (finding.severity, finding.cost.startswith(words)) == (severity, True)


def test_shares_are_never_rounded_to_all_or_nothing() -> None:
    row = healthy(**CASES["lag_on_one_owner"] | {"lag_owner_share": 0.9983})
    (finding,) = (one for one in findings_of(row) if one.kind == "lag_on_one_owner")
    assert finding.title.startswith("99.8% of the lag")


def test_members_that_read_nothing_while_they_join_are_not_said_to_continue() -> None:
    """kafka-python's own cooperative strategy is cooperative by name; its members stop what they keep, too."""
    for libraries, words in (
        (["kafka-python"], "members on kafka-python read nothing while they join, two rounds each time"),
        (["counterpoise (kafka-python)"], "cooperative members continue with the partitions that they keep"),
    ):
        found = [one for one in findings_of(healthy(**CASES["storm"], libraries=libraries)) if one.kind == "storm"]
        assert [words in one.cost for one in found] == [True]


def test_commits_by_hand_name_partitions_only_where_their_number_is_known() -> None:
    for known, words in ((2, "1,000 commits on 2 partitions, no"), (None, "1,000 commits, no")):
        (finding,) = findings_of(healthy(group_type="simple", committed_partitions=known))
        assert finding.evidence.startswith(words)
        assert finding.numbers.get("partitions") == known


def test_an_unknown_lag_of_a_dead_group_is_not_0() -> None:
    """Without samples nothing says how far behind it is."""
    for lag, words, numbers in (
        (0, "0 records behind by now", {"partitions": 12, "lag": 0}),
        (None, "it is unknown how far behind by now", {"partitions": 12}),
    ):
        (found,) = findings_of(healthy(**CASES["dead_groups"] | {"lag_now": lag}))
        assert words in found.evidence
        assert found.numbers == numbers


def test_static_members_that_come_back_are_no_flapping() -> None:
    """Each return is a leave of the old member id, but no rebalance."""
    restarted = healthy(**CASES["flapping"], static_replacements=9)
    assert "flapping" not in {one.kind for one in findings_of(restarted)}


def test_a_share_of_time_begins_with_the_first_step_not_with_an_old_commit() -> None:
    """Compaction keeps the newest commit of a partition, however old."""
    row = healthy(**EAGER)
    row |= {"last_ts": row["first_ts"] + timedelta(hours=1), "first_commit": row["first_ts"] - timedelta(days=100)}
    assert share_of_time(row, 5.0) == share_of_time({**row, "first_commit": None}, 5.0) < 1


@pytest.mark.parametrize("kind", ["storm", "flapping"])
def test_only_members_that_can_be_static_are_advised_how(kind: str) -> None:
    share = {"group_type": "share", "protocol_type": "share", "protocol_kind": "server"}
    for changes, shown in (({}, True), (share, False), ({"static_now": 3}, False), ({"libraries": ["java", "kafka-go"]}, False)):
        (finding,) = (one for one in findings_of(healthy(**CASES[kind] | changes)) if one.kind == kind)
        assert ("group.instance.id=" in finding.action) is shown, changes


def test_static_members_are_not_suggested_to_a_group_with_a_member_that_cannot_be_static() -> None:
    for libraries, shown in ((["java"], True), (["kafka-go"], False), (["java", "kafka-go"], False)):
        row = healthy(**CASES["static_membership"] | {"libraries": libraries})
        assert ("static_membership" in {one.kind for one in findings_of(row)}) is shown, libraries


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("idle_members", {"idle_now": 2, "partitions_now": 0}),
        ("unbalanced", {"spread_now": 9, "state": "empty"}),
        ("unbalanced", {"spread_now": 2}),
        ("needless_moves", {"needless_moves": 1}),
        ("topic_skew", {"topic_spread_now": 2, "n_skewed_topics": 1, "skewed_topics": [SKEWED | {"most": 4}]}),
        ("topic_skew", {"topic_spread_now": 1, "n_skewed_topics": 0, "skewed_topics": []}),
        ("topic_skew", SKEWED_TOPIC | {"state": "empty"}),
        ("topic_skew", SKEWED_TOPIC | {"spread_now": 9}),
        ("better_strategy", EAGER | {"suggested_strategy": "cooperative-sticky", "suggestion": "x", "migration_note": "y"}),
        ("lag_on_one_owner", {"lag_now": 5000, "lag_owner_share": 0.95, "members_now": 1}),
        ("lag_on_one_owner", {"lag_now": 5000, "lag_owner_share": 0.5, "members_now": 2}),
        ("too_few_members", CASES["too_few_members"] | {"member_load_per_second": 104.9}),
        ("too_few_members", CASES["too_few_members"] | {"capacity_quality": "lower_bound"}),
        ("too_few_members", CASES["too_few_members"] | {"capacity_windows": 2}),
        ("too_few_members", CASES["too_few_members"] | {"sizing_seconds": 599.0}),
        ("too_few_members", CASES["too_few_members"] | {"members_now": 5}),
        ("too_few_members", CASES["too_few_members"] | {"members_now": 6, "members_needed": None}),
        ("too_few_members", CASES["too_few_members"] | {"busiest_partitions": CASES["hot_partition"]["busiest_partitions"]}),
        ("too_few_members", CASES["too_few_members"] | {"state": "empty"}),
        ("hot_partition", CASES["hot_partition"] | {"capacity_per_second": 153.0}),
        ("hot_partition", CASES["hot_partition"] | {"capacity_quality": "lower_bound"}),
        ("hot_partition", CASES["hot_partition"] | {"capacity_windows": 2}),
        ("hot_partition", CASES["hot_partition"] | {"sizing_seconds": 599.0}),
        ("too_many_members", CASES["too_many_members"] | {"members_now": 6}),
        ("too_many_members", CASES["too_many_members"] | {"idle_now": 3, "idle_clients": ["c-4"]}),
        ("too_many_members", CASES["too_many_members"] | {"members_needed": None}),
        ("too_many_members", CASES["too_many_members"] | {"members_now": 2, "members_needed": 1}),
        ("too_many_members", CASES["too_many_members"] | {"lag_now": 24_001, "lag_owner_share": 0.2}),
        ("too_many_members", CASES["too_many_members"] | {"sizing_seconds": 599.0}),
        ("too_many_members", CASES["too_many_members"] | {"state": "empty"}),
        ("losing_data", unhealthy("falling_behind")),
        ("losing_data", unhealthy("losing_data", lost=700) | {"state": "empty"}),
        ("stalled_partition", unhealthy("stopped")),
        ("stopped_partition", unhealthy("stopped", partitions=0)),
        ("falling_behind", unhealthy("catching_up")),
        ("storm", {"storm_rebalances": 4}),
        ("eager_stops", EAGER | {"rebalances": 2}),
        ("eager_stops", EAGER | {"observed_revoked": 9}),
        ("slow_leader", {"sync_latency_ms_max": 199}),
        ("static_membership", CASES["static_membership"] | {"static_now": 3}),
        ("static_membership", CASES["static_membership"] | {"restart_rebalances": 0}),  # another client joined each time
        ("flapping", {"leaves": 5, "members_peak": 3}),
        ("storm", {"storm_rebalances": None}),
        ("failed_generations", {"failed_generations": 0}),
        ("failed_generations", {"failed_generations": -1, "generations": 1}),  # a record of no members, written twice
        ("polled_too_late", {"poll_kicks": 0, "poll_interval_ms": 300_000}),
        ("simple_consumer", {"group_type": "share"}),
        ("dead_groups", {"state": "deleted"}),
        ("commits_by_nobody", {"commits_without_owner": 6, "group_type": "simple", "commits": 0}),
    ],
)
def test_a_rule_keeps_quiet_just_short_of_its_case(kind: str, changes: dict[str, Any]) -> None:
    assert kind not in {finding.kind for finding in findings_of(healthy(**changes))}


@pytest.mark.parametrize(
    ("seconds", "severity", "words"),
    [
        (200_000.0, "warning", "Confidence: high (2 days recorded)"),
        (7200.0, "notice", "Confidence: medium (only 120 minutes recorded, other hours may be busier)"),
        (700.0, "notice", "Confidence: low (only 11 minutes recorded, other hours may be busier)"),
    ],
)
def test_members_are_given_back_with_a_confidence_by_what_was_recorded(seconds: float, severity: str, words: str) -> None:
    (found,) = findings_of(healthy(**CASES["too_many_members"] | {"sizing_seconds": seconds}))
    assert (found.severity, found.numbers["spare"]) == (severity, 3)
    assert found.evidence.endswith(words)
    assert "no member was ever behind, so it can do at least the 100 records/s" in found.evidence


def test_of_two_members_one_may_be_spare_but_stays() -> None:
    (found,) = findings_of(healthy(**SIZED | {"members_now": 4, "members_needed": 1}))
    assert found.title == "2 of 4 members would do"
    assert "so 1 would be enough, with the headroom (two, in case one dies)" in found.evidence


def test_every_rule_has_a_group_that_has_not_quite_got_it() -> None:
    mark = next(m for m in test_a_rule_keeps_quiet_just_short_of_its_case.pytestmark if m.name == "parametrize")
    assert {kind for kind, _ in mark.args[1]} == set(CASES)


@pytest.mark.parametrize(
    ("libraries", "setting"),
    [
        (["java"], "  group.instance.id=<host or pod name>\n  session.timeout.ms="),
        (["librdkafka"], "  group.instance.id=<host or pod name>\n  session.timeout.ms="),
        (["aiokafka"], '  group_instance_id="<host or pod name>",\n  session_timeout_ms='),
        (["java", "kafka-python"], "  java:\n    group.instance.id="),
    ],
)
def test_settings_are_written_as_each_library_writes_them(libraries: list[str], setting: str) -> None:
    """Java and librdkafka take properties, kafka-python and aiokafka arguments of the consumer."""
    row = healthy(**CASES["static_membership"], libraries=libraries)
    (finding,) = [finding for finding in findings_of(row) if finding.kind == "static_membership"]
    assert setting in finding.action
    late = healthy(**CASES["polled_too_late"], libraries=["librdkafka"])
    (finding,) = [finding for finding in findings_of(late) if finding.kind == "polled_too_late"]
    assert "max.poll.records" not in finding.action, "librdkafka has no such setting"


def test_severity_comes_before_weight() -> None:
    def scored(severity: str, weight: float) -> float:
        return Finding(severity, "t", "e", "c", "a", weight, {"n": 1.0}).score

    assert scored("critical", 0) > scored("warning", 1e9) > scored("warning", 1) > scored("notice", 1e9) > scored("notice", 0)
    weights = [0, 1, 899, 900, 901, 998, 999, 1e4, 1e5, 1e6, 1e7]
    assert [scored("warning", one) for one in weights] == sorted({scored("warning", one) for one in weights})


def test_advice_names_what_would_have_been_saved() -> None:
    advised = advice(healthy(**EAGER))
    assert advised["suggested_strategy"] == "cooperative-sticky"
    assert "about 35 partition-seconds stopped instead of an estimated 87" in advised["suggestion"]
    assert "at most 1 partitions apart instead of 4" in advised["suggestion"]
    assert "CooperativeStickyAssignor,org.apache.kafka.clients.consumer.RangeAssignor" in advised["migration_note"]


@pytest.mark.parametrize("changes", [{}, {"group_type": "simple"}, EAGER | {"libraries": ["aiokafka"]}, {"strategies": None}])
def test_no_advice_where_nothing_is_gained_or_known(changes: dict[str, Any]) -> None:
    assert advice(healthy(**changes)) == {}


def test_migration_is_advised_per_library() -> None:
    for libraries in (["librdkafka"], ["kafka-streams", "librdkafka"]):
        note = migration_note("range", "cooperative-sticky", libraries)
        assert "cannot be mixed: stop all its members, then start them with" in note, "no other library takes a restart"
    both = "two rolling restarts, first with\n  partition.assignment.strategy=roundrobin,range\nthen with"
    assert both in migration_note("range", "roundrobin", ["librdkafka"])
    assert "aiokafka (eager only)" in migration_note("range", "sticky", ["aiokafka"])
    assert "aiokafka (eager only)" in migration_note("range", "cooperative-sticky", ["kafka-python or aiokafka"])
    assert "aiokafka" not in migration_note("sticky", "cooperative-sticky", ["kafka-python or aiokafka"])
    assert config_lines("librdkafka", ["roundrobin"]) == "partition.assignment.strategy=roundrobin"


@pytest.mark.parametrize(
    "library", ["java", "librdkafka", "kafka-python", "aiokafka", "kafka-python or aiokafka", "franz-go", "unknown"]
)
@pytest.mark.parametrize("end", ["\n", "\r", "\u2028", "\x85"])
def test_the_name_of_a_strategy_cannot_begin_a_line_to_copy(library: str, end: str) -> None:
    note = migration_note(f"mine{end}kafka-topics --delete --topic payments", "sticky", [library])
    assert "kafka-topics" not in note
    assert "your strategy" in note


def test_a_group_is_not_advised_what_none_of_its_libraries_has() -> None:
    """librdkafka refuses `sticky`, aiokafka knows nothing cooperative; and of other libraries there is something to say too."""
    row = healthy(**EAGER, libraries=["aiokafka", "librdkafka"])
    assert (suggested_strategy(row), advice(row)) == (None, {})
    assert "one client library for all members first" in change_lines(row)
    note = migration_note("range", "cooperative-sticky", ["franz-go"])
    assert "kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer())" in note
    assert "kgo.Balancers(kgo.StickyBalancer(), <balancer of by-zone>)" in migration_note("by-zone", "sticky", ["franz-go"])
    assert migration_note("range", "cooperative-sticky", ["unknown"]).startswith("unknown client libraries: two rolling restarts")
    for libraries in (["unknown"], ["franz-go"], ["connect"], ["aiokafka", "unknown"]):
        for found in findings_of(healthy(**EAGER, libraries=libraries)):
            assert found.action, found


def test_settings_of_a_library_that_is_not_known_are_in_javas_names_and_say_so() -> None:
    assert setting_lines(["franz-go"], {"session.timeout.ms": "1"}) == "  in Java's names:\n    session.timeout.ms=1"
    assert setting_lines(None, {"session.timeout.ms": "1"}) == "  session.timeout.ms=1"


def test_large_counts_are_whole_and_have_separators() -> None:
    words = [
        grouped(31391),
        grouped(1_234_567.0),
        times(1_000_000, "commits"),
        times(1, "commits"),
        seconds(2**31 - 1),
        seconds(500),
    ]
    assert words == ["31,391", "1,234,567", "1,000,000 commits", "1 commit", "2,147,483.647 s", "0.5 s"]
    row = healthy(group_type="simple", commits=1_234_567, committed_partitions=2)
    (found,) = (one for one in findings_of(row) if one.kind == "simple_consumer")
    assert found.evidence.startswith("1,234,567 commits on 2 partitions")


@pytest.mark.parametrize("now", ["range", "roundrobin", "sticky"])
def test_what_kafka_python_is_advised_to_list_together_has_a_protocol_in_common(now: str) -> None:
    """It refuses others at its start; the lines are taken as they are printed."""
    note = migration_note(now, "cooperative-sticky", ["kafka-python"])
    brought, listed = (line.strip() for line in note.splitlines() if line.startswith("  "))
    scope: dict[str, Any] = {}
    exec(brought, scope)
    chosen = eval(listed.partition("=")[2], scope)
    assert [one().name for one in chosen] == ["cooperative-sticky", now]
    assert set.intersection(*(set(one().supported_protocols()) for one in chosen))


def test_a_low_fidelity_is_taken_apart() -> None:
    assert fidelity_note(5, 5, 0, 0, ["java"]) is None
    assert fidelity_note(0, 0, 0, 0, []) is None
    note = fidelity_note(9, 3, 4, 1, ["java"])
    assert note is not None
    assert "3 of 9" in note
    assert "4 differ by ties only" in note
    assert "in 1 the leader (java)" in note
    assert "1 differ in another way" in note
