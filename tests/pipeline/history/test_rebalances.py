"""The folds behind the table `rebalances`, on rows made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterpoise.pipeline.history.steps import StepsFold, steps_of_group
from counterpoise.pipeline.records.group_records import payload
from counterpoise.pipeline.schemas import TABLES
from counterpoise.wire.offsets_topic import values
from tests.pipeline.pieces_of_folds import history_of
from tests.pipeline.rows import NAMED, created, current, epoch, generation, member, member_848, modern, target, tombstone

HALF = {"t": [0, 1]}, {"t": [2, 3]}
ALL = {"t": [0, 1, 2, 3]}


def steps(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return list(steps_of_group(rows))


def kinds(*rows: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["kind"], step["cause"]) for step in steps(*rows)]


def test_a_group_is_created_grows_shrinks_and_empties() -> None:
    a, b = member("a-1", HALF[0]), member("b-1", HALF[1])
    seen = steps(
        created(), generation(1, member("a-1", ALL)), generation(2, a, b), generation(3, member("b-1", ALL)), generation(4)
    )
    assert [(s["kind"], s["cause"]) for s in seen] == [
        ("created", "join"),
        ("rebalance", "join"),
        ("rebalance", "join"),
        ("rebalance", "leave"),
        ("emptied", "leave"),
    ]
    assert [s.get("n_moved") for s in seen[1:4]] == [0, 2, 0]
    assert [s.get("n_kept") for s in seen[1:4]] == [0, 2, 2]
    assert seen[2]["joined"] == ["b-1"]
    assert seen[3]["left"] == ["a-1"]
    assert all(step["complete"] for step in seen)


def test_a_gap_in_generations_is_a_failed_rebalance() -> None:
    seen = steps(created(), generation(1, member("a-1", ALL)), generation(4, member("a-1", ALL)))
    assert [step.get("missed_generations") for step in seen[1:]] == [0, 2]


def test_a_generation_written_again_without_members_or_with_them_is_no_failed_one() -> None:
    seen = steps(created(), generation(1, member("a-1", ALL)), generation(2), generation(2), generation(2, member("a-1", ALL)))
    assert [step.get("missed_generations") for step in seen[1:]] == [0, 0, 0, 0]


def test_history_cut_off_by_compaction_is_said_to_be_incomplete() -> None:
    seen = steps(generation(17, member("a-1", ALL)), generation(18, member("a-1", ALL)))
    assert [(step["complete"], step["missed_generations"]) for step in seen] == [(False, None), (True, 0)]


def test_members_whose_records_are_newer_than_a_compacted_target_are_members() -> None:
    """The host of b changed; c, a static member, came back under a new id: the broker wrote both again, without a new epoch."""
    seen = steps(
        NAMED,
        modern(3, json.dumps({"epoch": 7})),
        modern(5, member_848("a", "t"), "a"),
        *epoch(7, {"a": [0], "b": [1]}),
        modern(8, current(7), "a"),
        modern(8, current(7), "b"),
        modern(5, member_848("b", "t"), "b"),
        modern(5, member_848("c", "t", instance="i"), "c"),
        modern(7, target(2), "c"),
        modern(8, current(7), "c"),
        modern(8, current(7), "c"),
    )
    assert [(step["kind"], step["joined"], step["n_members"], step["n_partitions"]) for step in seen] == [
        ("rebalance", ["a"], 1, 1),
        ("static_replacement", ["b"], 2, 2),
        ("static_replacement", ["c"], 3, 3),
    ]
    assert {(step["generation"], step["complete"]) for step in seen} == {(7, False)}


def test_a_member_that_joins_after_a_compacted_target_waits_for_its_own() -> None:
    """It is given the present epoch first."""
    joins = modern(5, member_848("b", "t"), "b"), modern(3, json.dumps({"epoch": 8})), modern(8, current(7), "b")
    first = modern(3, json.dumps({"epoch": 7})), modern(5, member_848("a", "t"), "a"), *epoch(7, {"a": [0, 1]})
    seen = steps(NAMED, *first, modern(8, current(7), "a"), *joins, *epoch(8, {"a": [0], "b": [1]}))
    assert [(step["generation"], step["joined"]) for step in seen] == [(7, ["a"]), (8, ["b"])]


def test_after_a_damaged_generation_nobody_knows_how_many_failed() -> None:
    """A bit of the sign: the number of generations in between would not even fit in a column."""
    seen = steps(*(generation(number, member("a-1", ALL)) for number in (8, -2_147_483_640, 9)))
    assert [step["missed_generations"] for step in seen] == [None, 0, None]


def test_a_group_of_a_broker_before_kafka_4_is_complete_from_its_first_generation_on() -> None:
    """It writes no generation 0; the first record has members, is generation 1, and so it is again after a deletion."""
    seen = steps(generation(1, member("a-1", ALL)), generation(2), tombstone(), generation(1, member("a-2", ALL)))
    assert [(step["kind"], step["complete"]) for step in seen] == [
        ("rebalance", True),
        ("emptied", True),
        ("deleted", True),
        ("rebalance", True),
    ]
    assert [step["missed_generations"] for step in seen if step["kind"] == "rebalance"] == [0, 0]
    assert [step["complete"] for step in steps(generation(2, member("a-1", ALL)))] == [False]


def test_a_static_member_that_is_back_with_other_topics_is_no_rebalance_and_is_reported() -> None:
    """The broker takes down what it asks for now and hands out nothing: that comes with the next generation."""
    was, now = member("a-1", ALL, instance="i"), member("a-2", ALL, topics=["t", "u"], instance="i")
    seen = steps(created(), generation(1, was), generation(1, now))
    assert (seen[2]["kind"], seen[2]["detail"]) == ("static_replacement", "static member back: i; a subscription +u")


@pytest.mark.parametrize(("latency_ms", "instance", "known"), [(10_001, "i", False), (10_000, "i", True), (10_001, None, True)])
def test_a_record_that_is_written_again_for_a_static_member_has_no_latency(
    *, latency_ms: int, instance: str | None, known: bool
) -> None:
    """The first generation of a recording may be the record of a member that came back a day after the join."""
    seen = steps(*(generation(number, member("a-2", ALL, instance=instance), latency_ms=latency_ms) for number in (7, 8)))
    assert [step["sync_latency_ms"] == latency_ms for step in seen] == [known, True]


def test_generations_start_again_after_a_tombstone() -> None:
    seen = steps(
        created(), generation(1, member("a-1", ALL)), generation(2), tombstone(), created(), generation(1, member("a-2", ALL))
    )
    assert [step["incarnation"] for step in seen] == [0, 0, 0, 0, 1, 1]
    assert [step["kind"] for step in seen] == ["created", "rebalance", "emptied", "deleted", "created", "rebalance"]


def test_generations_that_fall_without_a_tombstone_are_a_new_life_of_unknown_past() -> None:
    seen = steps(generation(9, member("a-1", ALL)), generation(3, member("a-2", ALL)))
    assert [(step["incarnation"], step["complete"]) for step in seen] == [(0, False), (1, False)]


def test_a_static_member_that_comes_back_is_no_rebalance() -> None:
    a = member("a-1", HALF[0], instance="node-a")
    back = member("a-2", HALF[0], instance="node-a")
    b = member("b-1", HALF[1])
    seen = steps(created(), generation(1, a, b), generation(1, back, b), generation(2, back, member("c-1", HALF[1])))
    assert [step["kind"] for step in seen] == ["created", "rebalance", "static_replacement", "rebalance"]
    assert (seen[2]["joined"], seen[2]["left"]) == (["a-2"], ["a-1"])
    assert (seen[3]["joined"], seen[3]["left"]) == (["c-1"], ["b-1"])


def test_partitions_of_a_share_group_have_several_owners_so_none_is_counted_as_moved() -> None:
    """Share members (type 10) and their targets (13, 12)."""
    rows: list[dict[str, Any]] = [NAMED]
    for number, names in enumerate(("a", "ab"), 1):
        rows += [modern(10, member_848(name, "t"), name) for name in names]
        rows += [modern(13, target(0, 1), name) for name in names]
        rows += [modern(12, json.dumps({"assignment_epoch": number}))]
    found = list(steps_of_group(rows))
    assert [(step["group_type"], step["n_members"], step["n_moved"], step["n_kept"]) for step in found] == [
        ("share", 1, None, None),
        ("share", 2, None, None),
    ]


def test_the_second_round_of_a_cooperative_pair_shares_the_number_and_the_cause() -> None:
    first = generation(1, member("a-1", ALL), protocol="cooperative-sticky")
    join = generation(2, member("a-1", HALF[0], owned=ALL, generation=1), member("b-1", {}), protocol="cooperative-sticky")
    second = generation(
        3,
        member("a-1", HALF[0], owned=HALF[0], generation=2),
        member("b-1", HALF[1], generation=2),
        protocol="cooperative-sticky",
    )
    seen = steps(created(), first, join, second)[1:]
    assert [(s["kind"], s["cause"], s["logical_rebalance"]) for s in seen] == [
        ("rebalance", "join", 1),
        ("rebalance", "join", 2),
        ("cooperative_followup", "join", 2),
    ]
    assert [step["n_moved"] for step in seen] == [0, 0, 2]
    cut = steps(join, second)  # the first record that compaction has left
    assert [(step["complete"], step["n_withheld"], step["n_moved"]) for step in cut] == [(False, 2, 0), (True, 0, 2)]


@pytest.mark.parametrize(
    ("now", "cause"),
    [
        (generation(2, member("a-1", {**ALL, "u": [0]}, topics=("t", "u"))), "subscription"),
        (generation(2, member("a-1", {"t": [0, 1, 2, 3, 4, 5]})), "partition_count"),
        (generation(2, member("a-1", ALL), protocol="roundrobin"), "protocol"),
        (generation(2, member("a-1", ALL)), "unknown"),
        (generation(2, member("a-2", ALL)), "join_leave"),
    ],
)
def test_causes(now: dict[str, Any], cause: str) -> None:
    assert kinds(created(), generation(1, member("a-1", ALL)), now)[-1] == ("rebalance", cause)


def test_the_first_members_are_listed_by_their_whole_client_ids() -> None:
    assert steps(generation(1, member("a-1", ALL, client="x; y")))[0]["detail"] == "joined: x; y"


def test_a_client_that_leaves_and_joins_in_one_round_was_restarted() -> None:
    seen = steps(created(), generation(1, member("a-1", ALL)), generation(2, member("a-2", ALL)))
    assert seen[-1]["restarted"] == ["a"]


def test_sync_latency_is_the_time_from_the_end_of_the_join_to_the_record() -> None:
    seen = steps(created(), generation(1, member("a-1", ALL), latency_ms=282))
    assert seen[-1]["sync_latency_ms"] == 282


def test_a_simple_group_that_expires_is_only_deleted() -> None:
    seen = steps(tombstone())
    assert [(step["kind"], step["complete"], step["generation"]) for step in seen] == [("deleted", False, None)]


ONE_MEMBER = (
    NAMED,
    modern(5, member_848("m1", "t"), "m1"),
    modern(3, json.dumps({"epoch": 2})),
    *epoch(2, {"m1": [0, 1]}),
)
"""A KIP-848 group, new, with one member."""


def test_a_broker_assigned_group_rebalances_with_each_target_epoch_and_settles_when_all_reach_it() -> None:
    seen = steps(
        *ONE_MEMBER,
        modern(8, current(2), "m1", seconds=0.25),
        modern(5, member_848("m2", "t"), "m2", seconds=10),
        modern(7, target(0), "m1", seconds=10),
        modern(7, target(1), "m2", seconds=10),
        modern(6, json.dumps({"assignment_epoch": 3}), seconds=10),
        modern(8, current(2, state=1), "m1", seconds=11),
        modern(8, current(3), "m2", seconds=12),
        modern(8, current(3), "m1", seconds=13),
        modern(8, None, "m2", seconds=20),
        modern(7, None, "m2", seconds=20),
        modern(5, None, "m2", seconds=20),
        modern(7, target(0, 1), "m1", seconds=21),
        modern(6, json.dumps({"assignment_epoch": 4}), seconds=21),
    )
    reported = [(s["generation"], s["kind"], s["cause"], s["n_members"], s["n_moved"], s["n_kept"], s["settle_ms"]) for s in seen]
    assert reported == [
        (2, "rebalance", "join", 1, 0, 0, 250),
        (3, "rebalance", "join", 2, 1, 1, 3000),
        (4, "rebalance", "leave", 1, 0, 1, None),
    ]
    assert seen[1]["assignment"][0]["assigned"] == [{"topic": "t", "partitions": [0]}]
    assert {step["protocol"] for step in seen} == {"uniform"}


def test_a_settled_epoch_and_an_emptied_group_are_final_before_the_next_record() -> None:
    fold = StepsFold()
    progress = []
    rows = [*ONE_MEMBER, modern(8, current(2), "m1", seconds=0.25), *(modern(kind, None, "m1", seconds=10) for kind in (8, 7, 5))]
    for row in [*rows, modern(3, json.dumps({"epoch": 3}), seconds=10)]:
        finished = [(step["kind"], step["settle_ms"]) for step in fold.feed(row)]
        progress.append((row["record_type"], finished, len(list(fold.unfinished()))))
    assert [one for one in progress if one[1] or one[2]] == [
        (6, [], 1),
        (8, [("rebalance", 250)], 0),
        (3, [("emptied", None)], 0),
    ]


def test_a_kip_848_group_that_its_last_member_leaves_is_empty_at_once() -> None:
    """No target is made for nobody; who comes later joins, and no epoch was missed."""
    seen = steps(
        *ONE_MEMBER,
        *(modern(kind, None, "m1", seconds=10) for kind in (8, 7, 5)),
        modern(3, json.dumps({"epoch": 3}), seconds=10),
        modern(5, member_848("m1", "t"), "m1", seconds=20),
        modern(3, json.dumps({"epoch": 4}), seconds=20),
        modern(7, target(0, 1), "m1", seconds=20),
        modern(6, json.dumps({"assignment_epoch": 4}), seconds=20),
    )
    reported = [(s["generation"], s["kind"], s["cause"], s["joined"], s["left"], s["missed_generations"]) for s in seen]
    assert reported == [
        (2, "rebalance", "join", ["m1"], [], 0),
        (3, "emptied", "leave", [], ["m1"], 0),
        (4, "rebalance", "join", ["m1"], [], 0),
    ]


def test_a_kip_848_member_that_left_and_is_back_before_the_next_target_is_reported_as_both() -> None:
    """librdkafka leaves when it polls again, and joins at once; a static member that is back has not left."""

    def seen_with(instance: str | None) -> dict[str, Any]:
        about = json.loads(member_848("m1", "t")) | {"instance_id": instance}
        one = json.dumps(about)
        *_, last = steps(
            modern(-1, json.dumps({"id-of-t": "t"})),
            modern(5, one, "m1"),
            modern(5, member_848("m2", "t"), "m2"),
            modern(3, json.dumps({"epoch": 2})),
            modern(7, target(0), "m1"),
            modern(7, target(1), "m2"),
            modern(6, json.dumps({"assignment_epoch": 2})),
            *(modern(kind, None, "m1", seconds=10) for kind in (8, 7, 5)),
            modern(3, json.dumps({"epoch": 3}), seconds=10),
            modern(5, one, "m1", seconds=10),
            modern(3, json.dumps({"epoch": 4}), seconds=10),
            modern(7, target(0), "m1", seconds=10),
            modern(6, json.dumps({"assignment_epoch": 4}), seconds=10),
        )
        return last

    last = seen_with(None)
    assert (last["cause"], last["joined"], last["left"], last["n_moved"], last["n_kept"]) == ("join_leave", ["m1"], ["m1"], 0, 2)
    static = seen_with("i-1")
    assert (static["cause"], static["joined"], static["left"]) == ("unknown", [], [])


def test_ids_of_topics_are_named_by_the_groups_own_record_and_stay_ids_where_nobody_names_them() -> None:
    """Type 4, which brokers wrote until 4.0."""
    listed = json.dumps({"topics": [{"topic_id": "id-of-t", "topic_name": "t", "num_partitions": 2}]})
    rows = [
        modern(5, member_848("m1", "t"), "m1"),
        modern(4, listed),
        modern(3, json.dumps({"epoch": 2})),
        modern(7, target(0, 1), "m1"),
        modern(6, json.dumps({"assignment_epoch": 2})),
        modern(4, None, seconds=1),
    ]
    for kept, name in ((rows, "t"), ([rows[0], *rows[2:]], "id-of-t")):
        (step,) = steps(*kept)
        assert step["assignment"][0]["assigned"] == [{"topic": name, "partitions": [0, 1]}]


def test_a_group_that_continues_under_the_other_protocol_was_migrated() -> None:
    up = steps(
        created(),
        generation(4, member("a-1", ALL)),
        tombstone(seconds=5),
        modern(5, member_848("a", "t"), "a-1", seconds=5),
        modern(3, json.dumps({"epoch": 4}), seconds=5),
        modern(7, target(0), "a-1", seconds=5),
        modern(6, json.dumps({"assignment_epoch": 4}), seconds=5),
    )
    assert [(s["kind"], s["cause"]) for s in up][2:] == [("migrated", "protocol"), ("rebalance", "protocol")]
    assert [step["complete"] for step in up] == [True, True, True, True]
    down = steps(
        modern(5, member_848("a", "t"), "a-1"),
        modern(3, json.dumps({"epoch": 6})),
        modern(6, json.dumps({"assignment_epoch": 6})),
        modern(3, None, seconds=5),
        generation(6, member("a-1", ALL), seconds=5),
    )
    assert [(s["kind"], s["cause"]) for s in down] == [("rebalance", "join"), ("migrated", "protocol"), ("rebalance", "protocol")]
    assert [step["missed_generations"] for step in down[2:]] == [0]


def test_a_group_that_was_empty_when_it_changed_the_protocol_begins_a_new_incarnation() -> None:
    """The broker replaces an empty group by a new one, whose epochs or generations begin again."""
    rows = (
        NAMED,
        created(),
        generation(7, member("a-1", ALL)),
        generation(8),
        tombstone(seconds=5),
        modern(5, member_848("a", "t"), "m1", seconds=5),
        modern(3, json.dumps({"epoch": 2}), seconds=5),
        *epoch(2, {"m1": [0]}, seconds=5),
        modern(5, None, "m1", seconds=6),
        modern(3, json.dumps({"epoch": 3}), seconds=6),
        modern(3, None, seconds=9),
        generation(0, seconds=9, protocol_type=""),
    )
    found = [(s["kind"], s["generation"], s["incarnation"], s["complete"], s["detail"].partition(":")[0]) for s in steps(*rows)]
    assert found == [
        ("created", 0, 0, True, "the group is new"),
        ("rebalance", 7, 0, True, "joined"),
        ("emptied", 8, 0, True, "left"),
        ("migrated", 8, 0, True, "the group was upgraded to the consumer protocol"),
        ("rebalance", 2, 1, True, "joined"),
        ("emptied", 3, 1, True, "left"),
        ("migrated", 3, 1, True, "the group was downgraded to the classic protocol"),
        ("created", 0, 2, True, "the group is new"),
    ]
    unsynced = steps(*rows[:2], *rows[4:9])  # members that left before their first generation was recorded
    assert [(s["kind"], s["incarnation"]) for s in unsynced] == [("created", 0), ("migrated", 0), ("rebalance", 1)]
    assert unsynced[2]["detail"] == "joined: a"
    classic = json.dumps({**json.loads(member_848("a", "t")), "classic_member_metadata": {"session_timeout_ms": 10000}})
    joining = steps(
        *rows[:5],
        modern(5, classic, "m1", seconds=5),
        modern(3, json.dumps({"epoch": 9}), seconds=5),
        *epoch(9, {"m1": []}, seconds=5),
    )
    assert [(s["kind"], s["generation"], s["incarnation"], s["complete"], s["detail"]) for s in joining][4:] == [
        ("rebalance", 9, 0, True, "joined: a")  # it was joining when the group was upgraded: the epochs continue
    ]


def test_the_topics_of_a_group_that_is_upgraded_while_a_member_leaves_do_not_shrink_and_grow() -> None:
    """A member that leaves a classic group and returns under the new protocol: the first target holds what the others have."""
    seen = steps(
        NAMED,
        generation(2, member("a-1", HALF[0]), member("b-1", HALF[1])),
        tombstone(seconds=5),
        modern(5, member_848("a", "t"), "a-1", seconds=5),
        *epoch(2, {"a-1": [0, 1]}, seconds=5),
        modern(5, member_848("b", "t"), "b-2", seconds=5),
        *epoch(3, {"a-1": [0, 1], "b-2": [2, 3]}, seconds=5),
        modern(5, None, "b-2", seconds=9),
        *epoch(4, {"a-1": [0, 1, 2, 3, 4]}, seconds=9),
    )[2:]
    assert [(s["cause"], s["detail"], s["n_moved"], s["n_kept"]) for s in seen] == [
        ("leave", "left: b", 0, 2),
        ("join", "joined: b", 0, 2),
        ("leave", "left: b; t 4 -> 5 partitions", 0, 2),
    ]


def test_what_a_leaver_had_is_handed_out_after_the_downgrade_because_of_it() -> None:
    """The record by which the group goes over holds what the others have; the broker lets them join again at once."""
    rows = (
        NAMED,
        modern(5, member_848("a", "t"), "a-1"),
        modern(5, member_848("b", "t"), "b-1"),
        *epoch(2, {"a-1": [0, 1], "b-1": [2, 3]}),
        modern(3, None, seconds=5),
        generation(2, member("a-1", HALF[0]), seconds=5),
        generation(3, member("a-1", ALL), seconds=6),
        generation(4, member("a-1", ALL), seconds=7),
    )
    seen = steps(*rows)[2:]
    assert [(step["generation"], step["cause"], step["left"]) for step in seen] == [
        (2, "leave", ["b-1"]),
        (3, "leave", []),
        (4, "unknown", []),
    ]
    assert [step["detail"] for step in seen] == [
        "left: b",
        "what the member had that left when the group was downgraded is handed out",
        "",
    ]


def test_after_a_downgrade_by_which_nobody_left_a_rebalance_without_a_difference_stays_unexplained() -> None:
    """A static member that comes back under the classic protocol takes the group over, and nothing is left to be handed out."""
    seen = steps(
        NAMED,
        modern(5, member_848("a", "t", instance="i"), "a-1"),
        *epoch(2, {"a-1": [0, 1, 2, 3]}),
        modern(3, None, seconds=5),
        generation(2, member("a-2", ALL, instance="i"), seconds=5),
        generation(3, member("a-2", ALL, instance="i"), seconds=60),
    )
    assert [(step["generation"], step["cause"], step["detail"]) for step in seen[2:]] == [(2, "protocol", ""), (3, "unknown", "")]


def test_a_topic_that_members_begin_to_ask_for_has_not_grown() -> None:
    """Of a KIP-848 group too: not the first ones, not those that came with a member, not those that went with the last one."""
    seen = steps(
        NAMED,
        modern(5, member_848("a", "t"), "a-1"),
        *epoch(2, {"a-1": [0, 1]}),
        modern(5, member_848("b", "u"), "b-1", seconds=1),
        modern(7, target(0, topic_id="id-of-u"), "b-1", seconds=1),
        modern(6, json.dumps({"assignment_epoch": 3}), seconds=1),
        *epoch(4, {"a-1": [0, 1, 2]}, seconds=2),
        modern(5, None, "a-1", seconds=3),
        modern(7, None, "a-1", seconds=3),
        modern(6, json.dumps({"assignment_epoch": 5}), seconds=3),
        modern(5, None, "b-1", seconds=4),
        modern(7, None, "b-1", seconds=4),
        modern(3, json.dumps({"epoch": 6}), seconds=4),
    )
    assert [(step["kind"], step["cause"], step["detail"]) for step in seen] == [
        ("rebalance", "join", "joined: a"),
        ("rebalance", "join", "joined: b"),
        ("rebalance", "partition_count", "t 2 -> 3 partitions"),
        ("rebalance", "leave", "left: a"),
        ("emptied", "leave", "left: b"),
    ]


def test_a_pattern_that_matches_less_because_a_topic_was_deleted_is_its_cause_also_where_nothing_is_handed_out() -> None:
    """The broker takes the partitions back at one epoch and finds out about the pattern some seconds later, at the next."""
    held = [{"topic_id": "id-of-t", "partitions": [0, 1]}, {"topic_id": "id-of-u", "partitions": [0]}]
    seen = steps(
        NAMED,
        modern(5, member_848("m1", pattern="[tu]"), "m1"),
        modern(16, json.dumps({"regex": "[tu]", "topics": ["t", "u"]})),
        modern(7, json.dumps({"topic_partitions": held}), "m1"),
        modern(6, json.dumps({"assignment_epoch": 2})),
        modern(7, target(0, 1), "m1", seconds=2),
        modern(6, json.dumps({"assignment_epoch": 3}), seconds=2),
        modern(16, json.dumps({"regex": "[tu]", "topics": ["t"]}), seconds=5),
        modern(6, json.dumps({"assignment_epoch": 4}), seconds=5),
    )
    assert [(step["cause"], step["detail"]) for step in seen] == [
        ("join", "joined: m1"),
        ("partition_count", "u 1 -> 0 partitions"),
        ("partition_count", "pattern [tu] matches -u"),
    ]


def test_a_pattern_is_what_a_member_asks_for_and_what_it_matches_is_reported() -> None:
    """The broker finds out after the member's record; a new topic that matches is no new subscription, another pattern is."""
    seen = steps(
        modern(-1, json.dumps({"id-of-t": "t", "id-of-u": "u"})),
        modern(5, member_848("m1", pattern="t.*"), "m1"),
        modern(16, json.dumps({"regex": "t.*", "topics": ["t"]})),
        modern(7, target(0, 1), "m1"),
        modern(6, json.dumps({"assignment_epoch": 2})),
        modern(5, member_848("m1", pattern="t.*"), "m1", seconds=1),
        modern(6, json.dumps({"assignment_epoch": 3}), seconds=1),
        modern(16, json.dumps({"regex": "t.*", "topics": ["t", "u"]}), seconds=2),
        modern(7, target(0, 1, 2), "m1", seconds=2),
        modern(6, json.dumps({"assignment_epoch": 4}), seconds=2),
        modern(5, member_848("m1", pattern="u.*"), "m1", seconds=3),
        {**modern(16, json.dumps({"regex": "t.*"}), seconds=3), "deleted": True},
        modern(6, json.dumps({"assignment_epoch": 5}), seconds=3),
    )
    assert [step["cause"] for step in seen] == ["join", "unknown", "partition_count", "subscription"]
    assert seen[2]["detail"] == "t 2 -> 3 partitions; pattern t.* matches +u"
    assert seen[3]["detail"] == "m1 subscription +pattern u.* -pattern t.*"


