"""Sizing of made-up groups whose production and capacity are known: what their samples and commits show of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import Keys, PartitionStates
from counterpoise.pipeline.fold.saved_partitions import restored_partitions, state_of_partitions
from counterpoise.pipeline.fold.sizing import Sizing, add_samples, fullest, least_members, sizing_columns
from counterpoise.pipeline.history.fold_state import decode_state, encode_state

SECOND = 1_000_000
NAMES = ("key", "time", "owner", "lag", "committed", "committed_at")


@dataclass
class Model:
    """One group: partitions with production per second at a time, dealt out in turn to members of one capacity.

    A member works on its partitions in turn, and commits all of them every `commit_every` seconds.
    """

    production: Sequence[Callable[[int], float]]
    members: int
    capacity: float
    seconds: int = 1800
    sample_every: int = 30
    commit_every: int = 7

    def samples(self) -> list[Samples]:
        n = len(self.production)
        ends, read, committed, at = (np.zeros(n, np.int64) for _ in range(4))
        owner = np.arange(n) % self.members
        found, made = [], np.zeros(n)
        for second in range(self.seconds + 1):
            if second % self.sample_every == 0:
                rows = (np.arange(n), np.full(n, second * SECOND), owner, ends - committed, committed, at)
                found.append(
                    Samples(**dict(zip(NAMES, (one.copy() for one in rows), strict=True)), start=ends * 0, end=ends.copy())
                )
            made += [rate(second) for rate in self.production]
            ends = made.astype(np.int64)
            left = np.full(self.members, int(self.capacity))
            for partition in np.roll(np.arange(n), second):
                done = min(ends[partition] - read[partition], left[owner[partition]])
                read[partition] += done
                left[owner[partition]] -= done
            if second % self.commit_every == 3 % self.commit_every:
                committed, at = read.copy(), np.where(read > committed, second * SECOND, at)
        return found


def again(parts: PartitionStates) -> PartitionStates:
    """The same from the saved state."""
    return restored_partitions(decode_state(encode_state(state_of_partitions(parts))))


def sized(samples: Sequence[Samples], members: int, headroom: float = 0.2, at_once: int = 1) -> dict[str, Any]:
    """The columns by these samples, so many at a time, with the state saved in between."""
    n, of = len(samples[0]), {"g": Sizing()}
    parts = PartitionStates()
    parts.names.groups, parts.names.topics = {"g": 0}, {"t": 0}
    parts.names.members = {f"m-{at}": at for at in range(n)}
    parts.keys = Keys.new(np.zeros(n, np.int64), np.zeros(n, np.int64), np.arange(n))
    instants = np.array([one.time[0] for one in samples])
    for at in range(0, len(samples), at_once):
        add_samples(of, parts, instants, Samples.joined(samples[at : at + at_once]))
        parts = again(parts)
    return sizing_columns(of["g"], parts, 0, members, headroom)


def steady(*rates: float) -> list[Callable[[int], float]]:
    return [lambda _, rate=rate: rate for rate in rates]  # type: ignore[misc]


def burst(rate: float, peak: float, begin: int, end: int) -> Callable[[int], float]:
    return lambda second: peak if begin <= second < end else rate


@pytest.mark.parametrize("commit_every", [1, 7, 40], ids="commits every {} s".format)
def test_the_capacity_of_a_member_is_what_it_consumed_while_records_waited(commit_every: int) -> None:
    """Two members of 100 a second; 220 a second are produced."""
    model = Model(steady(55, 55, 55, 55), members=2, capacity=100, commit_every=commit_every)
    found = sized(model.samples(), 2)
    assert (found["capacity_quality"], found["capacity_per_second"]) == ("sustained", pytest.approx(100, rel=0.03))
    assert found["production_per_second"] == pytest.approx(220, rel=0.01)
    assert found["member_load_per_second"] == pytest.approx(110, rel=0.01)
    assert (found["members_needed"], found["members_useful"]) == (4, 4), "three have two partitions with one of them"
    assert found["capacity_windows"] >= 40
    assert found["sizing_seconds"] == 1800


def test_a_group_that_was_never_behind_shows_only_a_lower_bound() -> None:
    found = sized(Model(steady(20, 20, 20, 20), members=2, capacity=1000).samples(), 2)
    assert (found["capacity_quality"], found["capacity_per_second"]) == ("lower_bound", pytest.approx(40, rel=0.2))
    assert found["capacity_windows"] == 0


def test_a_burst_shows_the_capacity_and_the_busiest_ten_minutes_what_is_needed() -> None:
    """From 20 to 35 minutes 400 a second instead of 40: two members of 100 catch up afterwards."""
    production = [burst(10, 100, 1200, 2100) for _ in range(4)]
    found = sized(Model(production, members=2, capacity=100, seconds=7200).samples(), 2)
    assert (found["capacity_quality"], found["capacity_per_second"]) == ("sustained", pytest.approx(100, rel=0.03))
    assert found["production_per_second"] == pytest.approx(400, rel=0.01)
    assert found["production_ts"] == 1200 * SECOND
    assert found["members_needed"] is None, "with a fifth to spare a member cannot do one partition"
    assert sized(Model(production, members=2, capacity=100, seconds=7200).samples(), 2, 0.0)["members_needed"] in (4, None)


def test_what_happened_between_two_recordings_is_not_recorded() -> None:
    """Half an hour of 100 a second, a day of 10,000 a second without samples, half an hour of 100 a second."""
    samples, more, day = Model(steady(100), members=1, capacity=200, seconds=3_600).samples(), 864_000_000, 86_400 * SECOND
    later = [
        replace(one, time=one.time + day, committed_at=one.committed_at + day, end=one.end + more, committed=one.committed + more)
        for one in samples[61:]
    ]
    found = sized([*samples[:61], *later], 1)
    assert found["production_per_second"] == pytest.approx(100, rel=0.01)
    assert found["sizing_seconds"] == pytest.approx(3_600, rel=0.05)


def test_samples_every_ten_minutes_are_enough_and_no_time_counts_twice() -> None:
    """One partition has no samples from 330 s to 870 s; then samples are a second more than ten minutes apart."""
    samples = Model(steady(50, 50), members=1, capacity=200).samples()
    gap = [one.take(np.flatnonzero((one.key == 0) | (one.time < 330 * SECOND) | (one.time > 870 * SECOND))) for one in samples]
    assert sized(gap, 1)["sizing_seconds"] == 1800
    rare = Model(steady(50, 50), members=1, capacity=200, seconds=7_200, sample_every=601).samples()
    assert sized(rare, 1)["production_per_second"] == pytest.approx(100, rel=0.01)


def test_two_minutes_at_the_end_are_no_period_even_the_busiest_two() -> None:
    found = sized(Model([burst(10, 500, 1200, 1330)], members=1, capacity=1000, seconds=1320).samples(), 1)
    assert found["production_per_second"] == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(("begin", "end"), [(0, 240), (240, 360)], ids=["first period", "last period"])
def test_of_two_periods_of_a_short_recording_the_busier_one_counts(begin: int, end: int) -> None:
    """A recording from four minutes before full ten minutes to two minutes after: no period has more than five minutes."""
    samples = Model([burst(10, 100, begin, end)], members=1, capacity=200, seconds=360).samples()
    moved = [replace(one, time=one.time + 360 * SECOND, committed_at=one.committed_at + 360 * SECOND) for one in samples]
    found = sized(moved, 1)
    assert found["production_per_second"] == pytest.approx(100, rel=0.01)
    assert found["busiest_partitions"][0]["per_second"] == pytest.approx(100, rel=0.01)


def test_the_owner_at_the_begin_of_a_window_keeps_its_name_in_the_saved_state() -> None:
    parts, zero = PartitionStates(), np.zeros(1, np.int64)
    parts.names.members = {"gone": 0, "here": 1}
    parts.keys = replace(Keys.new(zero, zero, zero), window_owner=zero + 1)
    restored = again(parts)
    assert [restored.members[code] for code in restored.keys.window_owner.tolist()] == ["here"]


def test_more_members_do_not_help_a_hot_partition() -> None:
    found = sized(Model(steady(150, 5, 5, 5), members=2, capacity=100).samples(), 2, 0.0)
    assert found["members_needed"] is None
    assert found["members_useful"] == 2, "the others have 10 and 5 less"
    named = [(one["partition"], round(one["per_second"])) for one in found["busiest_partitions"]]
    assert named == [(0, 150), (1, 5), (2, 5)]


def test_headroom_asks_for_more_members() -> None:
    samples = Model(steady(*[30] * 8), members=2, capacity=100).samples()
    assert [sized(samples, 2, headroom)["members_needed"] for headroom in (0.0, 0.2, 1.5)] == [3, 4, 8]


def paused(samples: list[Samples], partition: int) -> list[Samples]:
    """Nobody consumes a partition from the third sample on."""
    return [
        replace(one, committed=np.where((np.arange(len(one)) == partition) & (number > 2), samples[2].committed, one.committed))
        for number, one in enumerate(samples)
    ]


def test_a_partition_that_stands_still_does_not_show_what_its_owner_can_do() -> None:
    found = sized(paused(Model(steady(20, 20, 20, 20), members=1, capacity=1000).samples(), 1), 1)
    assert found["capacity_quality"] == "lower_bound"


def test_records_that_retention_deletes_are_not_consumed() -> None:
    """At the sixteenth sample the log begins 9,000 offsets further on, and so does the group; records wait before and after."""
    samples = Model(steady(100, 100), members=1, capacity=100, seconds=1800).samples()
    before, after = samples[:15], [replace(one, committed=one.committed + 9000) for one in samples[15:]]
    lost = [*before, *(replace(one, start=after[0].committed) for one in after)]
    assert all((one.committed <= one.end).all() for one in lost[15:])
    assert sized(lost, 1)["capacity_per_second"] == pytest.approx(100, rel=0.03)


def test_a_position_that_is_set_to_the_end_is_no_capacity() -> None:
    samples = Model(steady(100, 100), members=1, capacity=100, seconds=900).samples()
    skipped = [replace(one, committed=one.end if number >= 15 else one.committed) for number, one in enumerate(samples)]
    assert sized(skipped, 1)["capacity_per_second"] < 210


def test_a_commit_beyond_the_end_of_the_log_is_no_capacity() -> None:
    """Of one partition; the other one is behind, so the member does not wait."""
    samples = Model(steady(100, 100), members=1, capacity=100, seconds=900).samples()
    beyond = [replace(one, committed=one.committed + np.array([10**9 * (number >= 15), 0])) for number, one in enumerate(samples)]
    assert sized(beyond, 1)["capacity_per_second"] < 1000


def test_the_window_in_which_a_topic_is_recreated_counts_as_nothing() -> None:
    samples = Model(steady(50, 50), members=1, capacity=200, seconds=600).samples()
    again = [replace(one, end=one.end - samples[10].end, committed=one.committed * 0) for one in samples[10:]]
    assert sized([*samples[:10], *again], 1)["production_per_second"] == pytest.approx(90, rel=0.03)


def test_what_changes_hands_within_a_window_shows_nothing() -> None:
    samples = Model(steady(80, 80), members=1, capacity=100).samples()
    swapped = [replace(one, owner=(one.owner + number // 2) % 2) for number, one in enumerate(samples)]
    assert sized(swapped, 1, at_once=len(swapped))["capacity_quality"] == "unknown"


@pytest.mark.parametrize("at_once", [2, 5, 17, 1000])
def test_samples_at_a_time_change_nothing(at_once: int) -> None:
    samples = Model([burst(10, 100, 500, 1100), *steady(30, 5)], members=2, capacity=60, seconds=4000).samples()
    assert sized(samples, 2, at_once=at_once) == sized(samples, 2)


def test_without_a_window_nothing_is_known() -> None:
    assert sized(Model(steady(5), members=1, capacity=9, seconds=30).samples(), 1) == {}


@pytest.mark.parametrize(
    ("loads", "limit", "least"),
    [([4, 4, 4, 4], 8, 2), ([4, 4, 4, 4], 7.9, 4), ([9, 1, 1], 8, None), ([0, 0], 0.0, 1), ([5, 1, 5, 1], 6, 3), ([], 1, 0)],
    ids=["even", "just too much", "a hot partition", "no traffic", "dealt out in turn", "no partition"],
)
def test_the_least_number_of_members(loads: list[int], limit: float, least: int | None) -> None:
    assert least_members(np.array(loads, np.int64), limit) == least


def test_of_any_loads_the_least_number_keeps_up_and_no_smaller_one_does() -> None:
    chance = np.random.default_rng(3)
    for _ in range(300):
        loads = chance.integers(0, 100, chance.integers(1, 60))
        limit = float(loads.max() + chance.integers(0, 300))
        n = least_members(loads, limit)
        assert n is not None
        assert fullest(loads, n) <= limit
        assert all(fullest(loads, fewer) > limit for fewer in range(1, n))


def test_the_numbers_of_a_group_of_100000_partitions_are_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()

    def counted(loads: Any, members: int) -> int:
        tried.append(members)
        return fullest(loads, members)

    monkeypatch.setattr("counterpoise.pipeline.fold.sizing.fullest", counted)
    loads = np.random.default_rng(1).integers(1, 1000, 100_000)
    assert least_members(loads, float(loads.max())) is not None
    assert len(tried) <= 60


def test_the_work_for_a_group_does_not_grow_with_the_groups_of_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of all groups are listed once per call, and the partitions of all groups are not searched for those of one."""
    listed: list[int] = []
    real = vars(PartitionStates)["groups"].fget

    def counted(states: PartitionStates) -> Any:
        listed.append(1)
        return real(states)

    monkeypatch.setattr(PartitionStates, "groups", property(counted))
    n, of = 20, {f"g-{at}": Sizing() for at in range(20)}
    parts = PartitionStates()
    parts.names.groups, parts.names.topics = {name: at for at, name in enumerate(of)}, {"t": 0}
    parts.keys = Keys.new(np.arange(n), np.zeros(n, np.int64), np.zeros(n, np.int64))
    instants, none = np.array([0, 60, 120]) * SECOND, np.zeros(n, np.int64)
    for at in instants.tolist():
        ends = none + at // SECOND
        add_samples(of, parts, instants, Samples(np.arange(n), none + at, none, ends, none, none, none, ends))
    assert len(listed) <= 2 * len(instants)
    parts.keys = replace(parts.keys, group=parts.keys.group.view(_Unsearched))
    assert [sizing_columns(one, parts, at, 1, 0.2)["production_per_second"] for at, one in enumerate(of.values())] == [1] * n


class _Unsearched(np.ndarray):
    """An array that nobody compares as a whole."""

    def __eq__(self, other: object) -> Any:
        raise AssertionError("all partitions are searched")

    __hash__ = None
