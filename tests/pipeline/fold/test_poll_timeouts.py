"""Members that polled too late, by hand: when one counts, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.poll_timeouts import PollTimeouts
from counterpoise.pipeline.history.fold_state import decode_state, encode_state

SECOND = 1_000_000


def member(name: str, client: str | None = "c", interval: int | None = 10_000, library: str = "java") -> dict[str, Any]:
    return {"member_id": name, "client_id": client, "rebalance_timeout_ms": interval, "library": library}


def again(of: PollTimeouts) -> PollTimeouts:
    """The same from its saved state."""
    return PollTimeouts(decode_state(encode_state(of.state)))


def figures(*members: dict[str, Any], back_after: int = 5, silent_for: int = 30) -> dict[str, Any]:
    """Member m-1 left at second 100 and m-2 came; when m-1 had committed last."""
    found = PollTimeouts()
    found.add_generation(members)
    found = again(found)
    found.add_step({"generation": 4, "left": ["m-1"], "joined": [], "group_type": "classic"}, 100 * SECOND)
    found = again(found)
    found.add_step({"generation": 5, "left": [], "joined": ["m-2"], "group_type": "classic"}, (100 + back_after) * SECOND)
    for last in ((100 - silent_for) * SECOND, 0):
        for key in found.departures.keys() & {(100 * SECOND, "m-1")}:
            found.departures[key].add_commit(last)
    return again(found).figures


def test_a_silent_member_whose_client_came_back_was_kicked_out() -> None:
    expected = {"poll_kicks": 1, "poll_kick_clients": ["c"], "poll_kick_generation": 4, "poll_interval_ms": 10_000}
    assert figures(member("m-1"), member("m-2")) == {**expected, "poll_kick_ts": 100 * SECOND}


def test_the_longest_interval_and_the_last_name_of_a_member_count() -> None:
    found = figures(member("m-1", None, None), member("m-1", "b", 9_000), member("m-1", "c", 8_000), member("m-2"))
    assert found["poll_interval_ms"] == 9_000
    assert found["poll_kick_clients"] == ["c"]


@pytest.mark.parametrize(
    "about",
    [{"back_after": 61}, {"silent_for": 9}],
    ids=["back too late", "it had committed within its interval"],
)
def test_a_member_that_stopped_by_itself_has_no_poll_timeout(about: dict[str, int]) -> None:
    assert figures(member("m-1"), member("m-2"), **about) == {}


@pytest.mark.parametrize(
    ("library", "kicks"),
    [
        *((name, 1) for name in ("java", "kafka-streams", "librdkafka", "kafka-python", "counterpoise (kafka-python)")),
        *((name, None) for name in ("aiokafka", "counterpoise (aiokafka)", "kafka-python or aiokafka")),
        *((name, None) for name in ("franz-go", "kafka-go", "connect", "unknown")),
    ],
)
def test_the_rebalance_timeout_of_other_libraries_is_not_the_time_between_polls(library: str, kicks: int | None) -> None:
    """aiokafka's is its session timeout, by default: each crash would count."""
    assert figures(member("m-1", library=library), member("m-2")).get("poll_kicks") == kicks


def test_a_member_with_another_client_id_is_not_the_one_that_left() -> None:
    assert figures(member("m-1"), member("m-2", "d")) == {}
    assert figures(member("m-1", None), member("m-2", None)) == {}


def test_a_client_with_a_long_interval_has_as_long_to_come_back() -> None:
    assert figures(member("m-1", interval=90_000), member("m-2"), back_after=80, silent_for=95)["poll_kicks"] == 1


Record = tuple[int, str, int | None, int]
"""Record type, member, epoch (None: a tombstone), second."""
JOINED, THEN_LEFT = (5, "m", 0, 0), [(8, "m", None, 100), (5, "m", None, 100)]


def of_members(
    *records: Record, last: int, step: dict[str, Any] | None = None, put_away_at: int | None = None, interval: int | None = 10_000
) -> dict[str, Any]:
    """A KIP-848 group whose records end with a step, at second 200; the member had committed last at `last`."""
    found = PollTimeouts()
    for offset, (kind, name, epoch, second) in enumerate(records):
        if offset == put_away_at:
            found = again(found)
        row = {"log_partition": 0, "log_offset": offset, "record_type": kind, "member_id": name, "epoch": epoch}
        found.add_record({**row, "deleted": epoch is None, "client_id": "c", "rebalance_timeout_ms": interval}, second * SECOND)
    about = {"log_partition": 0, "log_offset": len(records), "kind": "rebalance", "generation": 7, "group_type": "consumer"}
    found.add_step({**about, **(step or {})}, 200 * SECOND)
    for key in found.departures.keys() & {(200 * SECOND, "m")}:
        found.departures[key].add_commit(last * SECOND)
    return found.figures


@pytest.mark.parametrize("put_away_at", [None, 1, 2, 3])
def test_under_kip_848_who_comes_back_under_its_own_id_was_kicked_out_when_its_record_went(put_away_at: int | None) -> None:
    """However much later it is back: it is the same process."""
    found = of_members(JOINED, *THEN_LEFT, (5, "m", 0, 200), last=90, put_away_at=put_away_at)
    expected = {"poll_kicks": 1, "poll_kick_clients": ["c"], "poll_kick_generation": 7, "poll_interval_ms": 10_000}
    assert found == {**expected, "poll_kick_ts": 100 * SECOND}


