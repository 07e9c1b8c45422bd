"""How a classic group behaves, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.errors import UnknownStrategyError
from counterpoise.simulation import Event, MemberGroup, Scenario, Timing, simulate
from counterpoise.simulation.outcome import Outcome
from counterpoise.simulation.play import Play
from counterpoise.simulation.scenario import faults
from counterpoise.simulation.scenario_file import ready_scenarios
from tests.work import Compared, lines_of

FAST = Timing(session_timeout=10, heartbeat_interval=1, max_poll_interval=60, initial_delay=3, metadata_age=5)


def run(
    events: list[Event], strategy: str = "range", *, members: Any = None, topics: Any = None, timing: Timing = FAST
) -> Outcome:
    groups = members or [MemberGroup("m", ["t"], count=3)]
    return simulate(Scenario("case", topics or {"t": 12}, groups, events, timing=timing), [strategy])[strategy]


def late(name: str = "late", **more: Any) -> MemberGroup:
    return MemberGroup(name, ["t"], join_at=-1, **more)


def owners_at(outcome: Outcome, second: float) -> dict[str, int]:
    found: dict[str, int] = {}
    for piece in outcome.ownership:
        if piece.start <= second < piece.end:
            found[piece.member] = found.get(piece.member, 0) + 1
    return found


def test_the_initial_delay_gathers_members_and_is_extended_while_more_come() -> None:
    outcome = run([], members=[MemberGroup("m", ["t"], count=3, every=2.5)])
    assert outcome.rounds == 1
    assert outcome.history[0].joined == 9010  # three windows of 3 s: each of the first two saw somebody new


def test_a_leave_is_heard_at_once_and_a_crash_only_when_the_session_is_over() -> None:
    leave, crash = (run([Event(60, do, "m-01")]).history[1].started for do in ("leave", "crash"))
    assert leave == 60005
    assert 68000 <= crash <= 70000  # ten seconds after its last heartbeat


def test_a_pause_shorter_than_max_poll_only_delays_a_rebalance() -> None:
    events = [Event(20, "pause", "m-00", seconds=30), Event(30, "join", "late")]
    outcome = run(events, members=[MemberGroup("m", ["t"], count=3), late()])
    assert (outcome.rounds, outcome.history[1].members) == (2, 4)
    assert outcome.history[1].joined >= 50000
    assert owners_at(outcome, 45) == {"m-00": 4}  # the others have given up all they had


def test_a_pause_beyond_max_poll_costs_the_membership_and_the_zombie_never_double_owns() -> None:
    for strategy in ("range", "sticky", "cooperative-sticky"):
        outcome = run([Event(20, "pause", "m-00", seconds=90)], strategy)
        assert owners_at(outcome, 100) == {"m-01": 6, "m-02": 6}
        assert (outcome.settled, outcome.double_owned_seconds, outcome.spread) == (True, 0, 0)


def test_pauses_that_overlap_are_one_pause_without_a_poll() -> None:
    """70 s without a poll, of which max.poll.interval.ms allows 60 s; a poll between two pauses starts the time anew."""
    first = Event(20, "pause", "m-00", seconds=40)
    late = run([first, Event(50, "pause", "m-00", seconds=40)])
    assert [entry.started for entry in late.history[1:]] == [80000, 90010]
    assert (late.settled, late.double_owned_seconds) == (True, 0)
    assert run([first, Event(60, "pause", "m-00", seconds=40)]).rounds == 1


def test_a_static_member_back_within_its_session_causes_no_rebalance() -> None:
    static = [MemberGroup("m", ["t"], count=3, static=True)]
    outcome = run([Event(20, "restart", "m-01", down=5)], members=static)
    assert (outcome.rounds, outcome.moved, outcome.revoked) == (1, 0, 0)
    assert outcome.stopped_partition_seconds == pytest.approx(4 * 5.01)


def test_a_static_member_away_for_longer_than_its_session_causes_a_rebalance() -> None:
    static = [MemberGroup("m", ["t"], count=3, static=True)]
    assert run([Event(20, "restart", "m-01", down=15)], members=static).rounds == 3


def test_a_static_member_does_not_leave_when_it_polls_too_late() -> None:
    """Its heartbeats stop, so the session has to end first."""
    static = [MemberGroup("m", ["t"], count=3, static=True)]
    assert run([Event(20, "pause", "m-00", seconds=65)], members=static).rounds == 1


def test_a_static_member_that_polls_too_late_takes_no_assignment_that_was_on_its_way() -> None:
    """It has joined and is busy when the answer comes; before it polls again its generation is cleared, then it is new."""
    members = [MemberGroup("m", ["t"], count=3, static=True), late()]
    busy = [Event(22, "pause", "m-02", seconds=61), Event(25, "freeze", "m-02", seconds=59)]
    later = Event(100, "rejoin", "m-00")
    outcome = run([Event(20, "join", "late"), Event(20, "pause", "m-01", seconds=55), *busy, later], members=members)
    assert 75000 <= outcome.history[1].at <= 76000  # the answer, six seconds before m-02 is out of time
    assert owners_at(outcome, 83) == {"late": 3, "m-00": 3, "m-01": 3}
    assert (outcome.rounds, outcome.settled, outcome.double_owned_seconds) == (3, True, 0)


def test_a_busy_application_that_subscribes_anew_asks_for_it_when_it_polls() -> None:
    members = [MemberGroup("m", ["t"], count=3)]
    for seconds in (40, 70):  # still a member when it polls, or out since 60 s
        paused = [Event(20, "pause", "m-00", seconds=seconds), Event(30, "subscribe", "m-00", topics=["t", "u"])]
        if seconds > 60:
            paused.insert(0, Event(19, "join", "late"))  # a JoinGroup of its own is on its way when it falls silent
        outcome = run([*paused, Event(120, "rejoin", "m-01")], members=[*members, late()], topics={"t": 12, "u": 3})
        assert not any(30000 <= entry.started < 20000 + min(seconds, 60) * 1000 for entry in outcome.history)
        assert (outcome.settled, outcome.double_owned_seconds) == (True, 0)
        assert owners_at(outcome, 119)["m-00"] >= 3


def test_a_leader_lost_in_mid_rebalance_is_a_failed_generation() -> None:
    members = [MemberGroup("m", ["t"], count=3), late()]
    outcome = run([Event(19, "crash_leader"), Event(20, "join", "late")], members=members)
    assert (outcome.failed, outcome.rounds, outcome.settled) == (1, 2, True)
    assert [entry.generation for entry in outcome.history] == [1, 3]
    assert outcome.history[1].members == 3


def test_cooperative_members_keep_what_they_have_and_a_follow_up_hands_over_the_rest() -> None:
    members = [MemberGroup("m", ["t"], count=3), late()]
    outcome = run([Event(20, "join", "late")], "cooperative-sticky", members=members)
    shape = [(entry.moved, entry.withheld, entry.follow_up) for entry in outcome.history]
    assert shape == [(0, 0, False), (3, 3, False), (0, 0, True)]
    assert (outcome.rebalances, outcome.revoked) == (2, 3)


def test_eager_members_give_up_everything() -> None:
    outcome = run([Event(20, "join", "late")], "sticky", members=[MemberGroup("m", ["t"], count=3), late()])
    assert (outcome.rounds, outcome.moved, outcome.revoked) == (2, 3, 12)


def test_two_revocations_make_one_follow_up() -> None:
    """A member has one JoinGroup under way: hearing of a rebalance does not make it join twice."""
    members = [MemberGroup("m", ["t"], count=12), late()]
    outcome = run([Event(20, "join", "late")], "cooperative-sticky", members=members, topics={"t": 60})
    assert (outcome.rounds, outcome.failed) == (3, 0)


def test_a_member_with_no_strategy_in_common_is_refused_and_the_group_continues() -> None:
    outcome = run([Event(20, "join", "late")], members=[MemberGroup("m", ["t"], count=3), late(strategies=["roundrobin"])])
    assert (outcome.refused, outcome.rounds, outcome.settled) == (1, 1, True)


def test_a_frozen_member_is_dropped_and_comes_back_as_a_new_one() -> None:
    outcome = run([Event(20, "freeze", "m-00", seconds=30)], "cooperative-sticky")
    assert [entry.members for entry in outcome.history if not entry.follow_up] == [3, 2, 3]
    assert outcome.settled


def test_growth_is_seen_by_the_leader_and_planned_once() -> None:
    grown = run([Event(20, "grow", topic="t", partitions=15)])
    assert (grown.rounds, grown.history[1].started // 1000) == (2, 25)
    soon = run([Event(20, "grow", topic="t", partitions=15), Event(21, "leave", "m-02")])
    assert soon.rounds == 2  # the rebalance after the leave has planned it already


def test_a_topic_made_again_smaller_is_planned_from_claims_that_no_longer_exist() -> None:
    events = [Event(20, "delete", topic="t"), Event(20.1, "create", topic="t", partitions=4)]
    for strategy in ("sticky", "cooperative-sticky"):
        outcome = run(events, strategy)
        assert (outcome.settled, outcome.double_owned_seconds, sum(owners_at(outcome, 60).values())) == (True, 0, 0)
        assert outcome.spread == 1


def test_an_unsubscribed_topic_is_given_up_before_the_join() -> None:
    outcome = run(
        [Event(20, "subscribe", "m-00", topics=["u"])],
        "cooperative-sticky",
        members=[MemberGroup("m", ["t", "u"], count=2)],
        topics={"t": 4, "u": 4},
    )
    assert outcome.settled
    assert [entry.follow_up for entry in outcome.history].count(True) <= 1


def test_a_static_member_restarted_before_it_has_revoked_leaves_partitions_waiting_until_the_next_rebalance() -> None:
    """Nobody is left who would revoke them, and its return makes no rebalance: Kafka's classic protocol is like that."""
    members = [MemberGroup("m", ["t"], count=2, static=True), late()]
    trapped = [Event(20, "join", "late"), Event(21.04, "restart", ["m-00", "m-01"])]
    outcome = run(trapped, "cooperative-sticky", members=members)
    if outcome.settled:  # the moment must lie between the plan and the revocation
        moment = outcome.history[1].at / 1000 + 0.003
        trapped = [trapped[0], Event(moment, "restart", ["m-00", "m-01"])]
        outcome = run(trapped, "cooperative-sticky", members=members)
    assert not outcome.settled
    healed = run([*trapped, Event(60, "rejoin", "late")], "cooperative-sticky", members=members)
    assert (healed.settled, healed.double_owned_seconds) == (True, 0)


