"""The findings in the terminal: ranked, whole, and never read as markup."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from counterpoise.errors import MissingExtraError
from counterpoise.report import print_findings
from tests.report import fleet


def printed(findings: list, width: int = 100, **more: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_findings(fleet.summary({"findings": findings}), findings, console, **more)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_finding_is_printed_with_group_evidence_cost_and_what_to_do():
    text = printed([fleet.finding(1, "orders", "critical")])
    for words in ("1. critical  orders  Moves of orders", "4 of 7 moves were needless", "12 partition-seconds"):
        assert words in text
    assert "do        Set\n" in "\n".join(line.strip() + "\n" for line in text.splitlines())
    assert "partition.assignment.strategy=cooperative-sticky" in text


def test_the_fleet_is_summed_up_first():
    text = printed([])
    assert text.index("groups") < text.index("Nothing found")
    for words in ("17  members", "24.2 k  records, 23,844 of them commits", "91.7%  replay fidelity: 11 of 12 generations"):
        assert words in text


def test_an_empty_recording_is_not_called_quiet():
    for part, told in (
        ("records", "Nothing was recorded"),
        ("groups", "these records hold no group, or none that was asked for"),
    ):
        summary = fleet.summary({"findings": []})
        summary[part]["total"] = 0
        shown = io.StringIO()
        print_findings(summary, [], Console(file=shown, width=100))
        text = shown.getvalue()
        assert told in text
        assert "quiet" not in text


def test_names_are_never_markup_nor_terminal_commands():
    text = printed([fleet.finding(1, "[red]x[/red]\x1b[2J", title="[link=http://a]b")])
    assert "[red]x[/red]\\u001b[2J" in text
    assert "[link=http://a]b" in text
    assert "\x1b" not in text


def test_what_is_not_printed_is_counted():
    text = printed([fleet.finding(rank, f"g{rank}") for rank in range(1, 8)], most=3)
    assert "g3" in text
    assert "g4" not in text
    assert "4 more findings: see the report" in text


def test_a_long_setting_is_folded_and_not_cut():
    setting = "partition.assignment.strategy=" + ",".join(["org.apache.kafka.clients.consumer.RangeAssignor"] * 3)
    text = printed([fleet.finding(1, "g", action=setting)], width=60)
    assert setting in "".join(line.strip() for line in text.splitlines())


def test_findings_may_be_objects_with_the_columns_as_fields():
    row = fleet.finding(1, "orders")
    assert printed([row]) == printed_objects([SimpleNamespace(**row)])


def printed_objects(findings: list) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    print_findings(fleet.summary({"findings": [vars(row) for row in findings]}), findings, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_rich_the_extra_is_named(monkeypatch):
    console = Console(file=io.StringIO())
    monkeypatch.setitem(sys.modules, "rich.padding", None)
    with pytest.raises(MissingExtraError, match=r"counterpoise\[report\]"):
        print_findings(fleet.summary({}), [], console)
