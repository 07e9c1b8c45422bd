"""The soak of the assignors in small: its first groups keep every law, and each kind of planted fault is found."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors import registry
from counterpoise.assignors.registry import strategies
from counterpoise.errors import ProblemError
from counterpoise.planning.lead import lead
from counterpoise.snapshot import Group, Member
from tests.soak.groups import EXTREMES, drawn, shuffled
from tests.soak.laws import INPUT_EVERY, faults

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
QUICK = ["one topic of 100,000 partitions, 100 members", "names of 64 kB"]


def test_every_strategy_keeps_its_laws_on_the_first_groups_of_the_soak() -> None:
    for number in range(2_000 if LONG else 9 * INPUT_EVERY):
        assert faults(drawn(number), number) == [], f"group {number}"


@pytest.mark.parametrize("name", EXTREMES if LONG else QUICK)
def test_every_strategy_keeps_its_laws_on_an_extreme_group(name: str) -> None:
    group = EXTREMES[name]()
    assert faults(group, 0, strategies() if LONG else ("range", "cooperative-sticky"), rounds=False) == []


def test_the_groups_are_of_every_kind() -> None:
    """Empty, of one member, with racks, weights, contested claims, empty, hostile and long names, with and without lag."""
    groups = [drawn(number) for number in range(300)]
    problems = [group.problem() for group in groups]
    assert (
        {min(problem.n_members, 2) for problem in problems} == {min(problem.n_partitions, 2) for problem in problems} == {0, 1, 2}
    )
    assert {problem.racks is None for problem in problems} == {problem.lag is None for problem in problems} == {True, False}
    assert max(int(problem.capacity.max(initial=1)) for problem in problems) == 2**31 - 1
    assert any((problem.holder == -2).any() for problem in problems)
    names = {name for group in groups for name in (*group.member_ids, *group.topic_names)}
    assert "" in names
    assert any("\x1b" in name for name in names)
    assert {249, 32_767, 65_536} <= {len(name) for name in names}


def planted(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Strategy `sticky` with a fault: `change` gets its owners and the problem."""
    sticky = registry._BY_NAME["sticky"]
    kernel = lambda problem, **options: change(sticky.kernel(problem, **options).copy(), problem)  # noqa: E731
    fields = {name: getattr(sticky, name) for name in ("name", "protocols", "guarantee", "options", "reads")}
    monkeypatch.setitem(registry._BY_NAME, "sticky", type(sticky)(kernel=kernel, **fields))


def lazy(owner: Any, problem: Any) -> Any:
    """Everything goes to the first member that may have it."""
    return np.where(owner >= 0, problem.subscriber[problem.subscriber_start[:-1]][0], owner).astype(np.int32)


def failing(*_: Any) -> Any:
    raise IndexError("index 7 is out of bounds")


GROUP = Group({"t": 6}, [Member("b", ["t"], {"t": [0, 1, 2]}, 1), Member("a", ["t"], {"t": [3, 4, 5]}, 1)], {"t": [1] * 6})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lazy, "sticky: balanced: "),
        (lambda owner, _: owner[::-1].copy(), "sticky: sticky: "),
        (lambda owner, _: np.where(np.arange(len(owner)) == 2, -1, owner).astype(np.int32), "sticky: complete: "),
        (failing, "sticky: IndexError: index 7"),
    ],
)
def test_a_planted_fault_of_a_strategy_is_found(monkeypatch: pytest.MonkeyPatch, change: Any, fault: str) -> None:
    assert faults(GROUP, 0, ("sticky",)) == []
    planted(monkeypatch, change)
    assert any(line.startswith(fault) for line in faults(GROUP, 0, ("sticky",)))


def test_codes_that_depend_on_the_order_of_the_input_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    number = next(number for number in range(99) if shuffled(GROUP, number).members[0].id != "b")
    monkeypatch.setattr("counterpoise.snapshot.group.java_order", list)
    fresh = Group(GROUP.topics, GROUP.members, GROUP.lag)
    assert "another order of the input gives other codes" in faults(fresh, number, ())


def test_an_error_about_the_group_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every drawn group can be planned: only `lag` without lag refuses."""

    def refuse(*_: Any) -> Any:
        raise ProblemError("t: too odd")

    planted(monkeypatch, refuse)
    assert faults(GROUP, 0, ("sticky",)) == ["sticky: ProblemError: t: too odd"]


def test_members_in_another_order_that_get_other_bytes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def other(*words: Any) -> Any:
        calls.append(words)
        return {**lead(*words), "a": b""} if len(calls) == 2 else lead(*words)

    monkeypatch.setattr("tests.soak.laws.lead", other)
    assert faults(GROUP, 0, ("sticky",)) == ["sticky: members in another order get other bytes"]
