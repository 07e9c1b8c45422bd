"""Eras of groups by hand: what lasts is a change, what returns is none, and each side has the figures of its own time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpoise.pipeline.fold.changes import Changes, certainty, change_rows, verdict_of
from counterpoise.pipeline.history.fold_state import decode_state, encode_state
from tests.work import lines_of

MINUTE, HOUR = 60_000_000, 3_600_000_000
END = 24 * HOUR


def step(n: int = 4, **more: Any) -> dict[str, Any]:
    about = {"kind": "rebalance", "protocol_kind": "eager", "protocol": "range", "n_static": 0, "n_moved": 2}
    return {**about, "n_members": n, "library": "java", "timeout": 300_000, **more}


def changes(*steps: tuple[int, dict[str, Any]]) -> Changes:
    """The eras of a group after steps, saved and restored before each."""
    found = Changes()
    for at, one in steps:
        found = Changes(decode_state(encode_state(found.state)))
        member = {"rebalance_timeout_ms": one["timeout"], "session_timeout_ms": None, "library": one["library"]}
        found.add_step(one, at, [member] * one["n_members"])
    return found


def rows(*steps: tuple[int, dict[str, Any]], until: int = END) -> list[dict[str, Any]]:
    return list(change_rows(changes(*steps), "g", until))


COOPERATIVE: dict[str, Any] = {"protocol_kind": "cooperative", "protocol": "cooperative-sticky"}


@pytest.mark.parametrize(
    ("new", "kind", "before", "after"),
    [
        (step(protocol="sticky"), "strategy", "strategy range", "strategy sticky"),
        (
            step(**COOPERATIVE),
            "protocol",
            "protocol eager, strategy range",
            "protocol cooperative, strategy cooperative-sticky",
        ),
        (step(timeout=600_000), "settings", "rebalance timeout ms 300000", "rebalance timeout ms 600000"),
        (
            step(**COOPERATIVE, timeout=600_000),
            "protocol",
            "protocol eager, strategy range, rebalance timeout ms 300000",
            "protocol cooperative, strategy cooperative-sticky, rebalance timeout ms 600000",
        ),
        (step(library="librdkafka"), "settings", "library java", "library librdkafka"),
        (step(n_static=4), "settings", "static members none", "static members all"),
        (step(7), "size", "members 4", "members 7"),
    ],
)
def test_a_state_that_lasts_is_a_change(new: dict[str, Any], kind: str, before: str, after: str) -> None:
    (row,) = rows((0, step()), (12 * HOUR, new))
    assert (row["kind"], row["state_before"], row["state_after"]) == (kind, before, after)
    assert (row["began"], row["at"]) == (12 * HOUR, 12 * HOUR)
    assert [row[side]["seconds"] for side in ("before", "after")] == [12 * 3600] * 2


def test_a_change_is_one_of_the_assignor_also_if_the_broker_used_its_default_before() -> None:
    modern: dict[str, Any] = {"protocol_kind": "server", "protocol": None}
    (row,) = rows((0, step(**modern)), (12 * HOUR, step(**modern | {"protocol": "range"}, timeout=600_000)))
    assert row["kind"] == "strategy"
    assert row["state_after"] == "rebalance timeout ms 600000, strategy range"


@pytest.mark.parametrize(
    "steps",
    [
        [(12 * HOUR, step(3)), (12 * HOUR + 9 * MINUTE, step(4))],
        [(12 * HOUR, step(3)), (12 * HOUR + MINUTE, step(5)), (12 * HOUR + 2 * MINUTE, step(4))],
        [(12 * HOUR, step(0, kind="emptied")), (14 * HOUR, step(4))],
        [(END - 9 * MINUTE, step(3))],
        [(1, step(5)), (2, step(4))],
    ],
    ids=["one restarts", "one after the other", "all stop for two hours", "too new to last", "at once back"],
)
def test_a_group_that_returns_to_its_state_has_not_changed(steps: list[tuple[int, dict[str, Any]]]) -> None:
    assert rows((0, step()), *steps) == []


def test_an_era_goes_on_after_a_state_that_did_not_last() -> None:
    def returned(hour: int, n: int) -> list[tuple[int, dict[str, Any]]]:
        return [(hour * HOUR, step(3)), (hour * HOUR + MINUTE, step(n))]

    found = changes((0, step()), *returned(2, 4), (12 * HOUR, step(8)), *returned(14, 8))
    found.add_lag(np.array([HOUR, 11 * HOUR, 13 * HOUR, 20 * HOUR]), np.array([1, 5, 2, 6]))
    (row,) = change_rows(found, "g", END)
    for side, peak in (("before", 5), ("after", 6)):
        assert [row[side][name] for name in ("seconds", "samples", "lag_peak")] == [12 * 3600, 2, peak]
    assert (row["before"]["rebalances"], row["after"]["rebalances"]) == (3, 2)


def test_the_rebalances_of_the_change_itself_are_on_neither_side() -> None:
    """A rolling restart, in which members differ, from hour 10 to half past: longer than a state has to last."""
    rolling = [(10 * HOUR + at * 2 * MINUTE, step(library="java, librdkafka")) for at in range(15)]
    late = (20 * HOUR, step(library="librdkafka", n_moved=5))
    (row,) = rows((0, step()), (HOUR, step()), *rolling, (10 * HOUR + 30 * MINUTE, step(library="librdkafka")), late)
    assert (row["began"], row["at"]) == (10 * HOUR, 10 * HOUR + 30 * MINUTE)
    assert [(row[side]["rebalances"], row[side]["moved"]) for side in ("before", "after")] == [(2, 4), (1, 5)]


def test_three_rebalances_make_a_state_last_within_minutes() -> None:
    steps = [(12 * HOUR + at * MINUTE, step(6)) for at in range(4)]
    found = rows((0, step()), *steps, (12 * HOUR + 5 * MINUTE, step(4)))
    assert [row["state_after"] for row in found] == ["members 6", "members 4"]
    assert rows((0, step()), *steps[:3], (12 * HOUR + 5 * MINUTE, step(4))) == []


def test_a_state_before_the_first_that_lasts_never_was_an_era() -> None:
    assert rows((0, step(1)), (MINUTE, step(2)), (2 * MINUTE, step(3)), (3 * MINUTE, step(4))) == []


def test_time_without_members_does_not_make_a_state_last() -> None:
    """Runs of a batch job: its members come and go one after the other within seconds."""
    sizes = [(0, 2), (1, 4), (7_200, 2), (7_201, 1), (7_202, 0)]
    runs = [(day * 24 * HOUR + at * 1_000_000, step(n)) for day in range(3) for at, n in sizes]
    assert rows(*runs, until=72 * HOUR) == []


def test_stops_lag_and_time_without_members_count_for_the_era_they_fall_into() -> None:
    found = changes(
        (0, step()), (2 * HOUR, step(0, kind="emptied")), (4 * HOUR, step()), (12 * HOUR, step(8)), (13 * HOUR, step(8))
    )
    found.add_stops(np.array([0, 12 * HOUR, 13 * HOUR]), np.array([5_000_000, 7_000_000, 1_000_000]))
    found.add_lag(np.array([1, 11 * HOUR, 12 * HOUR, 14 * HOUR]), np.array([10, 30, 500, 4]))
    (row,) = change_rows(found, "g", END)
    assert row["before"]["seconds"] == 10 * 3600
    figures = ("rebalances", "stopped_seconds", "samples", "lag_mean", "lag_peak")
    assert [row["before"][name] for name in figures] == [2, 5.0, 2, 20.0, 30]
    assert [row["after"][name] for name in figures] == [1, 1.0, 1, 4.0, 4]
    assert row["before"]["rebalances_per_day"] == pytest.approx(2 * 2.4)


def test_lag_that_grows_while_a_group_has_no_members_belongs_to_no_era() -> None:
    """Nobody runs the group from hour 2 to 6, and from hour 20 on; a sample every hour."""
    hours, empty = np.arange(24), step(0, kind="emptied")
    lag = np.where((hours >= 20) | ((hours >= 2) & (hours < 6)), 9_000, 10)
    steps = [(0, step()), (2 * HOUR, empty), (3 * HOUR, empty), (6 * HOUR, step()), (12 * HOUR, step(8)), (20 * HOUR, empty)]
    found = changes(*steps)
    for some in np.split(hours, [4, 9, 22]):
        found = Changes(decode_state(encode_state(found.state)))
        found.add_lag(some * HOUR, lag[some])
        found.forget(int(some[-1]) * HOUR)
    (row,) = change_rows(found, "g", END)
    assert [(row[side]["samples"], row[side]["lag_peak"]) for side in ("before", "after")] == [(8, 10), (7, 10)]
    assert found.state["empty"] == [20 * HOUR], "what is over is forgotten"


def test_a_clock_that_is_set_back_does_not_hide_samples_of_members() -> None:
    """The step with members at hour 30 was before that of hour 4."""
    steps = [(0, step()), (2 * HOUR, step(0, kind="emptied")), (30 * HOUR, step()), (4 * HOUR, step()), (12 * HOUR, step(8))]
    found, hours = changes(*steps), np.arange(24)
    found.add_lag(hours * HOUR, hours)
    (row,) = change_rows(found, "g", END)
    assert [row[side]["samples"] for side in ("before", "after")] == [10, 11]


def test_rates_need_an_hour_and_unknown_stops_are_not_none() -> None:
    (row,) = rows((0, step()), (30 * MINUTE, step(8)), until=3 * HOUR)
    assert row["before"]["rebalances_per_day"] is None
    assert row["after"]["rebalances_per_day"] == 0.0
    assert [row[side]["stopped_seconds"] for side in ("before", "after")] == [None, None]
    assert row["verdict"] == "unsure"


def many(n: int, first: int, last: int, **more: Any) -> list[tuple[int, dict[str, Any]]]:
    return [(first + (last - first) * at // n, step(**more)) for at in range(n)]


@pytest.mark.parametrize(
    ("before", "after", "verdict", "sure"),
    [(40, 4, "better", 1.0), (4, 40, "worse", 1.0), (20, 21, "same", 0.0), (1, 2, "unsure", 0.0), (9, 1, "better", 0.98)],
)
def test_the_verdict_is_that_of_rebalances_a_day_where_no_stop_is_known(
    before: int, after: int, verdict: str, sure: float
) -> None:
    new = many(after + 1, 12 * HOUR, END, **COOPERATIVE)
    (row,) = rows(*many(before, 0, 12 * HOUR), *new)
    assert (row["before"]["rebalances"], row["after"]["rebalances"]) == (before, after)
    assert (row["verdict"], row["certainty"]) == (verdict, pytest.approx(sure, abs=0.02))


@pytest.mark.parametrize(
    ("after", "verdict"), [(79.9, "better"), (80.0, "same"), (125.0, "same"), (125.1, "worse"), (None, "unsure")]
)
def test_a_change_below_four_fifths_or_above_five_quarters_is_one(after: float | None, verdict: str) -> None:
    """As docs/definitions.md says."""
    before, now = (
        {"stopped_seconds_per_day": stopped, "rebalances_per_day": None, "rebalances": 3, "samples": 0, "seconds": 3600}
        for stopped in (100.0, after)
    )
    assert verdict_of("stopped_seconds_per_day", before, now, 0.0) == verdict


def test_the_certainty_is_that_of_an_exact_test() -> None:
    """Nine of ten on the first of two equal halves: p = 2 x 11 / 1024."""
    (row,) = rows(*many(9, 0, 12 * HOUR), *many(2, 12 * HOUR, END, **COOPERATIVE))
    assert row["certainty"] == pytest.approx(1 - 22 / 1024, abs=1e-4)


def test_only_the_last_twenty_changes_of_a_kind_are_remembered() -> None:
    steps = [(at * HOUR, step(4 + at)) for at in range(50)]
    found = rows(*steps, until=51 * HOUR)
    assert [row["state_after"] for row in found] == [f"members {4 + at}" for at in range(30, 50)]
    assert len(encode_state(changes(*steps).state)) <= len(encode_state(changes(*steps[:25]).state)) + 200


def test_no_loop_over_the_rebalances_of_two_eras_says_how_sure_a_change_is() -> None:
    few, many = (lines_of(lambda n=n: certainty((n, 3600.0), (2 * n, 3600.0))) for n in (5, 500))  # type: ignore[misc]
    assert few == many
