"""Actions: few over any fleet, each finding in one, no second counted twice, and the same whatever the order of groups."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.pipeline.findings import RULES, findings_of
from counterpoise.pipeline.findings.actions import KINDS, parts_of, ranked
from counterpoise.pipeline.predicted_stops import with_stopped_seconds
from tests.pipeline.findings.test_findings import AT, CASES, EAGER, healthy, run, unhealthy

LIBRARIES = (["java"], ["librdkafka"], ["kafka-python"], ["aiokafka"], ["aiokafka", "librdkafka"], ["unknown"], None)
MEASURED = {
    **EAGER,
    "libraries": ["java"],
    "stopped_partition_seconds": 100.0,
    "longest_stop_seconds": 40.0,
    "longest_stop_generation": 4,
    "longest_stop_ts": AT,
    "last_ts": AT + timedelta(hours=2),
    "rebalances_per_day": 60.0,
    "suggested_strategy": "cooperative-sticky",
    "needless_moves": 20,
    "observed_moved": 30,
}


def measured(**changes: Any) -> dict[str, Any]:
    """A group on range whose commits show 100 stopped partition-seconds."""
    row = healthy(**MEASURED | changes)
    return row | {"strategies": with_stopped_seconds(row)}


def fleet(groups: int = 200) -> list[dict[str, Any]]:
    """Groups of every rule and mix of client libraries, some of them by brokers, in two clusters."""
    draw, rows = random.Random(5), []
    kinds = list(CASES)
    for at in range(groups):
        changes: dict[str, Any] = {}
        for kind in draw.sample(kinds, draw.randint(0, 3)):
            changes |= CASES[kind]
        changes |= {"libraries": LIBRARIES[at % len(LIBRARIES)], "cluster": "east" if at % 3 else "west"}
        if at % 5 == 0:
            changes |= {"group_type": "consumer", "protocol_kind": "server", "libraries": None}
        if at % 7 == 0:
            changes |= {
                "strategies": [run("observed", "replay", spread=5), run("range", "closed_loop", spread=9)],
                "protocol": "range",
            }
        row = measured(**changes) if at % 2 else healthy(**changes)
        rows.append(row | {"group_id": f"g{at:03}"})
    return rows


def parts(rows: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    return [part for row in rows for part in parts_of(row, findings_of(row))]


def stopped(rows: list[dict[str, Any]]) -> dict[str, float]:
    seconds = dict.fromkeys(sorted({row["cluster"] for row in rows}), 0.0)
    for row in rows:
        seconds[row["cluster"]] += row["stopped_partition_seconds"] or 0.0
    return seconds


def actions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [action for action, _ in ranked(parts(rows), stopped(rows))]


@pytest.mark.parametrize("spread", [1, 2])
def test_needless_moves_are_not_saved_by_a_strategy_that_moves_as_many(spread: int) -> None:
    """`range` spreads a topic as well as `sticky`, or better; it is not sticky."""
    loops = [run("range", "closed_loop", moved=30), run("sticky", "closed_loop") | {"topic_spread_peak": spread}]
    row = healthy(**CASES["topic_skew"], **CASES["needless_moves"], libraries=["aiokafka"], protocol_kind="eager")
    row |= {"protocol": "roundrobin", "strategies": [run("observed", "replay", moved=30), *loops]}
    (part,) = parts([row])
    assert (part["target"], part["saved_moves"]) == ("sticky", 12)
    targets = {one.kind: one.target for one in findings_of(row)}
    assert targets == {"topic_skew": "sticky" if spread == 1 else "range", "needless_moves": None}
    (part,) = parts([row | {"libraries": ["kafka-go"]}])
    assert (part["target"], part["saved_moves"]) == ("range", 0)


def test_rebalances_of_restarts_are_avoided_only_where_members_can_be_static() -> None:
    for libraries, static, avoided in ((["java"], 0, 5), (["java"], 1, 5), (["java", "kafka-go"], 0, 5), (["kafka-go"], 0, 0)):
        row = healthy(**CASES["storm"], restart_rebalances=9) | {"libraries": libraries, "static_now": static}
        assert [part["saved_rebalances"] for part in parts([row]) if part["kind"] == "steady_members"] == [avoided], libraries


def test_a_fleet_of_200_groups_with_every_finding_gives_at_most_ten_actions_with_texts() -> None:
    rows = fleet()
    made = actions(rows)
    assert {finding.kind for row in rows for finding in findings_of(row)} == {rule.__name__ for rule in RULES}
    assert {one["kind"] for one in made} == set(KINDS)
    assert 8 <= len(made) <= 10
    assert [one["rank"] for one in made] == list(range(1, len(made) + 1))
    for one in made:
        assert all((one["title"], one["saves"], one["cost"], one["action"])), one
        assert str(one["n_groups"]) in one["title"]
        assert one["n_groups"] == len(one["groups"])


def test_the_actions_are_the_same_whatever_the_order_of_the_groups() -> None:
    rows = fleet()
    before = ranked(parts(rows), stopped(rows))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert ranked(parts(rows), stopped(rows)) == before


def test_every_finding_that_asks_for_something_belongs_to_exactly_one_action() -> None:
    rows = fleet()
    made = actions(rows)
    acted = [(group["group_id"], kind) for one in made for group in one["groups"] for kind in group["findings"]]
    assert len(acted) == len(set(acted))
    found = {(row["group_id"], one.kind): one.action for row in rows for one in findings_of(row)}
    idle = {pair for pair, action in found.items() if "keep the strategy" in action}
    assert idle
    assert set(acted) == set(found) - idle


def test_the_savings_of_all_actions_are_at_most_what_the_fleet_stopped_and_of_a_group_what_it_stopped() -> None:
    """A group in three actions: each takes its share of what the ones before it left."""
    rows = fleet()
    total = sum(one["saved_seconds"] for one in actions(rows))
    assert 0 < total <= sum(stopped(rows).values())
    several = measured(**CASES["static_membership"], **CASES["polled_too_late"], **CASES["unbalanced"] | MEASURED)
    mine = parts([several])
    assert [part["kind"] for part in mine] == ["switch_strategy", "steady_members"]
    assert 0 < mine[1]["saved_seconds"] < mine[0]["saved_seconds"] < 100
    assert sum(part["saved_seconds"] for part in mine) == pytest.approx(100, abs=0.01)
    assert sum(part["saved_rebalances"] for part in mine) <= several["rebalances"]


def test_a_switch_saves_what_commits_show_less_what_is_predicted_and_else_an_estimate() -> None:
    (seen,) = actions([measured()])
    assert (seen["kind"], seen["target"], seen["title"]) == (
        "switch_strategy",
        "cooperative-sticky",
        "Switch 1 group from range to cooperative-sticky",
    )
    then = next(one["stopped_seconds"] for one in measured()["strategies"] if one["mode"] == "closed_loop")
    assert seen["saved_seconds"] == pytest.approx(100 - then, abs=0.002)
    assert (seen["estimated_seconds"], seen["saved_moves"], seen["saved_moves_per_day"]) == (0, 20, 240)
    assert seen["saves"] == f"saves {round(100 - then)} of 100 stopped partition-seconds; 240 needless moves a day"
    assert (seen["cost"], seen["restarts"]) == ("two rolling restarts", 2)
    (block,) = seen["config"]
    assert block["lines"].endswith("consumer.CooperativeStickyAssignor")
    (guessed,) = actions([measured(stopped_partition_seconds=None)])
    assert guessed["saved_seconds"] == 0 < guessed["estimated_seconds"]
    assert guessed["saves"].startswith("saves about ")
    assert "estimated" in guessed["saves"]


def test_a_group_that_leaves_its_librarys_own_version_of_the_strategy_is_named_so_in_the_title() -> None:
    row = measured()
    (part,) = (one for one in parts_of(row, findings_of(row)) if one["kind"] == "switch_strategy")
    own = {**part, "group_id": "own", "now": part["target"]}
    titles = [ranked(parts, {})[0][0]["title"] for parts in ([own], [part, own])]
    assert titles == [
        "Switch 1 group to cooperative-sticky, from their library's own version",
        "Switch 2 groups to cooperative-sticky, from range or their library's own version",
    ]


def test_groups_come_in_the_order_of_what_they_save_and_equal_lines_of_configuration_once() -> None:
    rows = [measured(group_id=f"g{at}", stopped_partition_seconds=seconds) for at, seconds in enumerate((50.0, 400.0, 100.0))]
    rows.append(measured(group_id="rd", libraries=["librdkafka"]))
    (one,) = actions(rows)
    assert [group["group_id"] for group in one["groups"]] == ["g1", "rd", "g2", "g0"]
    assert [(block["library"], block["n_groups"]) for block in one["config"]] == [("java", 3), ("librdkafka", 1)]
    assert [[group["group_id"] for group in block["groups"]] for block in one["config"]] == [["g1", "g2", "g0"], ["rd"]]
    assert one["cost"] == "rolling restarts: two (3 groups); a stop of all librdkafka members (1 group)"
    assert one["restarts"] == 6
    (alone,) = actions(rows[-1:])
    assert (alone["cost"], alone["restarts"]) == ("a stop of all librdkafka members", 0)
    static = actions([healthy(group_id=name, libraries=[name], **CASES["static_membership"]) for name in ("java", "librdkafka")])
    assert [(block["library"], block["n_groups"]) for block in static[0]["config"]] == [("java, librdkafka", 2)]


def test_actions_that_save_a_hundredth_of_the_stopped_seconds_come_before_critical_ones() -> None:
    storm = healthy(group_id="storm", **CASES["storm"] | {"storm_rebalances": 30})
    assert [one["severity"] for one in actions([storm, measured()])] == ["warning", "critical"]
    small = measured(stopped_partition_seconds=11.0, libraries=["librdkafka"])
    huge = {"default": 1e6}
    assert [one["kind"] for one, _ in ranked(parts([storm, small]), huge)] == ["steady_members", "switch_strategy"]


def test_a_row_of_the_table_is_the_part_of_one_cluster_and_the_rows_of_an_action_sum_up() -> None:
    rows = fleet()
    for action, mine in ranked(parts(rows), stopped(rows)):
        assert {row["rank"] for row in mine} == {action["rank"]}
        assert sum(row["n_groups"] for row in mine) == action["n_groups"]
        assert sum(row["saved_seconds"] for row in mine) == pytest.approx(action["saved_seconds"])
        assert all(group["cluster"] == row["cluster"] for row in mine for group in row["groups"])


def test_groups_without_members_have_the_commands_that_delete_them_by_cluster() -> None:
    rows = [healthy(group_id=f"d{at}", cluster=f"c{at % 2}", state="empty", lag_now=100 * at) for at in range(4)]
    (one,) = actions(rows)
    assert one["title"] == "Start or delete 4 groups without members"
    assert one["saves"] == "600 records behind, which raises alarms"
    assert [(block["library"], block["lines"].split("--delete ")[1]) for block in one["config"]] == [
        ("c0", "--group d2 --group d0"),
        ("c1", "--group d3 --group d1"),
    ]


def test_groups_of_one_name_in_two_clusters_are_deleted_in_both() -> None:
    (one,) = actions([healthy(group_id="d", cluster=cluster, state="empty", lag_now=1) for cluster in ("east", "west")])
    (block,) = one["config"]
    assert (block["library"], block["n_groups"]) == ("east, west", 2)
    assert block["groups"] == [{"cluster": cluster, "group_id": "d"} for cluster in ("east", "west")]


def test_an_action_says_how_many_records_were_deleted_unread() -> None:
    dead = [healthy(group_id=f"d{lost}", **CASES["dead_groups"] | unhealthy("losing_data", lost=lost)) for lost in (700, 1, 0)]
    (one,) = actions(dead)
    assert one["saves"] == "138,114 records behind, which raises alarms; 701 records deleted unread"
    (one,) = actions([healthy(**unhealthy("losing_data", lost=700))])
    assert (one["kind"], one["saves"]) == ("save_records", "700 records deleted unread")


@pytest.mark.parametrize("static", [0, 3])
def test_a_group_without_a_better_strategy_and_without_restarts_is_in_no_action(static: int) -> None:
    """It stops for longer than necessary, but steadier members would not change that; with restarts they would."""
    stops = measured(suggested_strategy=None, needless_moves=0, static_now=static)
    (found,) = findings_of(stops)
    assert (found.kind, "group.instance.id" in found.action) == ("eager_stops", False)
    assert actions([stops]) == []
    restarted = stops | CASES["static_membership"]
    assert [one["kind"] for one in actions([restarted])] == ([] if static else ["steady_members"])
    assert all(("group.instance.id" in one.action) == (static == 0) for one in findings_of(restarted))


def test_each_finding_names_its_action_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "findings.md").read_text(encoding="utf-8")
    listed = page.split("\n## Actions\n")[1].split("\n## ")[0]
    assert [kind for kind in KINDS if f"`{kind}`" not in listed] == []
    for section in page.split("\n## Findings\n")[1].split("\n## ")[0].split("\n### ")[1:]:
        assert any(f"`{kind}`" in section.split("\nAction: ")[-1] for kind in KINDS), section.splitlines()[0]


def test_groups_of_brokers_and_of_libraries_without_a_common_strategy_are_in_one_switch_that_says_what_to_do() -> None:
    uneven = healthy(**CASES["unbalanced"]) | {"protocol": "range", "suggested_strategy": None}
    broker = uneven | {"group_id": "b", "group_type": "consumer", "protocol_kind": "server", "libraries": None}
    (one,) = actions([broker, uneven | {"group_id": "m", "libraries": ["aiokafka", "librdkafka"]}])
    assert (one["kind"], one["title"]) == (
        "switch_strategy",
        "Switch 2 groups from range to another assignor or one client library",
    )
    lines = {block["library"]: block["lines"] for block in one["config"]}
    assert lines["KIP-848"].startswith("the broker has an assignor for that")
    assert "use one client library for all members first" in lines["aiokafka, librdkafka"]


def test_a_group_that_uses_the_broker_s_default_is_not_said_to_leave_a_library_s_version() -> None:
    skewed = CASES["topic_skew"] | {"group_type": "consumer", "protocol_kind": "server", "protocol": None, "libraries": None}
    runs = [run("observed", "replay"), run("range", "closed_loop")]
    (one,) = actions([healthy(**skewed | {"strategies": runs})])
    assert one["title"] == "Switch 1 group from the broker's default to another assignor"


def test_moves_that_are_less_than_one_a_day_are_counted_in_all() -> None:
    (one,) = actions([healthy(**CASES["needless_moves"] | {"needless_moves": 4, "rebalances_per_day": 0.25})])
    assert one["saves"] == "saves 4 needless moves"


def test_only_rebalances_of_restarts_are_avoided_and_late_polls_are_not_counted_twice() -> None:
    """Five restarts of two clients at a time; a late poll that is back within a minute is a restart, too."""
    restarted = CASES["static_membership"] | {"restart_rebalances": 3, "rebalances": 9}
    for changes, avoided in (({}, 3), (CASES["polled_too_late"], 4), (CASES["polled_too_late"] | {"poll_kicks": 1}, 3)):
        (one,) = actions([healthy(libraries=["java"], **restarted | changes)])
        assert one["saved_rebalances"] == avoided
    (storm,) = actions([healthy(**CASES["storm"])])
    assert (storm["saved_rebalances"], storm["saves"]) == (0, "no saving that can be counted"), "all of them are first joins"


def test_librdkafka_beside_another_library_stops_between_the_restarts_of_the_others() -> None:
    (one,) = actions([measured(libraries=["java", "librdkafka"])])
    assert one["cost"] == "two rolling restarts and a stop of all librdkafka members"
    for library, cost in (("java", "two (2 groups); {} (1 group)"), ("librdkafka", "two (1 group); {} (2 groups)")):
        (both,) = actions([measured(libraries=["java", "librdkafka"]), measured(group_id="other", libraries=[library])])
        assert both["cost"] == "rolling restarts: " + cost.format("a stop of all librdkafka members")
    (block,) = (block for block in one["config"] if block["library"] == "librdkafka")
    assert "stop all its members, after the first rolling restart of the others start them with" in block["lines"]


def test_restarts_and_late_polls_of_a_group_are_one_action_with_the_lines_of_both() -> None:
    (one,) = actions([healthy(libraries=["java"], **CASES["static_membership"] | CASES["polled_too_late"])])
    assert one["kind"] == "steady_members"
    lines = " ".join(block["lines"] for block in one["config"])
    assert all(name in lines for name in ("group.instance.id", "max.poll.interval.ms"))
