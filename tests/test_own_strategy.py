"""A strategy of another package: found by its entry point, checked by `counterpoise.testing`, run in a consumer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors import registry
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, EVERYTHING, Assignor, Strategy
from counterpoise.errors import OptionError
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem
from counterpoise.testing import check_strategy, random_problem
from tests.clients.hosts import Answer, host_member

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_strategy"
MAIN = ("-m", "counterpoise")
GROUP = {"topics": {"t": 4}, "members": [{"id": "a", "topics": ["t"]}, {"id": "b", "topics": ["t"]}]}


def installed(folder: Path, points: dict[str, str]) -> Path:
    """What an installation of a package with these entry points leaves behind."""
    about = folder / "own-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (about / "entry_points.txt").write_text("\n".join(["[counterpoise.strategies]", *lines, ""]))
    return folder


def run(site: Path, *words: str, example: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(example), *sys.path])
    return subprocess.run(
        [sys.executable, *words], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_the_example_package_is_built_and_installed_plans_and_is_listed(tmp_path: Path) -> None:
    """By pip, from a copy of its sources alone; its own test passes there."""
    site, source = tmp_path / "site", tmp_path / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(site), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in site.glob("*.py")} == {"least_loaded.py", "least_loaded_consumer.py"}
    (tmp_path / "group.json").write_text(json.dumps(GROUP))
    plan = run(site, *MAIN, "plan", str(tmp_path / "group.json"), "-s", "least-loaded", "--json", example=site)
    assert json.loads(plan.stdout)["assignment"] == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}, plan.stderr
    listed = run(site, "-c", "import counterpoise; print(counterpoise.strategies())", example=site).stdout
    assert listed.startswith("('range', ")
    assert listed.endswith("'lag-sticky', 'least-loaded')\n")
    tested = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(source / "test_least_loaded.py"), example=site)
    assert (tested.returncode, "1 passed" in tested.stdout) == (0, True), tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("nowhere:STRATEGY", "cannot be loaded (No module named 'nowhere'); repair or remove its package"),
        ("least_loaded:NOTHING", "cannot be loaded (module 'least_loaded' has no attribute 'NOTHING')"),
        ("broken:STRATEGY", "cannot be loaded (name 'nothing' is not defined); repair or remove its package"),
        ("least_loaded:assign", "expected a Strategy of this name, got <function assign"),
        ("least_loaded:LEAST_LOADED", "expected a Strategy of this name, got Strategy(name='least-loaded'"),
    ],
)
def test_a_broken_package_is_one_line_and_leaves_built_in_strategies_alone(tmp_path: Path, point: str, message: str) -> None:
    site = installed(tmp_path, {"mine": point})
    (site / "broken.py").write_text("nothing")
    (tmp_path / "group.json").write_text(json.dumps(GROUP))
    plan = (*MAIN, "plan", str(tmp_path / "group.json"), "-s")
    assert run(site, *plan, "sticky").returncode == 0
    done = run(site, *plan, "mine")
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


def test_a_package_neither_hides_the_strategies_of_others_nor_replaces_one(tmp_path: Path) -> None:
    site = installed(tmp_path, {"least-loaded": "least_loaded:LEAST_LOADED", "other": "nowhere:STRATEGY"})
    plan = run(site, "-c", "import counterpoise; counterpoise.assignor('least-loaded')")
    assert plan.returncode == 0, plan.stderr
    listed = run(site, "-c", "import counterpoise; counterpoise.strategies()").stderr
    assert "'other' of the entry point nowhere:STRATEGY" in listed
    fake = (
        "from dataclasses import replace\nfrom least_loaded import LEAST_LOADED\nSTICKY = replace(LEAST_LOADED, name='sticky')\n"
    )
    (site / "fake.py").write_text(fake)
    (site / "own-1.0.dist-info" / "entry_points.txt").write_text("[counterpoise.strategies]\nsticky = fake:STICKY\n")
    taken = run(site, "-c", "import counterpoise; counterpoise.strategies()").stderr
    assert "'sticky' of the entry point fake:STICKY (counterpoise.strategies): the name is taken; rename it or remove" in taken


def test_a_package_may_register_what_its_entry_point_names(tmp_path: Path) -> None:
    site = installed(tmp_path, {"least-loaded": "least_loaded:LEAST_LOADED"})
    code = (
        "import counterpoise, least_loaded; from counterpoise.assignors import register; register(least_loaded.LEAST_LOADED); "
        "print(counterpoise.strategies()[-1])"
    )
    assert run(site, "-c", code).stdout == "least-loaded\n"


def test_the_example_keeps_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import test_least_loaded  # type: ignore[import-not-found]

    test_least_loaded.test_the_strategy_keeps_the_laws()


def test_the_example_leads_a_group_of_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import least_loaded  # type: ignore[import-not-found]
    from least_loaded_consumer import LeastLoadedAssignor  # type: ignore[import-not-found]

    monkeypatch.setattr(registry, "_BY_NAME", registry._BY_NAME | {"least-loaded": least_loaded.LEAST_LOADED})
    answer = Answer({"t": 4})
    members = [host_member("kafka_python", name, ["t"], [LeastLoadedAssignor()], answer) for name in "ab"]
    given = members[0].lead("least-loaded", 1, [(each.id, each.join()["least-loaded"], None) for each in members])
    for each in members:
        each.complete("least-loaded", 1, given[each.id])
    assert [each.owned() for each in members] == [{("t", 0), ("t", 2)}, {("t", 1), ("t", 3)}]


def first_subscriber(problem: Problem) -> Int32:
    return subscriber_at(problem, problem.subscriber_start[:-1])


def subscriber_at(problem: Problem, place: Any) -> Int32:
    some = np.diff(problem.subscriber_start) > 0
    one = np.full(problem.n_topics, UNOWNED, np.int32)
    one[some] = problem.subscriber[place[some]]
    return np.repeat(one, np.diff(problem.topic_start))


def flipped(problem: Problem) -> Int32:
    """The first subscriber, or the last one if the first holds the partition."""
    first, last = first_subscriber(problem), subscriber_at(problem, problem.subscriber_start[1:] - 1)
    return np.where(problem.holder == first, last, first).astype(np.int32)


def kept(problem: Problem) -> Int32:
    return np.where(problem.previous_owner >= 0, problem.previous_owner, first_subscriber(problem)).astype(np.int32)


def missing(problem: Problem) -> Int32:
    owner = first_subscriber(problem)
    owner[:1] = UNOWNED
    return owner


_ARRAY = np.empty(100, np.int32)


def in_one_array(problem: Problem) -> Int32:
    _ARRAY[: problem.n_partitions] = first_subscriber(problem)
    return _ARRAY[: problem.n_partitions]


def remembered(_: Problem) -> Assignor:
    plans: list[Int32] = []

    def plan(problem: Problem) -> Int32:
        plans.append(kept(problem))
        return plans[0]

    return plan


calls = iter(range(10**9))

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "pure": (
        {"kernel": lambda problem: np.roll(first_subscriber(problem), next(calls) % 2)},
        "pure: the same group planned twice",
    ),
    "pure, type": ({"kernel": lambda problem: first_subscriber(problem).astype(np.int64)}, "pure: owners are int64"),
    "pure, kind": ({"kernel": lambda problem: [0] * problem.n_partitions}, "pure: owners are a list, int32 ("),
    "pure, one array": ({"kernel": in_one_array}, "pure: two calls return the same writable array"),
    "valid": ({"kernel": lambda problem: np.zeros(problem.n_partitions, np.int32)}, "valid: "),
    "complete": ({"kernel": missing}, "complete: "),
    "reads": ({"kernel": kept}, "reads: the plan depends on previous_owner, which Strategy.reads does not list"),
    "prepare": ({"kernel": kept, "reads": EVERYTHING, "prepare": lambda problem: lambda _: kept(problem)}, "prepare: "),
    "prepare, shared": ({"kernel": kept, "reads": EVERYTHING, "prepare": remembered}, "prepare: "),
    "two-rounds": (
        {"kernel": flipped, "reads": EVERYTHING, "protocols": (COOPERATIVE,)},
        "two-rounds: round two revokes ",
    ),
}


@pytest.mark.parametrize(("fields", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_strategy_that_breaks_a_law_is_found(fields: dict[str, Any], fault: str) -> None:
    given: dict[str, Any] = {"name": "mine", "protocols": (EAGER,), "guarantee": "", "reads": frozenset()} | fields
    with pytest.raises(AssertionError) as raised:
        check_strategy(Strategy(**given))
    head, *found = str(raised.value).splitlines()
    assert head.startswith("strategy 'mine' on counterpoise.testing.random_problem(")
    assert any(line.startswith(fault) for line in found), found


def depends_on(problem: Problem, name: str) -> Int32:
    """The first or the last subscriber, by a sum over one array of the problem."""
    values = problem.racks.replica_rack if name == "racks" and problem.racks is not None else getattr(problem, name)
    even = int(np.dot(np.arange(1, len(values) + 1), values)) % 2 == 0
    return subscriber_at(problem, problem.subscriber_start[:-1] if even else problem.subscriber_start[1:] - 1)


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_every_array_that_reads_leaves_out_is_changed(name: str) -> None:
    with pytest.raises(AssertionError, match=f"reads: the plan depends on {name}, which Strategy.reads does not list"):
        check_strategy(Strategy("mine", (EAGER,), lambda problem: depends_on(problem, name), "", reads=frozenset()))


def test_further_laws_are_checked_if_they_are_named() -> None:
    one = Strategy("mine", (EAGER,), first_subscriber, "", reads=frozenset())
    check_strategy(one, groups=50)
    check_strategy(one, laws=["idempotent"], groups=50)
    with pytest.raises(AssertionError, match="balanced: "):
        check_strategy(one, laws=["balanced"])
    with pytest.raises(AssertionError, match="idempotent: "):
        check_strategy(Strategy("mine", (EAGER,), flipped, ""), laws=["idempotent"])
    for laws, message in (
        (["fairest"], "'fairest' is no law of a target"),
        (["withheld"], "'withheld' is no law"),
        ("balanced", "a list"),
    ):
        with pytest.raises(OptionError, match=message):
            check_strategy(one, laws=laws, groups=0)


def test_an_error_of_the_strategy_says_for_which_group() -> None:
    def failing(problem: Problem) -> Int32:
        raise ZeroDivisionError(problem.n_members)

    with pytest.raises(ZeroDivisionError) as raised:
        check_strategy(Strategy("mine", (EAGER,), failing, ""))
    assert raised.value.__notes__ == ["strategy 'mine' on counterpoise.testing.random_problem(0):"]


def test_the_random_groups_are_of_every_kind() -> None:
    problems = [random_problem(number) for number in range(200)]
    assert {problem.n_members for problem in problems} == set(range(8))
    assert any(not problem.n_partitions for problem in problems)
    assert any((problem.holder == CONTESTED).any() for problem in problems)
    assert all(problem.lag is not None and problem.racks is not None for problem in problems)
    assert any((problem.holder != problem.previous_owner).any() for problem in problems)
    assert any((np.diff(problem.subscriber_start) == 0).any() for problem in problems)
    assert {int(problem.capacity.max(initial=1)) for problem in problems} == {1, 2, 3}
