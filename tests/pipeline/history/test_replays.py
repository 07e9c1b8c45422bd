"""Replays of one group's generations: inputs rebuilt, strategies run, results compared."""

from __future__ import annotations

import pytest

from counterpoise.pipeline.history.inputs import inputs_of, replayable
from counterpoise.pipeline.history.replay_fold import BY_LAG, CLOSED_LOOP, OBSERVED, REPLAY, Replay, comparable
from counterpoise.pipeline.history.replay_rows import assignments
from counterpoise.wire.user_data import encode_sticky
from tests.pipeline.pieces_of_folds import replays_of_group
from tests.pipeline.rows import created, generation, member, tombstone

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
ALL = {"t": [0, 1, 2, 3]}


def replays(*rows: dict[str, object]) -> dict[tuple[int, str, str], Replay]:
    return {(r.row["generation"], r.name, r.mode): r for r in replays_of_group(rows, NAMES)}


def range_group() -> list[dict[str, object]]:
    return [
        created(),
        generation(1, member("a-1", ALL)),
        generation(2, member("a-1", {"t": [0, 1]}), member("b-1", {"t": [2, 3]})),
        generation(3, member("a-1", {"t": [0, 1]}), member("b-1", {"t": [2]}), member("c-1", {"t": [3]})),
    ]


def test_the_declared_strategy_reproduces_the_record_and_another_one_does_not() -> None:
    seen = replays(*range_group())
    assert [seen[n, "range", REPLAY].matches for n in (1, 2, 3)] == [True, True, True]
    assert [seen[n, "roundrobin", REPLAY].matches for n in (1, 2, 3)] == [True, False, False]
    assert {key for key, replay in seen.items() if replay.declared} == {
        (n, "range", mode) for n in (1, 2, 3) for mode in (REPLAY, CLOSED_LOOP)
    }


def test_observed_is_a_row_like_the_others() -> None:
    seen = replays(*range_group())[3, OBSERVED, REPLAY]
    assert (seen.metrics.moved, seen.metrics.kept, seen.metrics.revoked, seen.metrics.spread) == (1, 3, 4, 1)
    assert (seen.metrics.min_moves, seen.metrics.balanced, seen.metrics.sticky) == (1, True, True)


@pytest.mark.parametrize("names", [(), ("range",), ("lag",), ("sticky", "range"), comparable()])
def test_what_is_known_of_the_observed_plan_is_the_same_whichever_strategies_are_compared(names: tuple[str, ...]) -> None:
    """The leader moves more than it needs; of five equal lags three are with one of two members."""
    lag = [{"topic": "t", "partitions": [0, 1, 2, 3, 4], "lags": [10] * 5}]
    first = generation(1, member("a-1", {"t": [0, 1, 2]}), member("b-1", {"t": [3, 4]}))
    wasteful = generation(2, member("a-1", {"t": [0, 4]}), member("b-1", {"t": [1, 2, 3]})) | {"lag": lag}
    found = replays_of_group([created(), first, wasteful], names)
    (seen,) = (r.metrics for r in found if (r.name, r.row["generation"]) == (OBSERVED, 2))
    assert (seen.moved, seen.min_moves, seen.max_member_lag, seen.makespan_ratio) == (3, 0, 30, 1.0)


def test_an_eager_protocol_without_claims_is_given_what_its_members_owned_before() -> None:
    rows = range_group()
    inputs = inputs_of(rows[3], "eager", rows[2], None)
    assert inputs.problem.previous_owner.tolist() == [0, 0, 1, 1]
    assert inputs.recorded.tolist() == [0, 0, 1, 2]


def test_a_sticky_member_is_believed_what_it_sent() -> None:
    claim = encode_sticky((("t", (3,)),), 1)
    row = generation(2, member("a-1", {"t": [0, 1]}, user_data=claim), member("b-1", {"t": [2, 3]}), protocol="sticky")
    before = generation(1, member("a-1", ALL), protocol="sticky")
    assert inputs_of(row, "eager", before, None).problem.previous_owner.tolist() == [-1, -1, -1, 0]


def test_a_withheld_partition_counts_if_the_next_round_hands_it_out() -> None:
    """The topic has four partitions though the first round hands out two; a claim on a fifth is a partition that is gone."""
    coop = "cooperative-sticky"
    claims = {"t": [0, 1, 2, 3, 4]}
    first = generation(2, member("a-1", {"t": [0, 1]}, owned=claims, generation=1), member("b-1", {}), protocol=coop)
    second = generation(3, member("a-1", {"t": [0, 1]}), member("b-1", {"t": [2, 3]}), protocol=coop)
    inputs = inputs_of(first, "cooperative", None, second)
    assert inputs.problem.n_partitions == 4
    assert inputs.recorded.tolist() == [0, 0, -1, -1]
    assert inputs.observed.tolist() == [0, 0, 1, 1]


def cooperative_pair(kept: list[int]) -> dict[tuple[int, str, str], Replay]:
    coop, given = "cooperative-sticky", sorted(set(ALL["t"]) - set(kept))
    return replays(
        created(),
        generation(1, member("a-1", ALL), protocol=coop),
        generation(2, member("a-1", {"t": kept}, owned=ALL, generation=1), member("b-1", {}), protocol=coop),
        generation(3, member("a-1", {"t": kept}, owned={"t": kept}, generation=2), member("b-1", {"t": given}), protocol=coop),
    )