def test_another_assignor_of_the_broker_is_the_cause_if_nothing_else_differs() -> None:
    """What most members ask for counts, as in the column `protocol`; a group that asks for none has the broker's default."""
    seen = steps(
        NAMED,
        *(modern(5, member_848(name, "t", assignor=None), name) for name in ("a", "b")),
        *epoch(2, {"a": [0], "b": [1]}),
        *(modern(5, member_848(name, "t", assignor="uniform"), name, seconds=1) for name in ("a", "b")),
        *epoch(3, {"a": [0], "b": [1]}, seconds=1),
        modern(5, member_848("a", "t", assignor="range"), "a", seconds=2),
        modern(5, member_848("b", "t", assignor="range"), "b", seconds=2),
        *epoch(4, {"a": [0], "b": [1]}, seconds=2),
        *(modern(5, member_848(name, "t", assignor="uniform"), name, seconds=3) for name in ("a", "b")),
        *epoch(5, {"a": [0, 2], "b": [1]}, seconds=3),
    )
    assert [(step["protocol"], step["cause"], step["detail"]) for step in seen] == [
        (None, "join", "joined: a, b"),
        ("uniform", "unknown", ""),
        ("range", "protocol", "protocol uniform -> range"),
        ("uniform", "partition_count", "t 2 -> 3 partitions; protocol range -> uniform"),
    ]