def test_the_upgrade_to_cooperative_works_in_two_bounces() -> None:
    """Eager while both are offered; withholding begins with the first cooperative member; never refused, never two owners."""
    outcome = simulate("upgrade-to-cooperative", ["range"])["range"]
    chosen = [entry.strategy for entry in outcome.history]
    change = chosen.index("cooperative-sticky")
    assert set(chosen[:change]) == {"range"}
    assert set(chosen[change:]) == {"cooperative-sticky"}
    assert 270 < outcome.history[change].at / 1000 < 420  # when the last member of the first bounce is back
    assert all(not entry.withheld for entry in outcome.history if entry.at < 420_000)
    assert any(entry.withheld for entry in outcome.history if entry.at > 420_000)
    assert (outcome.refused, outcome.double_owned_seconds, outcome.settled, outcome.spread) == (0, 0, True, 0)


def test_a_static_member_that_joins_again_before_it_hears_of_its_expulsion_owns_nothing_twice() -> None:
    """It gets partitions between its expulsion and its next heartbeat, which its next process does not have."""
    pauses = [Event(at, "pause", member, seconds=300) for at, member in ((100.122, "g-02"), (100.078, "g-03"))]
    events = [*pauses, Event(100.075, "leave", "x-00"), Event(400.158, "rejoin", "g-02")]
    groups = [MemberGroup("g", ["t"], count=4, static=True), MemberGroup("x", ["t"], count=2)]
    for strategy in ("range", "cooperative-sticky"):
        outcome = simulate(Scenario("s", {"t": 6}, groups, events), [strategy])[strategy]
        assert (outcome.double_owned_seconds, outcome.settled) == (0, True)