def test_a_cooperative_pair_is_compared_by_what_each_round_hands_out() -> None:
    """Which two of four partitions stay is a tie; the record of a leader that settles it as we do is reproduced."""
    coop = "cooperative-sticky"
    ours = cooperative_pair([0, 1])[2, coop, REPLAY].owner.tolist()
    seen = cooperative_pair([at for at, owner in enumerate(ours) if owner == 0])
    assert [seen[n, coop, REPLAY].matches for n in (1, 2, 3)] == [True, True, True]
    assert (seen[2, OBSERVED, REPLAY].metrics.moved, seen[2, OBSERVED, REPLAY].metrics.unassigned) == (2, 0)
    assert (3, "range", REPLAY) not in seen
    assert (3, coop, CLOSED_LOOP) not in seen
    other = cooperative_pair([at for at, owner in enumerate(ours) if owner == 1])
    assert [other[n, coop, REPLAY].matches for n in (1, 2, 3)] == [True, False, True]


def test_closed_loop_feeds_a_strategy_its_own_past() -> None:
    """Round robin's own past is not the group's: its moves differ by mode, and sticky moves least."""
    seen = replays(*range_group())
    moves = {name: [seen[n, name, CLOSED_LOOP].metrics.moved for n in (2, 3)] for name in NAMES}
    assert moves == {"range": [2, 1], "roundrobin": [2, 2], "sticky": [2, 1], "cooperative-sticky": [2, 1]}
    assert seen[3, "roundrobin", REPLAY].metrics.moved == 3


def test_a_deleted_group_begins_without_a_past() -> None:
    again = [generation(1, member("a-1", {"t": [0, 1]}), member("b-1", {"t": [2, 3]}), seconds=9)]
    seen = [
        r
        for r in replays_of_group([*range_group(), tombstone(), created(), *again], NAMES)
        if r.row["log_ts"] == again[0]["log_ts"]
    ]
    assert {(r.metrics.moved, r.metrics.kept) for r in seen} == {(0, 0)}
    assert {r.row["step"]["incarnation"] for r in seen} == {1}


def test_a_made_up_index_adds_no_partitions_to_a_replay() -> None:
    """Assigned in the first generation, claimed in the last one."""
    first = generation(1, member("a", {"t": [0, 9_999_999]}), protocol="cooperative-sticky")
    last = generation(2, member("a", {"t": [0]}, owned={"t": [0, 9_999_999]}), protocol="cooperative-sticky")
    assert {one.inputs.problem.n_partitions for one in replays_of_group([first, last], ["sticky"])} == {1}


def test_what_is_handed_out_twice_is_counted() -> None:
    row = generation(1, member("a-1", ALL), member("b-1", {"t": [0]}))
    seen = replays(row)
    twice = seen[1, OBSERVED, REPLAY].metrics
    assert (twice.duplicates, twice.balanced, twice.sticky) == (1, False, False)
    assert not seen[1, "range", REPLAY].matches


@pytest.mark.parametrize(
    "row",
    [
        generation(1),
        generation(1, member("a-1", ALL), protocol="stream"),
        generation(1, member("a-1", ALL), protocol_type="connect"),
        generation(1, {**member("a-1", ALL), "topics": None}),
    ],
)
def test_opaque_generations_are_not_replayed(row: dict[str, object]) -> None:
    assert not replayable(row)
    assert replays(row) == {}


def test_strategies_by_lag_take_part_where_lag_is_known() -> None:
    """Before the first sample they are left out; a partition whose lag nobody knows counts as read."""
    rows = range_group()
    known = [{"topic": "t", "partitions": [0, 1, 2], "lags": [100, 60, 50]}, {"topic": "gone", "partitions": [0], "lags": [9]}]
    rows[2]["lag"] = known
    seen = {(r.row["generation"], r.name, r.mode): r for r in replays_of_group(rows, ("sticky", "lag", "lag-sticky"))}
    assert {key[0] for key in seen if key[1].startswith("lag")} == {2}
    assert seen[1, OBSERVED, REPLAY].metrics.max_member_lag is None
    observed, by_lag, ours = (seen[2, name, REPLAY] for name in (OBSERVED, "lag", "lag-sticky"))
    lag = observed.inputs.problem.lag
    assert lag is not None
    assert lag.tolist() == [100, 60, 50, 0]
    assert observed.inputs.lag_unknown == 1
    assert [r.metrics.max_member_lag for r in (observed, by_lag, ours)] == [160, 110, 110]
    assert [r.metrics.makespan_ratio for r in (observed, by_lag)] == [160 / 110, 1.0]  # two of the three largest meet
    assert seen[2, "lag", CLOSED_LOOP].metrics.max_member_lag == 110


def test_all_strategies_are_compared_unless_some_are_named() -> None:
    assert set(BY_LAG) < set(comparable())
    assert comparable(["lag"]) == ("lag",)


def test_nested_assignments_keep_members_without_partitions() -> None:
    inputs = inputs_of(
        generation(1, member("b-1", {"t": [1, 0], "u": [0]}, topics=("t", "u")), member("a-1", {})), "eager", None, None
    )
    plan = inputs, inputs.recorded
    first, second = assignments([plan, plan]).to_pylist()
    assert first == second
    assert first == [
        {"member_id": "a-1", "client_id": "a", "assigned": []},
        {
            "member_id": "b-1",
            "client_id": "b",
            "assigned": [{"topic": "t", "partitions": [0, 1]}, {"topic": "u", "partitions": [0]}],
        },
    ]
