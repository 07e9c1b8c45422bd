"""Commands and samples of README.md and docs: those that need no cluster are run, the others are parsed; no page escapes.

Tutorials have a test of their own (tests/tutorials), and so have the queries of docs/sql.md (test_sql.py).
"""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from counterpoise import Group, simulate
from counterpoise.cli.app import app
from counterpoise.clients import kafka_python
from counterpoise.pipeline.findings import RULES
from counterpoise.pipeline.findings.policy import read_policy
from counterpoise.simulation.scenario_file import read_scenario
from tests.clients.test_rebalance_report import grown
from tests.pipeline.conftest import Audited

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md") if not path.name.startswith("tutorial-"))]
ALONE = {"diff", "explain", "export", "lead", "plan", "simulate", "sql", "strategies", "verify"}
"""Commands that need no cluster, no Spark and no other input than an audit's folder, a group's text, a plan or a leader's log."""


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command in a block of code, without comments and what a shell makes of the output."""
    for line in re.findall(
        r"^(?:    |\$ )(?:\w+=\S+ )*(?:counterpoise|spark-submit .*? audit\.py) (.*)",
        text(page).replace("\\\n", " "),
        re.MULTILINE,
    ):
        yield shlex.split(line.removesuffix("&"), comments=True)


def sample(page: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("page", PAGES)
def test_options_and_arguments_of_every_command_are_accepted(page: str) -> None:
    for name, *words in commands(page):
        command = app.get_command(click.Context(app), name)
        assert command is not None, name
        command.make_context(name, words[: words.index(">")] if ">" in words else words)


@pytest.mark.parametrize("page", [page for page in PAGES if {name for name, *_ in commands(page)} & ALONE])
def test_commands_that_need_no_cluster_run(page: str, audited: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, with the shop for every audit and one of its groups for every group."""
    monkeypatch.chdir(tmp_path)
    folders = {word for words in commands(page) for word in words if re.fullmatch(r"out/\w+", word)}
    Path("out").mkdir()
    for folder in folders:
        Path(folder).symlink_to(audited.result.out)
    Path("group.txt").write_text(GROUP, encoding="utf-8")
    Path("checkpoint/offsets").mkdir(parents=True)
    Path("checkpoint/offsets/17").write_text('v1\n{}\n{"orders": {"0": 42}}\n', encoding="utf-8")
    log_a_plan()
    Path("plan.json").write_text('{"a": {"orders": [0]}, "b": {"orders": [1, 2]}}', encoding="utf-8")
    for name, *words in commands(page):
        if name in ALONE:
            target = words.index(">") if ">" in words else len(words)
            given = ["order-service" if words[at - 1] == "--group" else word for at, word in enumerate(words[:target])]
            result = CliRunner().invoke(app, [name, *given])
            assert result.exit_code == 0 or (name, result.exit_code) == ("simulate", 1), (words, result.output)
            assert result.stdout or "COPY" in " ".join(words)
            if target < len(words):
                Path(words[target + 1]).write_text(result.stdout, encoding="utf-8")


def log_a_plan() -> None:
    """plans.jsonl of a leader that logs with the lines of docs/clients.md."""
    (code,) = re.findall(r"^```python\n(plans = .*?)^```$", text("docs/clients.md"), re.DOTALL | re.MULTILINE)
    plans = logging.getLogger("counterpoise.clients.plans")
    try:
        exec(code, {"logging": logging})
        grown(kafka_python, "StickyAssignor")
    finally:
        for handler in [*plans.handlers]:
            plans.removeHandler(handler)
            handler.close()
        plans.propagate = True
        plans.setLevel(logging.NOTSET)


GROUP = """GROUP   TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST        CLIENT-ID
orders  orders  0          118             120             2    one-5e1a     /10.0.0.11  one
orders  orders  1          97              97              0    one-5e1a     /10.0.0.11  one
orders  orders  2          105             105             0    two-b3f2     /10.0.0.12  two
orders  orders  3          131             131             0    two-b3f2     /10.0.0.12  two
"""


def test_the_sample_of_a_snapshot_is_a_group() -> None:
    group = Group.from_json(sample("docs/snapshot.md", "json"))
    assert (group.name, group.members[0].owned, (group.lag or {})["t1"][2]) == ("orders", {"t1": [0, 1]}, 7)


def test_the_sample_of_a_scenario_is_simulated() -> None:
    scenario = read_scenario(sample("docs/simulate.md", "toml"), toml=True)
    outcome = simulate(scenario, ["range"])["range"]
    assert (scenario.members[0].count, scenario.events[0].do, outcome.settled) == (4, "scale", True)


def test_the_sample_of_a_policy_is_read(tmp_path: Path) -> None:
    (tmp_path / "counterpoise.toml").write_text(sample("docs/findings.md", "toml"), encoding="utf-8")
    policy = read_policy(tmp_path / "counterpoise.toml", [rule.__name__ for rule in RULES])
    assert [one.finding for one in policy.accept] == ["dead_groups"]
    assert [one.name for one in policy.owner] == ["team-orders"]


def test_the_sample_of_an_entry_point_is_in_the_example() -> None:
    assert sample("docs/own-strategy.md", "toml") in text("examples/own_strategy/pyproject.toml")


def test_the_page_on_notebooks_does_what_it_says(audited: Audited) -> None:
    planned, about_audits = sample("docs/notebook.md", "python").split("\nresult = cp.audit(")
    names = {"text": GROUP}
    exec(compile(planned, "notebook.md", "exec"), names)
    assert names["cp"].verify(names["group"], names["plan"]) == []  # type: ignore[attr-defined]
    exec(compile(about_audits.split("\n", 1)[1], "notebook.md", "exec"), {"result": audited.result})


def test_every_sample_of_json_or_toml_is_one_of_these() -> None:
    found = {(page, language) for page in PAGES for language in re.findall(r"^```(\w+)", text(page), re.MULTILINE)}
    others = {(page, language) for page, language in found if language not in {"python", "sql", "console"}}
    tested = {
        ("docs/snapshot.md", "json"),
        ("docs/simulate.md", "toml"),
        ("docs/findings.md", "toml"),
        ("docs/own-strategy.md", "toml"),
    }
    assert others == tested
