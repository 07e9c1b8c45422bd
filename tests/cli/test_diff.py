"""`counterpoise diff`: what is new, gone, changed and worse between two audits of an invented fleet."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.report import fleet

from counterpoise.cli.app import app

DAY = 86_400_000_000
BEGIN = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1e6)


def audit(
    out: Path, groups: dict[str, dict[str, Any]], found: list[dict[str, Any]] | None = None, days: int = 1, **more: Any
) -> Path:
    """An audit of so many days; groups begin with it."""
    rows = [fleet.report_row(name, first_ts=BEGIN, **changes) for name, changes in groups.items()]
    fleet.write(out, more.pop("actions", ()), group_report=rows, findings=found or [])
    summary = json.loads((out / "summary.json").read_text())
    times = {"from": BEGIN, "to": BEGIN + days * DAY}
    summary |= {name: datetime.fromtimestamp(at / 1e6, UTC).isoformat() for name, at in times.items()}
    (out / "summary.json").write_text(json.dumps(summary))
    return out


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, words)])


def compared(one: Path, two: Path) -> tuple[dict[str, Any], int]:
    result = run(one, two, "--json")
    return json.loads(result.stdout), result.exit_code


BUSY = {"rebalances": 40, "stopped_partition_seconds": 400.0}
CALM = {"rebalances": 38, "stopped_partition_seconds": 20.0}


def test_an_audit_differs_in_nothing_from_itself(tmp_path: Path) -> None:
    out = audit(tmp_path, {"g": BUSY}, [fleet.finding(1, "g", "critical")], actions=[fleet.action(1, ["g"])])
    found, code = compared(out, out)
    assert (found["groups"], found["findings"]) == ({"new": [], "gone": [], "changed": []}, {"new": [], "gone": []})
    assert (found["fleet"]["verdict"], found["worse"], code) == ("same", False, 0)
    assert [(one["kind"], one["n_groups"]) for one in found["actions"]] == [("switch_strategy", [1, 1])]


def test_an_audit_of_a_window_begins_with_it_and_not_with_the_older_records_that_it_reads(tmp_path: Path) -> None:
    """Both have the same rebalances in a day; of the second one the oldest of the compacted records is a month old."""
    one, two = audit(tmp_path / "1", {"g": BUSY}), audit(tmp_path / "2", {"g": BUSY}, days=30)
    summary = json.loads((two / "summary.json").read_text())
    since = datetime.fromtimestamp((BEGIN + 29 * DAY) / 1e6, UTC).isoformat()
    (two / "summary.json").write_text(json.dumps(summary | {"since": since}))
    found, _ = compared(one, two)
    assert [period["seconds"] for period in found["periods"]] == [86_400, 86_400]
    assert found["periods"][1]["from"] == "2026-12-20T00:00:00.000Z"
    assert (found["groups"]["changed"], found["fleet"]["verdict"]) == ([], "same")


def test_groups_are_new_gone_and_changed_with_figures_of_both(tmp_path: Path) -> None:
    one = audit(tmp_path / "1", {"a": BUSY, "b": {}, "old": {}, "deleted": {"state": "deleted"}})
    two = audit(
        tmp_path / "2", {"a": CALM | {"protocol": "sticky", "members_now": 5}, "b": {}, "new": {}, "old": {"state": "deleted"}}
    )
    found, code = compared(one, two)
    assert (found["groups"]["new"], found["groups"]["gone"]) == (["new"], ["old"])
    (row,) = found["groups"]["changed"]
    assert (row["group_id"], row["state"]) == ("a", {"protocol": ["range", "sticky"], "members_now": [2, 5]})
    assert [row[side]["stopped_seconds_per_day"] for side in ("before", "after")] == [400.0, 20.0]
    assert (row["verdict"], found["fleet"]["verdict"], code) == ("better", "better", 0)
    assert [found["fleet"][side]["members"] for side in ("before", "after")] == [6, 9]


def test_figures_are_per_day_so_that_recordings_may_differ_in_length(tmp_path: Path) -> None:
    one = audit(tmp_path / "1", {"a": BUSY})
    two = audit(tmp_path / "2", {"a": {name: 3 * value for name, value in BUSY.items()}}, days=3)
    found, code = compared(one, two)
    assert found["fleet"]["before"]["rebalances_per_day"] == found["fleet"]["after"]["rebalances_per_day"] == 40
    assert (found["groups"]["changed"], found["fleet"]["verdict"], code) == ([], "same", 0)


@pytest.mark.parametrize(
    ("groups", "findings", "worse"),
    [
        ({"a": CALM}, [], False),
        ({"a": BUSY}, [], True),
        ({"a": {"rebalances": 38, "stopped_partition_seconds": 24.0}}, [], False),
        ({"a": {"rebalances": 1, "stopped_partition_seconds": 24.0}, "b": {"stopped_partition_seconds": None}}, [], False),
        ({"a": CALM}, [fleet.finding(1, "a", "warning")], True),
        ({"a": CALM}, [fleet.finding(1, "a", "critical")], True),
        ({"a": CALM}, [fleet.finding(1, "a", "notice")], False),
    ],
    ids=["nothing", "more stops", "a fifth more", "few rebalances", "a warning", "a critical one", "a notice"],
)
def test_worse_gives_exit_code_1(tmp_path: Path, groups: dict[str, Any], findings: list[dict[str, Any]], worse: bool) -> None:
    one, two = audit(tmp_path / "1", {"a": CALM}), audit(tmp_path / "2", groups, findings)
    found, code = compared(one, two)
    assert (found["worse"], code) == (worse, int(worse))
    assert [row["severity"] for row in found["findings"]["new"]] == [row["severity"] for row in findings]
    assert compared(two, one)[0]["findings"]["gone"] == found["findings"]["new"]


def test_an_accepted_finding_is_neither_new_nor_gone_and_returns_as_new(tmp_path: Path) -> None:
    accepted = fleet.finding(1, "a", accepted_until=date(2027, 1, 31), accepted_reason="planned")
    before, now = audit(tmp_path / "1", {"a": CALM}, [fleet.finding(1, "a")]), audit(tmp_path / "2", {"a": CALM}, [accepted])
    assert compared(before, now)[0]["findings"] == {"new": [], "gone": []}
    assert compared(audit(tmp_path / "3", {"a": CALM}), now)[1] == 0
    again, code = compared(now, before)
    assert ([row["group_id"] for row in again["findings"]["new"]], code) == (["a"], 1)


def test_actions_that_are_done_have_no_group_any_more(tmp_path: Path) -> None:
    left = fleet.action(1, ["a"], kind="dead_groups", target="", saved_seconds=0.0)
    one = audit(tmp_path / "1", {"a": {}}, actions=[fleet.action(1, ["a", "b"]), left])
    two = audit(tmp_path / "2", {"a": {}}, actions=[left])
    found = compared(one, two)[0]["actions"]
    assert [(row["kind"], row["n_groups"], row["saved_seconds"]) for row in found] == [
        ("dead_groups", [1, 1], [0.0, 0.0]),
        ("switch_strategy", [2, 0], [12.4, 0]),
    ]


def test_the_text_has_the_periods_the_fleet_and_what_changed_and_names_are_harmless(tmp_path: Path) -> None:
    hostile = "evil\x1b[2J\ngroup"
    many: dict[str, Any] = {f"g{at}": {"rebalances": 0, "stopped_partition_seconds": None} for at in range(30)}
    one, two = audit(tmp_path / "1", {hostile: BUSY}), audit(tmp_path / "2", {hostile: CALM, **many})
    result = run(one, two)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("OUT1: 2026-11-21T00:00:00.000Z to 2026-11-22T00:00:00.000Z, 24.0 hours")
    assert any(line.split()[:4] == ["rebalances", "a", "day", "40"] for line in lines)
    assert "new groups (30): g0, g1," in result.stdout
    assert "and 10 more" in result.stdout
    assert any("evil" in line and "400 -> 20" in line and line.rstrip().endswith("better") for line in lines)
    assert "\x1b[2J" not in result.stdout
    assert lines[-1] == "fleet: better; nothing is worse"


def test_an_audit_without_records_has_no_period(tmp_path: Path) -> None:
    one, two = audit(tmp_path / "1", {}), audit(tmp_path / "2", {})
    summary = json.loads((one / "summary.json").read_text())
    (one / "summary.json").write_text(json.dumps(summary | {"from": None, "to": None}))
    lines = run(one, two).stdout.splitlines()
    assert (lines[0], lines[1][:16]) == ("OUT1: no records", "OUT2: 2026-11-21")


def test_a_folder_without_an_audit_is_wrong_use(tmp_path: Path) -> None:
    result = run(audit(tmp_path / "1", {"a": {}}), tmp_path / "2")
    assert result.exit_code == 2
    assert "run `counterpoise audit SOURCE --out" in result.output


def test_a_finding_that_became_more_severe_is_new(tmp_path: Path) -> None:
    one, two = (audit(tmp_path / kind, {"a": CALM}, [fleet.finding(1, "a", kind)]) for kind in ("notice", "critical"))
    found, code = compared(one, two)
    assert ([row["severity"] for row in found["findings"]["new"]], found["findings"]["gone"], code) == (["critical"], [], 1)
    assert compared(two, one)[0]["findings"] == {"new": [], "gone": []}


def test_groups_are_named_by_cluster_if_one_of_the_audits_has_several(tmp_path: Path) -> None:
    one, two = (audit(tmp_path / name, {"a": CALM}, [fleet.finding(1, "a")]) for name in ("1", "2"))
    summary = json.loads((two / "summary.json").read_text())
    (two / "summary.json").write_text(json.dumps(summary | {"clusters": ["default", "west"]}))
    found, code = compared(one, two)
    assert (found["groups"], found["findings"], code) == ({"new": [], "gone": [], "changed": []}, {"new": [], "gone": []}, 0)