def test_a_step_that_hands_out_nothing_does_not_count() -> None:
    """If the last member leaves, the group is empty at once; its stops are known when somebody comes."""
    found = PollTimeouts()
    rows = [{"record_type": 5, "deleted": deleted, "log_offset": at} for at, deleted in ((0, False), (1, True), (3, False))]
    for row, second in zip(rows, (0, 100, 200), strict=True):
        about = {"log_partition": 0, "member_id": "m", "client_id": "c", "rebalance_timeout_ms": 10_000}
        found.add_record({**about, **row, "epoch": None}, second * SECOND)
    for kind, at, second in (("emptied", 2, 100), ("rebalance", 4, 200)):
        step = {"log_partition": 0, "log_offset": at, "kind": kind, "generation": at, "group_type": "consumer"}
        found.add_step(step, second * SECOND)
    found.departures[200 * SECOND, "m"].add_commit(90 * SECOND)
    assert (found.figures["poll_kick_generation"], found.figures["poll_kick_ts"]) == (4, 100 * SECOND)


@pytest.mark.parametrize(
    ("records", "about"),
    [
        ([JOINED, *THEN_LEFT, (5, "m", 0, 200)], {"last": 91}),
        ([JOINED, *THEN_LEFT, (5, "m", 0, 200)], {"last": 90, "interval": 0}),
        ([JOINED, *THEN_LEFT, (5, "m", 0, 200)], {"last": 90, "interval": -1}),
        ([JOINED, *THEN_LEFT, (5, "other", 0, 100)], {"last": 90}),
        ([JOINED, *THEN_LEFT], {"last": 90}),
        ([*THEN_LEFT, (5, "m", 0, 200)], {"last": 90}),
        ([JOINED, (5, "m", 0, 150)], {"last": 90}),
        ([JOINED, *THEN_LEFT, (5, "m", 0, 200)], {"last": 90, "step": {"kind": "deleted"}}),
        ([JOINED, *THEN_LEFT, (5, "m", 0, 200)], {"last": 90, "step": {"log_offset": 2}}),
        ([JOINED, (8, "m", -2, 95), *THEN_LEFT, (5, "m", 0, 200)], {"last": 90}),
    ],
    ids=[
        "it had committed within its interval",
        "seen by polls, which have no interval",
        "no interval",
        "another member of the client came: a restart",
        "it did not come back",
        "it was not known to be a member",
        "it did not leave",
        "the group was deleted",
        "the step was before it left",
        "static, away soon after its last commit",
    ],
)
def test_under_kip_848_a_member_that_stopped_by_itself_has_no_poll_timeout(records: list[Record], about: dict[str, Any]) -> None:
    assert of_members(*records, **about) == {}


def test_a_static_member_left_when_it_said_so_and_not_when_its_session_was_over() -> None:
    assert (
        of_members(
            JOINED,
            (8, "m", -2, 100),
            *((kind, name, epoch, 150) for kind, name, epoch, _ in THEN_LEFT),
            (5, "m", 0, 200),
            last=90,
        )["poll_kick_ts"]
        == 100 * SECOND
    )


def test_a_departure_is_dropped_when_its_client_is_not_back_in_time_and_counted_when_nothing_can_change_it() -> None:
    found = PollTimeouts()
    found.add_generation([member("m-1"), member("m-2"), member("m-3", "d")])
    left = {"generation": 4, "left": ["m-1", "m-3"], "joined": ["m-2"], "group_type": "classic"}
    found.add_step(left, 100 * SECOND)
    assert found.departures.keys() == {(100 * SECOND, "m-1"), (100 * SECOND, "m-3")}
    found.departures[100 * SECOND, "m-1"].add_commit(90 * SECOND)
    for second in (110, 120, 170):
        assert found.departures.keys() >= {(100 * SECOND, "m-1")}
        found.add_step({**left, "generation": second, "left": [], "joined": []}, second * SECOND)
        found.count_final(NEVER)
    assert found.departures == {}
    assert again(found).figures["poll_kicks"] == 1


@pytest.mark.parametrize(("days", "kicks"), [(7, 1), (8, None)])
def test_under_kip_848_a_silent_member_is_waited_for_a_week(days: int, kicks: int | None) -> None:
    found = PollTimeouts()
    records = ((False, 0), (True, 100), (False, 200 + days * 86_400))
    for offset, (deleted, second) in enumerate(records):
        row = {
            "log_partition": 0,
            "log_offset": 2 * offset,
            "record_type": 5,
            "member_id": "m",
            "epoch": None,
            "deleted": deleted,
        }
        found.add_record({**row, "client_id": "c", "rebalance_timeout_ms": 10_000}, second * SECOND)
        step = {"kind": "rebalance", "generation": offset, "group_type": "consumer", "log_partition": 0}
        found.add_step({**step, "log_offset": 2 * offset + 1}, max(second, 200) * SECOND)
        for key in found.departures:
            found.departures[key].add_commit(10 * SECOND)
        found.count_final(NEVER)
        found = again(found)
    assert found.figures.get("poll_kicks") == kicks
