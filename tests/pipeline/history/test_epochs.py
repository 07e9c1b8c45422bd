"""Groups whose assignor is the broker (KIP-848) through every strategy: with what the broker had before it, and closed loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.history.modern_fold import NAMES, ModernFold
from counterpoise.pipeline.history.protocol_fold import ProtocolFold
from counterpoise.pipeline.history.replay_fold import (
    CLOSED_LOOP,
    EPOCH_TYPE,
    OBSERVED,
    REPLAY,
    STEP_COLUMNS,
    Replay,
    as_generation,
)
from counterpoise.pipeline.history.steps import StepsFold, steps_of_group
from tests.pipeline.conftest import COLUMNS, SHOP
from tests.pipeline.pieces_of_folds import ASKED, comparable, replayed_in_pieces, replays_of_group
from tests.pipeline.rows import (
    NAMED,
    created,
    epoch,
    generation,
    generation_rows,
    member,
    member_848,
    modern,
    modern_rows,
    target,
    tombstone,
)
from tests.work import Compared, lines_of

Row = dict[str, Any]
KINDS = dict.fromkeys(STEP_COLUMNS)


def generations(*rows: Row) -> list[Row]:
    """All generations of one group: those that are records, and those that several records make."""
    found: list[Row] = []

    def begun(row: Any, step: Any) -> None:
        if row["record_type"] is None:
            found.append({**row, "step": {**KINDS, **step}})
        elif step["group_type"] == EPOCH_TYPE:
            found.append(as_generation({**step, "group_id": "g"}))

    fold = StepsFold()
    for row in rows:
        fold.feed(row, begun)
    return found


def replayed(*rows: Row) -> dict[tuple[int, str, str], Replay]:
    return {(r.row["generation"], r.name, r.mode): r for r in replays_of_group(generations(*rows), ASKED)}


def two_members() -> list[Row]:
    return [
        NAMED,
        modern(5, member_848("m1", "t"), "m1"),
        *epoch(2, {"m1": [0, 1, 2, 3]}),
        modern(5, member_848("m2", "t"), "m2", seconds=10),
        *epoch(3, {"m1": [0, 1], "m2": [2, 3]}, seconds=10),
    ]


def test_every_strategy_is_asked_what_it_would_have_done_in_the_brokers_place() -> None:
    seen = replayed(*two_members())
    modes = [(OBSERVED, REPLAY), *((name, mode) for name in ASKED for mode in (REPLAY, CLOSED_LOOP))]
    assert sorted(seen) == sorted((n, name, mode) for n in (2, 3) for name, mode in modes)
    inputs = seen[3, "sticky", REPLAY].inputs
    assert inputs.problem.previous_owner.tolist() == [0, 0, 0, 0]
    assert (inputs.recorded.tolist(), inputs.observed.tolist(), inputs.client_ids) == ([0, 0, 1, 1], [0, 0, 1, 1], ("m1", "m2"))
    assert {replay.row["step"]["protocol_kind"] for replay in seen.values()} == {"server"}


def test_a_member_of_a_kip_848_group_gives_up_only_what_moves_while_an_eager_strategy_stops_all() -> None:
    seen = replayed(*two_members())
    figures = {name: seen[3, name, REPLAY].metrics for name in (OBSERVED, *ASKED)}
    assert {name: found.revoked for name, found in figures.items()} == {
        OBSERVED: 2,
        "range": 4,
        "sticky": 4,
        "cooperative-sticky": 2,
    }
    assert (figures[OBSERVED].moved, figures[OBSERVED].min_moves, figures[OBSERVED].sticky) == (2, 2, True)


SWAPPED = {"m1": [2, 3], "m2": [0, 1]}


def made_anew(gap: bool) -> list[Row]:
    """The topic is deleted and made again under its name; the broker has a target without it in between, or has none."""
    empty = [modern(7, json.dumps({"topic_partitions": []}), name, seconds=15) for name in SWAPPED]
    between = [*empty, modern(6, json.dumps({"assignment_epoch": 4}), seconds=15)] if gap else []
    return [*two_members(), *between, *epoch(5 if gap else 4, SWAPPED, seconds=20, topic_id="id-of-t-anew")]


@pytest.mark.parametrize("gap", [False, True])
def test_partitions_of_a_topic_that_was_recreated_are_others_and_did_not_move(gap: bool) -> None:
    last = steps_of(made_anew(gap))[-1]
    assert (last["n_moved"], last["n_kept"], last["recreated"]) == (0, 0, ["t"])
    assert (last["cause"], "recreated: t" in last["detail"]) == ("partition_count", True)
    seen = replayed(*made_anew(gap))
    figures = {key[1:]: one.metrics for key, one in seen.items() if key[0] == last["generation"]}
    assert len(figures) == 1 + 2 * len(ASKED)
    assert {(one.moved, one.kept, one.revoked) for one in figures.values()} == {(0, 0, 0)}


def test_partitions_of_a_topic_that_was_not_recreated_moved() -> None:
    last = steps_of([*two_members(), *epoch(4, SWAPPED, seconds=20)])[-1]
    assert (last["n_moved"], last["n_kept"], last["recreated"], last["cause"]) == (4, 0, [], "unknown")
    later = steps_of([*made_anew(gap=False), *epoch(5, {"m1": [0, 1], "m2": [2, 3]}, seconds=30, topic_id="id-of-t-anew")])[-1]
    assert (later["n_moved"], later["n_kept"], later["recreated"]) == (4, 0, [])


def steps_of(rows: list[Row]) -> list[Row]:
    fold = StepsFold()
    return [*(step for row in rows for step in fold.feed(row)), *fold.unfinished()]


def test_a_broker_that_moves_more_than_it_must_is_found_out() -> None:
    seen = replayed(*two_members(), *epoch(4, {"m1": [2, 3], "m2": [0, 1]}, seconds=20))[4, OBSERVED, REPLAY].metrics
    assert (seen.moved, seen.min_moves, seen.balanced, seen.sticky) == (4, 0, True, False)


def test_what_the_broker_calls_range_is_not_said_to_be_the_strategy_of_that_name() -> None:
    seen = replayed(NAMED, modern(5, member_848("m1", "t", assignor="range"), "m1"), *epoch(2, {"m1": [0, 1]}))
    assert [(replay.declared, replay.matches) for replay in seen.values()] == [(False, True)] * 7


def static_member_back(first: Mapping[str, list[int]], then: Mapping[str, list[int]]) -> list[Row]:
    """m1 is back as m9 when m2 joins."""
    return [
        NAMED,
        modern(5, member_848("m1", "t", instance="i"), "m1"),
        *epoch(2, first),
        *(modern(kind, None, "m1", seconds=5) for kind in (5, 7)),
        modern(5, member_848("m9", "t", instance="i"), "m9", seconds=5),
        modern(5, member_848("m2", "t"), "m2", seconds=5),
        *epoch(3, then, seconds=5),
    ]


def test_a_static_member_that_is_back_under_another_id_has_what_it_held() -> None:
    found = replayed(*static_member_back({"m1": [0, 1]}, {"m9": [0], "m2": [1]}))[3, OBSERVED, REPLAY]
    assert list(found.inputs.member_ids) == ["m2", "m9"]
    assert found.inputs.problem.previous_owner.tolist() == [1, 1]
    assert (found.metrics.moved, found.metrics.kept) == (1, 1)


def test_a_pattern_is_resolved_as_the_broker_had_it() -> None:
    """By its record, and where that is gone by what the member holds; nobody else gets its topics."""
    matched = modern(16, json.dumps({"regex": "t.*", "topics": ["t"]}))
    rows = [
        NAMED,
        modern(5, member_848("m1", pattern="t.*"), "m1"),
        modern(5, member_848("m2", "t"), "m2"),
        modern(5, member_848("m3", "u"), "m3"),
        modern(7, target(topic_id="id-of-u"), "m1"),
        modern(7, target(0), "m2"),
        modern(7, target(0, topic_id="id-of-u"), "m3"),
        modern(6, json.dumps({"assignment_epoch": 2})),
        modern(7, target(0), "m1"),
        modern(7, target(1), "m2"),
        modern(6, json.dumps({"assignment_epoch": 3})),
    ]
    asked = {
        known: [replayed(*before, *rows)[n, "sticky", REPLAY].inputs.problem for n in (2, 3)]
        for known, before in ((True, [matched]), (False, []))
    }
    of_t = {
        known: [problem.subscriber[: problem.subscriber_start[1]].tolist() for problem in both] for known, both in asked.items()
    }
    assert of_t == {True: [[0, 1], [0, 1]], False: [[1], [0, 1]]}
    assert {one.subscriber[-1] for both in asked.values() for one in both} == {2}


def test_members_with_the_same_pattern_ask_for_the_same_also_where_the_log_no_longer_says_what_it_matches() -> None:
    rows = [
        NAMED,
        modern(5, member_848("m1", pattern="t|u"), "m1"),
        modern(5, member_848("m2", pattern="t|u"), "m2"),
        modern(7, target(0, 1, 2, 3), "m1"),
        modern(7, target(0, topic_id="id-of-u"), "m2"),
        modern(6, json.dumps({"assignment_epoch": 9})),
    ]
    (step,) = steps_of_group(rows)
    assert [one["topics"] for one in step["subscriptions"]] == [["t", "u"], ["t", "u"]]
    figures = replayed(*rows)[9, OBSERVED, REPLAY].metrics
    assert (figures.spread, figures.balanced) == (3, False)


def test_a_polled_group_that_is_empty_is_reported_once() -> None:
    rows = [*two_members()[:4], *(modern(kind, None, "m1", seconds=5) for kind in (5, 7))]
    rows += [modern(3, json.dumps({"epoch": 3}), seconds=5), modern(6, json.dumps({"assignment_epoch": 3}), seconds=5)]
    assert [(step["kind"], step["generation"]) for step in steps_of_group(rows)] == [("rebalance", 2), ("emptied", 3)]


def test_a_group_of_many_lives_costs_no_copy_of_all_its_members_for_each_that_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ModernFold] = []
    real = vars(ProtocolFold)["handover"].fget

    def left(self: ModernFold) -> Any:
        asked.append(self)
        return real(self)

    monkeypatch.setattr(ModernFold, "handover", property(left))
    gone = [modern(kind, None, name, seconds=5) for name in ("m1", "m2") for kind in (8, 7, 5)]
    list(steps_of_group([*two_members(), *gone, modern(3, None, seconds=6)]))
    assert len(asked) == 1


def test_members_that_reach_an_epoch_one_after_the_other_are_not_all_asked_each_time() -> None:
    def work(n: int) -> int:
        names = [f"m{at:03}" for at in range(n)]
        rows = [NAMED, *(modern(5, member_848(name, "t"), name) for name in names), *epoch(2, {name: [] for name in names})]
        rows += [modern(8, json.dumps({"state": 0, "member_epoch": 2}), name) for name in names]
        (step,) = steps_of_group(rows)
        assert step["settle_ms"] == 0
        return lines_of(lambda: list(steps_of_group(rows)))

    assert work(200) < 5 * work(50)


def test_topics_without_a_name_are_not_searched_for_one_by_one() -> None:
    def compared(n: int) -> int:
        fold, Compared.times = ModernFold(), 0
        for at in range(n):
            value = {"topic_partitions": [{"topic_id": Compared(f"id-{at}"), "partitions": [0]}]}
            fold.feed({**modern(7, "{}", "m1"), "value": value})
        return Compared.times

    assert compared(200) < 5 * (compared(50) + 1)


def test_where_a_topic_has_no_name_nobody_knows_who_asked_for_it_and_no_strategy_is_asked() -> None:
    unnamed = two_members()[1:]
    assert replayed(*unnamed) == {}
    assert [step["subscriptions"] for step in steps_of_group(unnamed)] == [None, None]
    said = "not compared with strategies: no name is known of topic id-of-t"
    assert [step["detail"].endswith(said) for step in steps_of_group(unnamed)] == [True, True]
    assert {n for n, *_ in replayed(*unnamed[:3], NAMED, *unnamed[3:])} == {3}


def test_an_upgraded_group_continues_with_the_partitions_it_had_and_so_does_a_downgraded_one() -> None:
    """What is carried over (epoch 5, generation 7) is nobody's plan: no strategy is asked."""
    up = [
        created(),
        generation(4, member("a-1", {"t": [0, 1, 2, 3]})),
        tombstone(seconds=5),
        NAMED,
        modern(5, member_848("a", "t"), "a-1", seconds=5),
        *epoch(5, {"a-1": [0, 1, 2, 3]}, seconds=5),
        modern(5, member_848("b", "t"), "b-1", seconds=6),
        *epoch(6, {"a-1": [0, 1], "b-1": [2, 3]}, seconds=6),
    ]
    seen = replayed(*up)
    assert {n for n, *_ in seen} == {4, 6}
    assert [seen[n, OBSERVED, REPLAY].metrics.kept for n in (4, 6)] == [0, 2]
    assert [seen[n, "sticky", CLOSED_LOOP].metrics.kept for n in (4, 6)] == [0, 2]
    both = [member("a-1", {"t": [0, 1]}), member("b-1", {"t": [2, 3]})]
    down = [*up, modern(3, None, seconds=7), generation(7, *both, seconds=7), generation(8, *both, seconds=9)]
    again = replayed(*down)[8, OBSERVED, REPLAY]
    assert (again.metrics.kept, again.metrics.moved, again.row["step"]["kind"]) == (4, 0, "rebalance")
    whole = {step["log_offset"]: step for step in steps_of_group(down)}
    found = list(replays_of_group(generations(*down), ASKED))
    assert len(found) == 21
    assert [one.row["step"]["incarnation"] for one in found] == [whole[one.row["log_offset"]]["incarnation"] for one in found]
    assert [step["incarnation"] for step in whole.values()] == [0] * len(whole)
    assert [step["detail"] for step in whole.values() if step["generation"] == 7] == [""]