def test_one_bounce_straight_to_cooperative_is_refused() -> None:
    """Why the guide wants two: range and cooperative-sticky alone have nothing in common."""
    members = [MemberGroup("m", ["t"], count=3, strategies=["range"])]
    outcome = run([Event(20, "reconfigure", "m-00", strategies=["cooperative-sticky"])], members=members)
    assert outcome.refused == 1


def test_a_static_member_is_refused_with_other_strategies_than_its_last_process_until_the_session_is_over() -> None:
    """Its registration is a member like any other: Kafka counts its strategies, too."""
    for down, refused, strategies in ((5, 1, ["range"]), (15, 0, ["range", "roundrobin"])):
        members = [MemberGroup("m", ["t"], static=True, strategies=["range"])]
        outcome = run([Event(20, "reconfigure", "m", strategies=["roundrobin"], down=down)], members=members)
        assert (outcome.refused, [entry.strategy for entry in outcome.history]) == (refused, strategies)
        outcome = run([Event(20, "reconfigure", "m", strategies=["sticky", "range"], down=down)], members=members)
        assert (outcome.refused, outcome.settled) == (0, True)


@pytest.mark.parametrize("name", ready_scenarios())
def test_every_ready_scenario_is_safe_and_settles(name: str) -> None:
    for outcome in simulate(name, ["range", "cooperative-sticky"]).values():
        assert (outcome.double_owned_seconds, outcome.settled) == (0, True)


