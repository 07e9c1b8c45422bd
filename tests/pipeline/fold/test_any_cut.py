"""However a history is cut into chunks or updates, final and provisional rows together are those of one chunk."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.saved_partitions import restored_partitions, state_of_partitions
from counterpoise.pipeline.history.fold_state import decode_state, encode_state
from tests.pipeline.fold.histories import GROUPS, MEMBERS, PLACES, Commit, Event, History, Sample, Step, folded, histories


@given(histories(), st.booleans())
def test_a_chunk_per_event_gives_what_one_chunk_gives(history: History, saved: bool) -> None:
    whole, cut = folded(history, aggregate=False), folded(history, range(1, len(history.events)), saved=saved)
    assert cut == whole


@given(histories(least=8), st.sets(st.integers(1, 30), max_size=4))
def test_chunks_of_any_length_give_what_one_chunk_gives(history: History, cuts: set[int]) -> None:
    whole, cut = folded(history), folded(history, sorted(cuts), saved=True)
    assert cut == whole


@given(histories(), st.integers(1, 9))
def test_slices_of_a_few_rows_of_lag_give_what_one_slice_gives(history: History, at_once: int) -> None:
    whole = folded(history)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("counterpoise.pipeline.fold.lag._ROWS", at_once)
        sliced = folded(history)
    assert sliced == whole


@given(histories())
def test_updates_that_know_no_later_sample_give_what_one_chunk_gives(history: History) -> None:
    """Without ids of topics: if these and the ends of logs differ in what was made anew, all is read again."""
    history = replace(history, ids_at_end=None)
    whole, cut = folded(history, aggregate=False), folded(history, range(1, len(history.events)), updates=True)
    assert cut == whole


def test_a_stop_waits_for_the_sample_that_shows_the_time_without_samples() -> None:
    """Commits stop at 4 s and go on at 12 s, three steps follow, and no sample comes between 4 s and 20 s."""

    def step(time: int, owner: int) -> Step:
        return Step(time * 1_000_000, "g", "rebalance", "eager", (owner,) * 4, (), False, False)

    sampled = [Sample(time * 1_000_000, (40,) * 4) for time in (-2, 0, 2, 4, 20, 22)]
    commits = [Commit(time * 1_000_000, "g", 0, time, None) for time in (2, 3, 4, 12, 13)]
    events: list[Event] = [*sampled, *commits, step(1, 0), *(step(time, 1) for time in range(11, 19, 2))]
    history = History(tuple(sorted(events, key=lambda one: one.time)), None, None)
    whole, cut = folded(history), folded(history, range(1, len(events)), updates=True)
    stops = whole.figures["g"]
    assert (stops["stopped_partition_seconds"], stops["stopped_unsampled_seconds"]) == (0, 4 * 7)
    assert cut.figures == whole.figures


@pytest.mark.parametrize(("protocol", "back"), [("eager", 1), ("server", 0)], ids=["its client came back", "its id came back"])
def test_a_member_that_polled_too_late_is_counted_once_wherever_the_log_is_cut(protocol: str, back: int) -> None:
    """Member a commits at 2 ms and leaves at 9 ms; it comes back, and what it had is known after three further steps."""

    def step(time: int, owner: int, left: tuple[int, ...] = (), joined: tuple[int, ...] = ()) -> Step:
        return Step(time * 1000, "g", "rebalance", protocol, (owner,) * 4, left, False, False, joined)

    first = (step(1, 0, joined=(0,)), Commit(2000, "g", 0, 1, None), step(9, 1, left=(0,)))
    following = [step(11, 1, joined=(back,)), *(step(time, 1) for time in range(12, 18))]
    history = History((*first, Commit(10_000, "g", 0, 2, None), *following), None, None)
    whole, cut = folded(history), folded(history, range(1, len(history.events)), saved=True)
    assert whole.figures["g"]["poll_kicks"] == 1
    assert cut.figures == whole.figures
    sampled = replace(history, events=(Sample(0, (1,) * 4), *history.events, Sample(30_000, (9,) * 4)))
    cut = folded(sampled, range(1, len(sampled.events)), updates=True)
    assert cut.figures == folded(sampled).figures, "stops become known with the last sample"


def test_a_change_has_the_stops_and_the_lag_of_both_its_sides_wherever_the_log_is_cut() -> None:
    """Five eager steps and five of the broker, one a second; members a and b swap four partitions, and commit twice a step."""
    events = list[Event]()
    for number in range(10):
        at, protocol = number * 1_000_000, "eager" if number < 5 else "server"
        events.append(Step(at, "g", "rebalance", protocol, (number % 2,) * 4, (), False, False))
        events += [Commit(at + later, "g", place, number, None) for place in range(4) for later in (100_000, 200_000)]
        events.append(Sample(at + 300_000, (number + 7,) * 4))
    history = History(tuple(sorted(events, key=lambda one: one.time)), None, None)
    whole, cut = folded(history), folded(history, range(1, len(events), 7), saved=True)
    (row,) = whole.changes
    figures = ("rebalances", "stopped_seconds", "samples", "lag_mean", "lag_peak")
    assert [[row[side][name] for name in figures] for side in ("before", "after")] == [
        [5, 12.8, 5, 19.2, 24],
        [4, 12.8, 5, 27.2, 28],
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("counterpoise.pipeline.fold.lag._ROWS", 3)
        sliced = folded(history)
    assert (cut.changes, cut.figures) == (whole.changes, whole.figures)
    assert (sliced.changes, sliced.figures) == (whole.changes, whole.figures)


def test_steps_of_one_millisecond_are_two_steps() -> None:
    """Member b keeps a partition in the second step that it got there; its last commits are not those of the first one."""

    def step(time: int, *owners: int | None) -> Step:
        return Step(time, "g", "rebalance", "eager", owners, (), False, False)

    steps = (step(1, None, None, None, 1), step(1, None, None, 1, 2), step(2, *[None] * 4), step(3, *[None] * 4))
    commits = (Commit(2, "g", 3, 1, None), Commit(4, "g", 2, 1, None))
    history = History((*steps[:2], commits[0], *steps[2:], commits[1]), None, None)
    whole, cut = folded(history), folded(history, range(1, 6))
    assert cut == whole


def test_a_commit_long_after_the_first_steps_does_not_share_the_last_commit_before_them() -> None:
    """A partition that is first committed, and then assigned, after the commits before the first step were counted."""

    def step(time: int, *owners: int | None) -> Step:
        return Step(time, "g", "rebalance", "eager", (*owners, None, None), (), False, False)

    first = (Commit(1000, "g", 0, 1, None), step(2000, 0, None), step(3000, 0, None), step(4000, 0, None))
    later = (Commit(5000, "g", 1, 1, None), step(6000, 0, 0), step(7000, 0, 0), Commit(8000, "g", 1, 2, None))
    history = History((*first, *later), None, None)
    whole, cut = folded(history), folded(history, range(1, len(history.events)), saved=True)
    assert cut.figures == whole.figures


@pytest.mark.parametrize("later", [7, None], ids=["a newer commit", "a tombstone"])
def test_a_step_between_two_samples_of_a_log_waits_for_the_second_one(later: int | None) -> None:
    """Another log is sampled before that, and something else is committed."""
    events = (
        Commit(1000, "g", 0, 6, None),
        Sample(2000, (10, None, None, None)),
        Step(3000, "g", "rebalance", "eager", (None,) * 4, (), False, False),
        Commit(4000, "g", 0, later, None),
        Sample(5000, (None, 10, None, None)),
        Sample(6000, (30, None, None, None)),
    )
    history = History(events, None, None)
    whole, cut = folded(history), folded(history, range(1, len(events)), updates=True)
    assert dict(whole.lag["g", "t", 0, datetime.fromtimestamp(0.003, UTC)])["lag"] == 9
    assert cut.lag == whole.lag


def test_a_row_between_two_samples_of_a_log_is_no_sample_even_at_the_time_of_one_of_another_log() -> None:
    """The row at 1 ms is final only at 2 ms, so a generation at 1 ms does not have it, wherever the log is cut."""
    step = Step(1000, "g", "rebalance", "eager", (None,) * 4, (), False, False)
    samples = (Sample(0, (4, None, None, None)), Sample(1000, (None, 4, None, None)), Sample(2000, (4, None, None, None)))
    history = History((Commit(0, "g", 0, 1, None), samples[0], step, samples[1], samples[2]), None, None)
    whole, cut = folded(history), folded(history, [3], saved=True)
    assert (cut.known, cut.lag) == (whole.known, whole.lag)
    assert whole.known == {("g", 2): []}


def long_life(rounds: int, *, samples: int, ends_after: int | None = None) -> History:
    """Steps and commits for the same partitions again and again, so many of them sampled; the last topic goes at some time."""
    chance, events, time = random.Random(7), list[Event](), 0
    for number in range(rounds):
        there = ends_after is None or number < ends_after
        for group in GROUPS:
            owners = [chance.choice((None, *range(len(MEMBERS)))) for _ in PLACES]
            if not there:
                owners[-1] = None
            protocol = chance.choice(("eager", "cooperative", "server"))
            time += 1000
            events.append(
                Step(time, group, "rebalance", protocol, tuple(owners), (chance.randrange(3),), bool(number % 2), False)
            )
            for place in range(len(PLACES) if there or number == ends_after else len(PLACES) - 1):
                time += 1000
                events.append(Commit(time, group, place, number if there or place < len(PLACES) - 1 else None, None))
        time += 1000
        if number < samples:
            ends = [number + 5 if chance.random() < 0.7 else None for _ in PLACES]
            events.append(Sample(time, (*ends[:-1], ends[-1] if there else None)))
    return History(tuple(events), None, None)


@pytest.mark.parametrize("updates", [False, True], ids=["chunks", "updates"])
@pytest.mark.parametrize(
    ("samples", "ends_after"), [(60, None), (0, None), (60, 6)], ids=["samples", "no samples", "a topic that goes"]
)
def test_the_state_does_not_grow_with_history(samples: int, ends_after: int | None, updates: bool) -> None:
    assert not _grows(long_life(60, samples=samples, ends_after=ends_after), updates=updates)


def test_the_state_does_not_grow_with_history_after_the_last_sample() -> None:
    assert not _grows(long_life(60, samples=6), updates=False)


def _grows(history: History, *, updates: bool) -> bool:
    sizes = folded(history, range(11, len(history.events), 11), saved=True, updates=updates).sizes
    return max(sizes[-10:]) > max(sizes[10:20]) * 1.2


def test_names_that_nobody_asks_for_any_more_are_not_kept() -> None:
    parts = PartitionStates()
    for name in ("gone", "left"):
        parts.names.members[name] = len(parts.names.members)
    parts.names.ids["gone"] = 0
    assert restored_partitions(decode_state(encode_state(state_of_partitions(parts)))).names == PartitionStates().names