def test_lives_of_a_group_are_counted_whatever_their_protocols() -> None:
    """Deleted, and made anew under the other protocol some time later, both ways."""
    classic = [created(), generation(2, member("a-1", {"t": [0, 1]})), tombstone(seconds=1)]
    by_broker = [NAMED, modern(5, member_848("m1", "t"), "m1", seconds=50), *epoch(2, {"m1": [0, 1]}, seconds=50)]
    anew = [*classic, *by_broker, modern(3, None, seconds=60), generation(1, member("b-1", {"t": [0, 1]}), seconds=99)]
    whole = {step["log_offset"]: step["incarnation"] for step in steps_of_group(anew)}
    assert [*whole.values()] == [0, 0, 0, 1, 1, 2]
    found = [
        (one.row["step"]["incarnation"], whole[one.row["log_offset"]]) for one in replays_of_group(generations(*anew), ASKED)
    ]
    assert sorted(set(found)) == [(0, 0), (1, 1), (2, 2)]


def test_static_members_that_are_back_have_in_closed_loop_what_they_had() -> None:
    rows = static_member_back({"m1": [0, 1, 2, 3]}, {"m9": [0, 1], "m2": [2, 3]})
    figures = replayed(*rows)[3, "sticky", CLOSED_LOOP].metrics
    assert (figures.moved, figures.kept) == (2, 2)