def test_kip_54_the_failed_member_comes_back() -> None:
    """Three members, ten partitions of three topics: one crashes and returns; sticky moves only what it must."""
    topics = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
    members = [MemberGroup("c", sorted(topics), count=3)]
    events = [Event(30, "leave", "c-01"), Event(60, "join", "c-01")]
    sticky, roundrobin = (run(events, name, members=members, topics=topics) for name in ("sticky", "roundrobin"))
    assert (sticky.history[1].moved, sticky.history[2].moved) == (0, 2)
    assert roundrobin.moved > sticky.moved


def test_kip_341_a_member_that_missed_a_generation_takes_nothing_from_its_new_owner() -> None:
    """c-00 returns with claims of an older generation; those who own the partitions now keep all they may."""
    outcome = run([Event(20, "pause", "m-00", seconds=90)], "sticky", topics={"t": 6})
    assert [entry.moved for entry in outcome.history] == [0, 0, 2]


def test_kip_429_a_rolling_restart_stops_less_than_under_eager() -> None:
    found = simulate("rolling-restart-of-50", ["sticky", "cooperative-sticky"])
    eager, cooperative = found["sticky"], found["cooperative-sticky"]
    assert cooperative.moved == eager.moved == cooperative.revoked
    assert eager.revoked > 50 * cooperative.revoked
    assert eager.stopped_partition_seconds > 10 * cooperative.stopped_partition_seconds


def whoever_stays(events: list[Event], **more: Any) -> list[str]:
    outcome = run([*events, Event(500, "rejoin", "app")], members=[MemberGroup("app", ["t"], count=4, **more)])
    return sorted(owners_at(outcome, 499))


