"""The backtest of `health`: Burrow's rules as described, scores counted by hand, and the results on the committed recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.health.__main__ import computed, in_page
from benchmarks.health.burrow import CURRENT, RULES, TUNED, Rules, alarms
from benchmarks.health.ours import OURS
from benchmarks.health.record import DATA
from benchmarks.health.recording import Alarm, Place, Trouble, read
from benchmarks.health.scores import score

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = Place("g", "t", 0)
Samples = list[tuple[float, int]]
Commits = Sequence[tuple[float, int | None]]


def every(seconds: float, offsets: list[int], begin: float = 0.0) -> Samples:
    """A commit or a sample of each offset, one every so many seconds."""
    return [(begin + seconds * at, offset) for at, offset in enumerate(offsets)]


def statuses(rules: Rules, commits: Commits, samples: Samples) -> list[tuple[str, float, float]]:
    found = alarms(rules, {PLACE: commits}, {("t", 0): samples}, samples[-1][0])
    assert {one.place for one in found} <= {PLACE}
    return [(one.kind, one.since, one.until) for one in found]


GROWING = every(5, [100 + 10 * at for at in range(60)])


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
@pytest.mark.parametrize(
    ("status", "commits"),
    [
        ("STALL", every(5, [90] * 60, 1)),
        ("WARN", every(5, [90 + 5 * at for at in range(60)], 1)),
        ("STOP", every(5, [90 + 10 * at for at in range(12)], 1)),
        ("REWIND", every(5, [90 + 10 * at for at in range(30)] + [0] + [11 * at for at in range(1, 30)], 1)),
        ("OK", every(5, [100 + 10 * at for at in range(60)], 1)),
    ],
    ids=["same offset", "lag grows", "no commits", "back to the begin", "keeps up"],
)
def test_each_status_comes_of_its_rule(rules: Rules, status: str, commits: Commits) -> None:
    found = statuses(rules, commits, GROWING)
    kinds = {kind for kind, _, until in found if until > 60}
    assert kinds - {"WARN"} == {status} - {"WARN", "OK"}  # a lag that stays the same is a warning, too
    assert ("WARN" in kinds) == (status in ("WARN", "STOP", "REWIND"))


def test_a_stop_is_noticed_only_when_it_has_lasted_as_long_as_the_window() -> None:
    """Reported as linkedin/Burrow#303, first case: a commit each ten minutes makes a window of ninety."""
    commits = every(600, [100 * at + 90 for at in range(11)], 1)
    samples = every(60, [100 + 10 * at for at in range(400)])
    assert [since for kind, since, _ in statuses(TUNED, commits, samples) if kind == "STOP"] == [6000 + 5400 + 60]


def test_lag_of_one_in_a_quiet_topic_is_a_stop_unless_it_is_allowed() -> None:
    """A transaction's marker; reported as linkedin/Burrow#570."""
    commits = every(5, [10 * at + 9 for at in range(20)], 1)
    samples = every(5, [10 * (at + 1) for at in range(20)]) + every(5, [200] * 100, 100)
    assert {kind for kind, since, _ in statuses(CURRENT, commits, samples) if since > 100} == {"STOP"}
    assert statuses(TUNED, commits, samples) == []


def test_a_window_in_which_the_lag_fell_once_is_ok_however_much_it_grows() -> None:
    """Reported as linkedin/Burrow#453 and #738."""
    lags = [20 * at - (30 if at % 7 == 0 else 0) for at in range(1, 60)]
    commits = [(5 * at + 1.0, 1000 * at + 100 - lag) for at, lag in enumerate(lags, 1)]
    samples = every(5, [1000 * at + 100 for at in range(61)])
    assert statuses(TUNED, commits, samples) == []


def test_a_partition_whose_offset_was_deleted_has_no_status_any_more() -> None:
    stalled: Commits = [*every(5, [90] * 30, 1), (160.0, None)]
    assert [(kind, until) for kind, _, until in statuses(TUNED, stalled, GROWING)] == [("STALL", 160.0)]


def trouble(since: float, until: float, partition: int | None = 0) -> Trouble:
    return Trouble("g", "stalled", partition, since, until, ("stopped",))


def test_alarms_are_true_false_late_or_missing() -> None:
    troubles = [trouble(100, 400), trouble(1000, 1200), Trouble("h", "unowned", None, 0, 50)]
    other = Place("g", "t", 1)
    given = [
        Alarm(PLACE, "STALL", 130, 200),
        Alarm(PLACE, "STOP", 210, 500),  # one alarm with the one before it, and 30 s too long
        Alarm(other, "STALL", 130, 200),
        Alarm(Place("h", "t", 7), "WARN", 20, 60),
    ]
    found = score(given, troubles, {"STALL": ("stalled",), "STOP": ("stopped",), "WARN": ("falling_behind",)}, late=10)
    assert [(one.after, one.named) for one in found.found] == [(30, 30), (None, None), (20, None)]
    assert [(one.place, one.since, one.until) for one in found.false] == [(PLACE, 470, 500), (other, 130, 200)]
    assert (found.precision, found.recall) == (2 / 4, 2 / 3)


def test_brief_trouble_need_not_be_found_and_explains_an_alarm() -> None:
    brief = Trouble("g", "stopped", None, 100, 140, brief=True)
    assert (score([], [brief], {}, 5).found, score([Alarm(PLACE, "STOP", 120, 150)], [brief], {}, 5).false) == ((), ())


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return computed(read(DATA))


def test_the_page_has_these_results(figures: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "health.md").read_text(encoding="utf-8")
    assert in_page(page, figures) == page


@pytest.mark.parametrize("spacing", ["5", "30"])
def test_all_trouble_is_found_and_nothing_is_accused_without_a_cause(figures: dict[str, Any], spacing: str) -> None:
    ours = figures["spacings"][spacing][OURS]
    assert (ours["precision"], ours["recall"], ours["accused"]) == (1, 1, {})


@pytest.mark.parametrize("spacing", ["5", "30"])
def test_every_trouble_has_its_name_no_later_than_by_burrow(figures: dict[str, Any], spacing: str) -> None:
    of_rules = figures["spacings"][spacing]
    late = []
    for trouble, ours in of_rules[OURS]["named_after_s"].items():
        assert ours is not None, trouble
        theirs = [one["named_after_s"][trouble] for name, one in of_rules.items() if name != OURS]
        late += [(trouble, ours, least) for least in theirs if least is not None and least < ours]
    assert late == []


def test_the_only_alarm_of_another_name_that_burrow_gives_sooner_is_that_of_the_page(figures: dict[str, Any]) -> None:
    sooner = {
        trouble
        for of_rules in figures["spacings"].values()
        for trouble, ours in of_rules[OURS]["after_s"].items()
        for one in of_rules.values()
        if (theirs := one["after_s"][trouble]) is not None and theirs < ours
    }
    assert sooner == {"poison-commits 0 stalled 300"}


def test_in_recordings_of_other_tests_all_trouble_is_found_and_no_more_groups_are_accused(figures: dict[str, Any]) -> None:
    ours = figures["elsewhere"]["rules"][OURS]
    assert ours["found"] == ours["troubles"]
    assert set(ours["accused"]) <= {"by-hand"}
    assert set(ours["accused_at_restart"]) <= {"payment-flagger"}