def test_a_group_that_was_deleted_begins_again_with_nothing() -> None:
    later = [*two_members(), modern(3, None, seconds=11), modern(5, member_848("m1", "t"), "m1", seconds=99)]
    found = list(replays_of_group(generations(*later, *epoch(2, {"m1": [0, 1]}, seconds=99)), ASKED))
    mine = [one for one in found if one.row["step"]["incarnation"] == 1]
    assert {(one.name, one.metrics.kept, one.metrics.moved) for one in mine} == {(name, 0, 0) for name in (OBSERVED, *ASKED)}


RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "kip848"
"""Kafka 4.3.1 with librdkafka 2.16: see `tests/pipeline/record_epochs.py`, which made it."""


@cache
def histories(folder: Path) -> dict[str, list[Row]]:
    """The groups of a capture that were under KIP-848, with the names of their topics."""
    topics = json.loads((folder / "topics.json").read_text(encoding="utf-8"))
    head = {
        "record_type": NAMES,
        "payload": json.dumps({about["topic_id"]: name for name, about in topics.items()}),
        "deleted": False,
    }
    (raw,) = pq.read_table(folder / "consumer_offsets.parquet", columns=COLUMNS).combine_chunks().to_batches()
    found: dict[str, list[Row]] = {}
    for row in [*({**one, "record_type": None} for one in generation_rows(raw)), *modern_rows(raw)]:
        found.setdefault(row["group_id"], []).append(row)
    mine = {group: sorted(rows, key=lambda row: row["log_offset"]) for group, rows in found.items()}
    return {group: [head, *rows] for group, rows in mine.items() if any(row["record_type"] == 6 for row in rows)}