TWO, THREE = ["app-00", "app-01"], ["app-00", "app-01", "app-02"]
GOES: list[tuple[str, list[Event], list[str]]] = [
    ("scaled in", [Event(60, "scale", "app", count=2), Event(200, "rolling_restart", "app", every=20, down=5)], TWO),
    ("left", [Event(60, "leave", "app-03"), Event(200, "rolling_restart", "app", every=20, down=5)], THREE),
    ("crashed", [Event(60, "crash", "app-03"), Event(200, "restart", "app", down=5)], THREE),
    (
        "reconfigured",
        [Event(60, "leave", "app-03"), Event(200, "reconfigure", "app", strategies=["range"], every=20, down=5)],
        THREE,
    ),
    ("left while down", [Event(60, "restart", "app-03", down=30), Event(70, "leave", "app-03")], THREE),
    ("left before its turn", [Event(60, "rolling_restart", "app", every=20, down=5), Event(110, "leave", "app-03")], THREE),
    ("scaled in while down", [Event(60, "restart", "app-03", down=30), Event(70, "scale", "app", count=3)], THREE),
    (
        "scaled in during a scale-out",
        [Event(60, "scale", "app", count=8, every=10), Event(75, "scale", "app", count=2, every=10)],
        TWO,
    ),
    (
        "joined during a scale-in",
        [Event(60, "scale", "app", count=1, every=10), Event(65, "join", ["app-01", "app-02"])],
        THREE,
    ),
    (
        "scaled out during a scale-in",
        [Event(60, "scale", "app", count=1, every=10), Event(65, "scale", "app", count=3, every=10)],
        THREE,
    ),
]


@pytest.mark.parametrize(("events", "names"), [case[1:] for case in GOES], ids=[case[0] for case in GOES])
def test_a_later_leave_join_or_scale_decides_who_stays(events: list[Event], names: list[str]) -> None:
    assert whoever_stays(events) == names


def test_a_scale_in_stops_members_that_have_yet_to_start() -> None:
    assert whoever_stays([Event(15, "scale", "app", count=2)], every=10) == TWO


def test_a_member_that_is_down_for_a_restart_returns_on_time_whatever_is_restarted_or_scaled_meanwhile() -> None:
    events = [
        Event(60, "restart", "m-01", down=30),
        Event(70, "restart", "m", down=60),
        Event(75, "scale", "m", count=5, every=50),
    ]
    outcome = run(events)
    assert [piece for piece in outcome.ownership if piece.member == "m-01" and 60.1 < piece.start < 100] != []


@pytest.mark.parametrize("static", [False, True])
def test_the_work_of_a_join_does_not_grow_with_the_group(static: bool) -> None:
    few, many = (lines_of(lambda n=n: run([], members=[MemberGroup("m", ["t"], n, static=static)])) for n in (50, 200))  # type: ignore[misc]
    assert many < 5 * few


def test_an_event_that_names_many_members_searches_for_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def worked(n: int) -> tuple[int, int]:
        members, Compared.times = [MemberGroup("m", ["t"], n)], 0
        events = [Event(60, "rejoin", members[0].names()), Event(90, "scale", "m", count=n // 2)]
        play = Play(Scenario("case", {"t": 12}, members, events, timing=FAST), "range", None)
        return lines_of(lambda: play._names(events[0])), compared(play)

    def compared(play: Play) -> int:
        play._running = {Compared(name): None for name in play._group_of}  # type: ignore[misc]
        play._do_scale(play.scenario.events[1])
        return Compared.times

    monkeypatch.setattr(Play, "_is_running", lambda *_: True)
    (few, compared_few), (many, compared_many) = worked(50), worked(200)
    assert many < 5 * few
    assert compared_many < 5 * compared_few


def test_the_work_of_an_event_does_not_grow_with_the_members_that_it_does_not_name() -> None:
    """A recorded group has each of its members as a group of one."""

    def checked(n: int) -> int:
        members = [late(f"m-{at}") for at in range(n)]
        events = [Event(at, do, [one.name]) for at, one in enumerate(members) for do in ("join", "leave")]
        scenario = Scenario("case", {"t": 12}, members, events, timing=FAST)
        play = Play(scenario, "range", None)
        return lines_of(lambda: list(faults(scenario))) + lines_of(lambda: [play._names(event) for event in events])

    assert checked(400) < 8.5 * checked(50)


def test_an_unknown_strategy_is_refused_also_if_the_members_bring_their_own() -> None:
    scenario = Scenario("case", {"t": 4}, [MemberGroup("m", ["t"], 2, strategies=("range",))], [])
    with pytest.raises(UnknownStrategyError, match="'stickey' is unknown"):
        simulate(scenario, ["stickey"])