def streams_member(name: str) -> str:
    about: dict[str, Any] = {"client_host": "/10.0.0.1", "rebalance_timeout_ms": 60_000, "topology_epoch": 0, "process_id": name}
    empty: dict[str, Any] = {"instance_id": None, "rack_id": None, "user_endpoint": None, "client_tags": ()}
    return json.dumps(payload(values.StreamsGroupMemberMetadataValue(client_id=name, **about, **empty)))


def tasks(*partitions: int) -> str:
    active = (values.Tasks(subtopology_id="0", partitions=partitions),)
    return json.dumps(
        payload(values.StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=(), warmup_tasks=()))
    )


def test_a_streams_group_is_listed_with_its_epochs_and_settles_by_its_own_numbers_of_states() -> None:
    """State 1 is stable there, and 0 is not."""
    seen = steps(
        modern(19, streams_member("m1"), "m1"),
        modern(17, json.dumps({"epoch": 2})),
        modern(23, json.dumps({"epoch": 0, "subtopologies": []})),
        modern(21, tasks(0, 1), "m1"),
        modern(20, json.dumps({"assignment_epoch": 2})),
        modern(22, current(2, state=1), "m1", seconds=0.5),
        modern(19, streams_member("m2"), "m2", seconds=5),
        modern(17, json.dumps({"epoch": 3}), seconds=5),
        modern(21, tasks(0), "m1", seconds=5),
        modern(21, tasks(1), "m2", seconds=5),
        modern(20, json.dumps({"assignment_epoch": 3}), seconds=5),
        modern(22, current(3, state=0), "m1", seconds=6),
        modern(22, current(3, state=1), "m2", seconds=7),
        modern(22, current(3, state=1), "m1", seconds=8),
        modern(17, None, seconds=20),
    )
    reported = [
        (s["group_type"], s["generation"], s["kind"], s["cause"], s["n_members"], s.get("n_moved"), s["settle_ms"]) for s in seen
    ]
    assert reported == [
        ("streams", 2, "rebalance", "join", 1, 0, 500),
        ("streams", 3, "rebalance", "join", 2, 1, 3000),
        ("streams", 3, "deleted", "unknown", 0, None, None),
    ]
    assert [each["assigned"] for each in seen[1]["assignment"]] == [
        [{"topic": "0", "partitions": [0]}],
        [{"topic": "0", "partitions": [1]}],
    ]
    row = history_of(dict.fromkeys(TABLES["rebalances"].names) | step for step in seen)
    assert (row["group_type"], row["state"], row["generation_now"], row["rebalances"]) == ("streams", "deleted", 3, 2)


