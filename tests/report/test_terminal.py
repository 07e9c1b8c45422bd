"""The terminal: the verdict and the actions on one screen, all findings with --verbose, and names are never read as markup."""

from __future__ import annotations

import io
import re
from datetime import date
from typing import Any

from rich.console import Console

from counterpoise.report.terminal import print_audit, print_changes
from tests.report import fleet

Rows = list[dict[str, Any]]


def printed(actions: Rows, findings: Rows | None = None, width: int = 100, top: Rows | None = None, **changes: Any) -> str:
    """What is printed of these actions, with these findings if it is verbose; `top` are those of the summary."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_audit(fleet.summary({"findings": top or findings or []}, actions) | changes, console, findings)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_action_is_three_lines_with_what_it_saves_and_costs_and_its_first_five_groups() -> None:
    lines = printed([fleet.action(1, [f"g{at}" for at in range(8)])]).splitlines()
    at = lines.index("  1. warning  Switch 8 groups from range to cooperative-sticky")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == [
        "saves 12 of 100 stopped partition-seconds",
        "two rolling restarts; g0, g1, g2, g3, g4, and 3 more",
    ]


def test_ten_actions_and_the_worst_groups_with_long_names_fit_one_screen_of_100_x_40() -> None:
    """With what the command and the demo print below (two lines, and one) and the prompt."""
    names = [f"{'very-long-name-' * 8}{at}" for at in range(30)]
    todo = [fleet.action(at, names, "critical", title="Switch " + "x" * 200, saves="saves " + "y" * 200) for at in range(1, 11)]
    notes = [{"kind": kind, "n_groups": 3, "note": "n" * 200} for kind in ("low_fidelity", "incomplete_history", "polled")]
    top = [fleet.finding(at + 1, name, accepted_until="2027-01-01" if at < 3 else None) for at, name in enumerate(names)]
    lines = printed(todo, top=top, data_quality=notes).splitlines()
    assert len(lines) <= 40 - 4
    assert max(map(len, lines)) <= 100
    assert "data quality: 3 groups low fidelity; 3 groups incomplete history; 3 groups polled (see the report)" in lines
    assert sum(line.strip().startswith("saves yy") for line in lines) == 10
    assert lines[-6] == "worst groups"


def test_the_worst_groups_are_named_with_their_most_important_finding() -> None:
    top = [fleet.finding(1, "a", accepted_until="2027-01-01"), fleet.finding(2, "b", "critical"), fleet.finding(3, "b")]
    top += [fleet.finding(at, f"g{at}") for at in range(4, 12)]
    lines = printed([], top=top).splitlines()
    assert [line.strip() for line in lines[lines.index("worst groups") + 1 :]] == [
        "critical  b  Moves of b",
        *(f"warning  g{at}  Moves of g{at}" for at in range(4, 8)),
    ]


def test_the_verdict_and_the_figures_of_the_fleet_come_first() -> None:
    text = printed([fleet.action(1, ["a"]), fleet.action(2, ["b"], "critical")])
    assert text.startswith("0 groups made 0 rebalances in 10 min: 2 actions, 1 of them critical, would save 25 of 0 stopped")
    for words in ("17 members", "24.2 k records, 23,844 of them commits", "replay fidelity 91.7% (11 of 12)"):
        assert words in text


def test_verbose_prints_actions_with_their_configuration_and_all_findings() -> None:
    text = printed([fleet.action(1, ["orders"])], [fleet.finding(rank, f"g{rank}") for rank in range(1, 40)])
    for words in ("java (orders):", "partition.assignment.strategy=x", "groups  orders", "39. warning  g39  Moves of g39"):
        assert words in text
    for words in ("4 of 7 moves were needless", "12 partition-seconds", "partition.assignment.strategy=cooperative-sticky"):
        assert text.count(words) == 39


ACCEPTED: dict[str, Any] = {"accepted_until": date(2027, 1, 31), "accepted_reason": "spare [members]", "owner": "team\x1b"}


def test_an_accepted_finding_is_counted_and_says_until_when_why_and_whose_it_is() -> None:
    text = printed([], [fleet.finding(1, "a"), fleet.finding(2, "b", **ACCEPTED)])
    assert "1 finding accepted in counterpoise.toml" in text
    body = [line.split(None, 1) for line in text[text.index("  2. warning  b") :].splitlines()]
    shown = {words[0]: words[1].rstrip() for words in body if len(words) == 2}
    assert (shown["accepted"], shown["owner"]) == ("until 2027-01-31: spare [members]", "team\\u001b")
    assert "accepted" not in printed([], [fleet.finding(1, "a")])


def test_only_the_first_ones_of_some_severities_are_printed_and_the_others_counted() -> None:
    actions = [fleet.action(at, ["g"], severity) for at, severity in enumerate(("critical", "warning", "warning", "notice"), 1)]
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    rows = [fleet.finding(1, "x"), fleet.finding(2, "y", "notice")]
    print_audit(fleet.summary({}, actions), console, rows, severities=("critical", "warning"), most=2)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    heads = [line.split()[1] for line in text.splitlines() if re.match(r" +\d+\. ", line)]
    assert heads == ["critical", "warning", "warning"]
    assert text.splitlines()[-1] == "left out: 2 actions, 1 finding (--severity, --top)"
    assert "left out" not in printed(actions)


def test_worst_groups_and_changes_are_only_those_of_the_severities() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    rows = [fleet.finding(1, "a"), fleet.finding(2, "b", "critical"), fleet.finding(3, "c", "notice")]
    print_audit(fleet.summary({"findings": rows}, []), console, severities=("critical",))
    print_changes({"new": rows, "gone": rows[:1]}, console, 1, ("critical",))
    print_audit(fleet.summary({"findings": rows[:1]}, []), console, severities=("critical",))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    at = lines.index("worst groups")
    assert lines[at + 1 : at + 4] == [
        "     critical  b  Moves of b",
        "3 findings new, 1 finding gone since the last audit",
        "   + critical  b  Moves of b",
    ]
    assert lines.count("worst groups") == 1


def test_what_is_new_and_gone_is_a_line_for_each_finding() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    new = [fleet.finding(at, f"g{at}\n") for at in (1, 2, 3)]
    print_changes({"new": new, "gone": [fleet.finding(9, "old", "notice")]}, console, 2)
    print_changes({"new": [], "gone": []}, console, 2)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "3 findings new, 1 finding gone since the last audit",
        "   + warning  g1\\u000a  Moves of g1\\u000a",
        "   + warning  g2\\u000a  Moves of g2\\u000a",
        "   - notice  old  Moves of old",
        "no finding is new or gone since the last audit",
    ]


def test_an_empty_recording_is_not_called_quiet() -> None:
    assert "Nothing to do: the groups are balanced" in printed([], groups={"total": 1, "by_type": {"classic": 1}})
    for part, message in (
        ("records", "Nothing was recorded"),
        ("groups", "these records hold no group, or none that was asked for"),
    ):
        summary = fleet.summary({"findings": []})
        summary[part]["total"] = 0
        text = printed([], **{part: summary[part]})
        assert message in text
        assert "quiet" not in text


def test_a_finding_without_an_action_is_not_called_nothing() -> None:
    """As if the strategy is to be kept, or the finding is accepted."""
    text = printed([], top=[fleet.finding(1, "g")], groups={"total": 1, "by_type": {"classic": 1}})
    assert "1 finding, no action." in text
    assert "No action is advised; see the findings." in text
    assert "othing to do" not in text


def test_names_are_never_markup_nor_terminal_commands() -> None:
    for findings in (None, [fleet.finding(1, "[red]x[/red]\x1b[2J", title="[link=http://a]b")]):
        text = printed([fleet.action(1, ["[red]x[/red]\x1b[2J"], title="[link=http://a]b")], findings)
        assert "[red]x[/red]\\u001b[2J" in text
        assert "[link=http://a]b" in text
        assert "\x1b" not in text


def test_a_long_setting_is_folded_and_not_cut() -> None:
    setting = "partition.assignment.strategy=" + ",".join(["org.apache.kafka.clients.consumer.RangeAssignor"] * 3)
    text = printed([], [fleet.finding(1, "g", action=setting)], width=60)
    assert setting in "".join(line.strip() for line in text.splitlines())
