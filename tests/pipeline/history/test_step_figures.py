"""A group's steps summed up: storms, restarts, idle members, peaks."""

from __future__ import annotations

from typing import Any

from counterpoise.pipeline.history.steps import steps_of_group
from tests.pipeline.pieces_of_folds import history_of
from tests.pipeline.rows import created, generation, member, tombstone

ALL = {"t": [0, 1]}


def summed(*rows: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "missed_generations",
        "sync_latency_ms",
        "n_moved",
        "n_withheld",
        "leader",
        "leader_library",
        "protocol_kind",
        "protocol",
    )
    return history_of(dict.fromkeys(keys) | step for step in steps_of_group(rows))


def flapping(n: int, gap_s: float) -> list[dict[str, Any]]:
    """A group whose second member comes and goes n times."""
    a = member("a-1", ALL)
    rows = [created(), generation(1, a)]
    for turn in range(n):
        at = gap_s * (2 * turn + 1)
        rows.append(generation(2 * turn + 2, member("a-1", {"t": [0]}), member(f"b-{turn}", {"t": [1]}), seconds=at))
        rows.append(generation(2 * turn + 3, a, seconds=at + gap_s))
    return rows


def test_a_clock_that_is_set_back_makes_no_storm() -> None:
    first = [created(), generation(1, member("a-1", ALL), seconds=300)]
    assert summed(*first, *flapping(5, 40.0)[2:])["storm_rebalances"] == 2


def test_rebalances_close_together_are_a_storm() -> None:
    quick = summed(*flapping(5, 3.0))
    assert (quick["storm_rebalances"], quick["storm_seconds"], quick["storm_clients"]) == (11, 30.0, ["b", "a"])
    slow = summed(*flapping(5, 40.0))
    assert slow["storm_rebalances"] == 2


def test_a_client_that_is_back_within_a_minute_was_restarted() -> None:
    assert summed(*flapping(5, 3.0))["restarts"] == 4
    assert summed(*flapping(5, 70.0))["restarts"] == 0


def test_rebalances_of_restarts_are_those_in_which_no_other_client_joined_and_all_that_left_are_back() -> None:
    """The first join of b is none, nor is its last leave: it comes four times more, and has left before."""
    assert summed(*flapping(5, 3.0))["restart_rebalances"] == 8
    assert summed(*flapping(5, 70.0))["restart_rebalances"] == 0
    a, b, c = (member(f"{name}-1", {"t": [at]}) for at, name in enumerate("abc"))
    again = [member(f"{name}-2", {"t": [at]}) for at, name in enumerate("abc")]
    begin = [created(), generation(1, a, b)]
    assert summed(*begin, generation(2, *again[:2], seconds=5))["restart_rebalances"] == 1, "two restarts, one rebalance"
    assert summed(*begin, generation(2, again[0], again[1], c, seconds=5))["restart_rebalances"] == 0, "c joins anyway"
    left = [*begin, generation(2, c, seconds=5)]
    assert summed(*left, generation(3, c, *again[:2], seconds=9))["restart_rebalances"] == 1, "c came as a and b left"
    both = [created(), generation(1, a, b, c), generation(2, c, seconds=5)]
    assert (
        summed(*both, generation(3, c, again[0], seconds=9), generation(4, c, *again[:2], seconds=12))["restart_rebalances"] == 3
    )
    assert summed(*both, generation(3, c, again[0], seconds=9))["restart_rebalances"] == 1, "b left for good"
    assert summed(*both[:2], generation(2, c, again[0], seconds=5))["restart_rebalances"] == 0, "b left for good as a restarted"
    late = [*both[:2], generation(2, c, again[0], seconds=5), generation(3, c, *again[:2], seconds=12)]
    assert summed(*late)["restart_rebalances"] == 2, "b is back later"
    at_once = [*both[:2], generation(2, b, c, seconds=5), generation(3, c, seconds=5)]
    assert summed(*at_once, generation(4, c, *again[:2], seconds=9))["restart_rebalances"] == 3, "a and b left at one time"


def test_of_members_with_one_client_id_as_many_must_be_back_as_left() -> None:
    """Clients of a library often keep its default id."""
    a = [member(f"a-{number}", {"t": [number % 2]}) for number in range(5)]
    two_left = [created(), generation(1, *a[:3]), generation(2, a[0], seconds=5)]
    one_back = [*two_left, generation(3, a[0], a[3], seconds=9)]
    assert summed(*one_back)["restart_rebalances"] == 1, "one left for good"
    assert summed(*one_back, generation(4, a[0], *a[3:], seconds=12))["restart_rebalances"] == 3
    assert summed(*two_left, generation(3, *a[:1], *a[2:], member("a-5", ALL), seconds=9))["restart_rebalances"] == 1, (
        "two are new"
    )
    assert summed(*two_left[:2], generation(2, a[0], a[3], seconds=5))["restart_rebalances"] == 0, "two for one"