def observed(rows: list[Row]) -> list[tuple[Row, Replay]]:
    """The epochs of a group: step, and the replay of what was handed out."""
    steps = {step["log_offset"]: step for step in steps_of_group(rows)}
    found = [one for one in replays_of_group(generations(*rows), ASKED) if one.name == OBSERVED and one.inputs.kind == "server"]
    places = sorted(steps)
    carried_over = {after for before, after in pairwise(places) if steps[before]["kind"] == "migrated"}
    with_members = [at for at in places if steps[at]["group_type"] == "consumer" and steps[at]["n_members"]]
    assert [one.row["log_offset"] for one in found] == [at for at in with_members if at not in carried_over]
    return [(steps[one.row["log_offset"]], one) for one in found]


@pytest.mark.parametrize(("folder", "epochs"), [(SHOP, 11), (RECORDED, 21)])
def test_moves_of_recorded_epochs_are_those_of_their_steps(folder: Path, epochs: int) -> None:
    found = [pair for rows in histories(folder).values() for pair in observed(rows)]
    assert len(found) == epochs
    for step, one in found:
        figures = one.metrics
        assert (figures.moved, figures.kept, figures.unassigned) == (step["n_moved"], step["n_kept"], 0), step
        assert figures.revoked == figures.moved


def test_the_broker_is_proven_to_move_no_more_than_it_must_where_all_want_the_same() -> None:
    for rows in histories(SHOP).values():
        assert {(one.metrics.balanced, one.metrics.sticky) for _, one in observed(rows)} == {(True, True)}