def test_a_streams_group_whose_first_target_waits_for_more_members_is_complete() -> None:
    """The broker waits `group.streams.initial.rebalance.delay.ms`, and each member that joins meanwhile is a new epoch."""
    joins = [
        row
        for at, name in enumerate(("m1", "m2", "m3"))
        for row in (modern(19, streams_member(name), name), modern(17, json.dumps({"epoch": 2 + at})))
    ]
    target = modern(21, tasks(0), "m1"), modern(20, json.dumps({"assignment_epoch": 4}))
    assert [(step["joined"], step["complete"]) for step in steps(*joins, *target)] == [(["m1", "m2", "m3"], True)]
    compacted = [row for row in joins if row["record_type"] == 19] + joins[-1:]
    assert [(step["joined"], step["complete"]) for step in steps(*compacted, *target)] == [(["m1", "m2", "m3"], False)]


@pytest.mark.parametrize(("seconds", "kind"), [(9, "migrated"), (60, "deleted")])
def test_a_group_begins_a_new_incarnation_when_it_changes_to_the_streams_protocol_and_back(seconds: float, kind: str) -> None:
    """The broker deletes a Streams group with one more tombstone behind that of the group, its topology's."""
    seen = steps(
        created(),
        generation(7, member("a-1", ALL)),
        generation(8),
        tombstone(seconds=5),
        modern(19, streams_member("m1"), "m1", seconds=5),
        modern(23, json.dumps({"epoch": 0, "subtopologies": []}), seconds=5),
        modern(17, json.dumps({"epoch": 2}), seconds=5),
        modern(21, tasks(0), "m1", seconds=8),
        modern(20, json.dumps({"assignment_epoch": 2}), seconds=8),
        modern(19, None, "m1", seconds=8),
        modern(17, json.dumps({"epoch": 3}), seconds=8),
        *(modern(record_type, None, seconds=9) for record_type in (20, 17, 23)),
        generation(0, seconds=seconds, protocol_type=""),
    )
    assert [(step["kind"], step["generation"], step["incarnation"]) for step in seen] == [
        ("created", 0, 0),
        ("rebalance", 7, 0),
        ("emptied", 8, 0),
        ("migrated", 8, 0),
        ("rebalance", 2, 1),
        ("emptied", 3, 1),
        (kind, 3, 1),
        ("created", 0, 2),
    ]
    assert seen[3]["detail"] == "the group was upgraded to the streams protocol"


def test_a_streams_group_grows_with_what_it_reads_though_its_members_do_not_say_what_that_is() -> None:
    seen = steps(
        modern(19, streams_member("m1"), "m1"),
        modern(21, tasks(0, 1), "m1"),
        modern(20, json.dumps({"assignment_epoch": 2})),
        modern(21, tasks(0, 1, 2), "m1", seconds=5),
        modern(20, json.dumps({"assignment_epoch": 3}), seconds=5),
    )
    assert [(step["cause"], step["detail"]) for step in seen] == [
        ("join", "joined: m1"),
        ("partition_count", "0 2 -> 3 partitions"),
    ]