def test_who_left_and_came_back_most_is_named() -> None:
    found = summed(*flapping(5, 3.0))
    assert (found["restart_clients"], found["leave_clients"]) == (["b"], ["b"])


def test_the_first_generation_behind_a_failed_one_is_reported_and_the_last_one() -> None:
    rows = [created(), *(generation(number, member("a-1", ALL)) for number in (1, 4, 5, 7))]
    found = summed(*rows)
    assert (found["failed_generations"], found["failed_generation"], found["generation_now"]) == (3, 4, 7)
    assert summed(*rows[:2])["failed_generation"] is None


def test_idle_members_count_when_the_pair_is_done() -> None:
    """The newcomer of a cooperative first round is not idle: its partitions are on their way."""
    coop = "cooperative-sticky"
    rows = [
        created(),
        generation(1, member("a-1", ALL), protocol=coop),
        generation(2, member("a-1", {"t": [0]}, owned=ALL), member("b-1", {}), protocol=coop),
        generation(3, member("a-1", {"t": [0]}, owned={"t": [0]}), member("b-1", {"t": [1]}), protocol=coop),
    ]
    assert summed(*rows)["idle_peak"] == 0
    first = summed(*rows[:3])
    assert (first["idle_peak"], first["idle_now"], first["idle_clients"]) == (0, 0, []), "the recording ends between the rounds"
    idle = summed(created(), generation(1, member("a-1", {"t": [0]}), member("b-1", {"t": [1]}), member("c-1", {})))
    assert (idle["idle_peak"], idle["idle_now"], idle["idle_clients"]) == (1, 1, ["c"])


def test_a_newcomer_without_withheld_partitions_is_idle_at_once_and_so_is_a_member_that_was_before() -> None:
    """Three members for two partitions: no second round comes. Then a fourth, while a partition is taken from one for another."""
    coop, held = "cooperative-sticky", (member("a-1", {"t": [0]}, owned={"t": [0]}), member("b-1", {"t": [1]}, owned={"t": [1]}))
    rows = [created(), generation(1, *held, protocol=coop), generation(2, *held, member("c-1", {}), protocol=coop)]
    found = summed(*rows)
    assert (found["idle_peak"], found["idle_now"], found["idle_clients"]) == (1, 1, ["c"])
    waits = [held[0], member("b-1", {}, owned={"t": [1]}), member("c-1", {}), member("d-1", {})]
    found = summed(*rows, generation(3, *waits, protocol=coop))
    assert (found["idle_peak"], found["idle_now"], found["idle_clients"]) == (1, 2, ["b", "c"])


def test_the_busiest_members_are_named_by_their_clients() -> None:
    rows = [
        created(),
        generation(1, member("b-1", {"t": [0, 1]}), member("a-1", {"t": [2], "u": [0]}), member("c-1", {"t": [3]})),
    ]
    assert summed(*rows)["busiest_clients"] == ["a", "b"]
    assert summed(*rows, generation(2))["busiest_clients"] == ["a", "b"], "those of the last generation with members"
    assert summed(created(), generation(1, member("w-1", {})))["busiest_clients"] == []


def test_the_tombstone_of_a_group_that_was_not_seen_says_no_type() -> None:
    assert (summed(tombstone())["group_type"], summed(created(), tombstone())["group_type"]) == (None, "classic")


def test_the_slowest_leader_is_named() -> None:
    found = summed(created(), generation(1, member("a-1", ALL), latency_ms=3), generation(2, member("a-1", ALL), latency_ms=282))
    assert (found["sync_latency_ms_max"], found["sync_latency_generation"], found["slow_leader"]) == (282, 2, "a")
    assert found["sync_latency_ms_p50"] == 142.5


def test_states() -> None:
    alive = [created(), generation(1, member("a-1", ALL))]
    assert summed(*alive)["state"] == "stable"
    assert summed(*alive, generation(2))["state"] == "empty"
    gone = summed(*alive, generation(2), tombstone())
    assert (gone["state"], gone["deletions"], gone["emptied"], gone["protocol"], gone["topics"]) == (
        "deleted",
        1,
        1,
        "range",
        ["t"],
    )


def test_counts() -> None:
    found = summed(
        created(), generation(1, member("a-1", ALL)), generation(4, member("a-1", {"t": [0]}), member("b-1", {"t": [1]}))
    )
    assert (found["generations"], found["rebalances"], found["failed_generations"], found["moved"]) == (2, 2, 2, 1)
    assert (found["members_now"], found["members_peak"], found["distinct_members"], found["causes"]) == (2, 2, 2, {"join": 2})


def test_a_connect_group_is_distinguished() -> None:
    assert summed(generation(1, member("w-1", {}), protocol="sessioned", protocol_type="connect"))["group_type"] == "connect"