def test_recorded_epochs_of_the_brokers_range_assignor_are_what_the_strategy_of_that_name_would_have_done() -> None:
    rows = histories(RECORDED)["by-range"]
    found = [one for one in replays_of_group(generations(*rows), ASKED) if (one.name, one.mode) == ("range", REPLAY)]
    assert [(one.matches, one.declared) for one in found] == [(True, False)] * 5


def test_of_members_that_want_different_topics_the_broker_moved_more_than_it_must() -> None:
    found = [one.metrics for _, one in observed(histories(RECORDED)["by-uniform"])]
    assert [(figures.moved, figures.min_moves) for figures in found[4:5]] == [(6, 5)]
    asked = [
        sorted(len(one["topics"]) for one in step["subscriptions"]) for step, _ in observed(histories(RECORDED)["by-uniform"])
    ]
    assert asked == [[2], [1, 2], [1, 2, 2], [1, 2, 3], [1, 2, 3, 3], [1, 2, 3], [2, 3]]


def test_a_recorded_group_that_changed_its_protocol_twice_lost_nothing_on_the_way() -> None:
    rows = histories(RECORDED)["moved-over"]
    steps = list(steps_of_group(rows))
    over = [at for at, step in enumerate(steps) if step["kind"] == "migrated"]
    assert [(steps[at]["group_type"], steps[at + 1]["group_type"]) for at in over] == [
        ("classic", "consumer"),
        ("consumer", "classic"),
    ]
    assert [(steps[at + 1]["n_kept"], steps[at + 1]["n_moved"]) for at in over] == [(6, 0), (3, 0)]


def test_an_epoch_that_another_one_overtook_has_not_failed() -> None:
    steps = list(steps_of_group(histories(RECORDED)["steady"]))
    assert [(step["generation"], step["missed_generations"]) for step in steps] == [(2, 0), (4, 0), (5, 0)]
    assert steps[1]["detail"].endswith("; epochs 3 to 4 at once")


@pytest.mark.parametrize("group", ["by-range", "by-uniform", "moved-over", "steady"])
def test_replays_that_stop_after_any_epoch_continue_with_the_same_rows(group: str) -> None:
    rows = generations(*histories(RECORDED)[group])
    found = replayed_in_pieces(rows)
    assert found == [comparable(one) for one in replays_of_group(rows, ASKED)]
    assert found
