"""`audit --since last`: options that do not go with it are reported before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.report import fleet

from counterpoise.cli.app import app
from counterpoise.cli.audit_command import _findings_of
from counterpoise.pipeline.audit import AuditResult
from counterpoise.pipeline.run import SUMMARY_FORMAT
from counterpoise.pipeline.storage.files import write_bytes
from counterpoise.pipeline.tables.manifest import Manifest

SHOP = Path(__file__).parents[2] / "examples" / "shop"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "yesterday"], "--since yesterday: only last is known; for a time give --from"),
        (["--since", "last", "--anonymize"], "--anonymize: the next audit must hash names alike; give --salt too"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "a", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_audit_that_was_made_without_since_last_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"format": SUMMARY_FORMAT, "hashed": None}))
    result = CliRunner().invoke(app, ["audit", str(SHOP), "--since", "last", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "was made without it and cannot be continued; give another --out" in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("known", [True, False])
def test_what_there_was_to_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    def found(*_: Any, **__: Any) -> AuditResult:
        summary = {"to": "2026-11-21T08:00:00.000Z", "findings": {"by_severity": {}}}
        return AuditResult(str(tmp_path), summary, (), nothing_new=known)

    if known:
        small = {"summary.json": json.dumps({"format": SUMMARY_FORMAT, "hashed": None, "since_last": 1})}
        manifest = Manifest(str(tmp_path), 1, frozenset({".state/saved/a.json"}), small_files=small)
        write_bytes(manifest.place, manifest.to_bytes())
        for file in ("summary.json", "report.html"):
            (tmp_path / file).write_text("")
    monkeypatch.setattr("counterpoise.pipeline.audit.audit", found)
    monkeypatch.setattr("counterpoise.report.render.write_report", lambda out: f"{out}/page.html")
    result = CliRunner().invoke(app, ["audit", str(SHOP), "--since", "last", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    nothing = "nothing new since the last audit of records up to 2026-11-21T08:00:00.000Z: nothing is written\n"
    everything = f"{tmp_path}: no earlier audit with --since last, so everything is read\n"
    assert result.stderr.replace("\n", "") == (nothing if known else everything).replace("\n", "")


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        ({}, {None: 0, "notice": 0, "warning": 0, "critical": 0, "never": 0}),
        ({"notice": 3}, {None: 1, "notice": 1, "warning": 0, "critical": 0, "never": 0}),
        ({"warning": 1, "notice": 3}, {None: 1, "notice": 1, "warning": 1, "critical": 0, "never": 0}),
        ({"critical": 1}, {None: 1, "notice": 1, "warning": 1, "critical": 1, "never": 0}),
    ],
)
def test_the_exit_code_says_whether_there_are_findings_so_severe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, int], codes: dict[str | None, int]
) -> None:
    result = AuditResult(str(tmp_path), {"findings": {"by_severity": found}}, ())
    monkeypatch.setattr("counterpoise.pipeline.audit.audit", lambda *_, **__: result)
    monkeypatch.setattr("counterpoise.report.render.write_report", lambda out: f"{out}/page.html")
    for severity, code in codes.items():
        words = [] if severity is None else ["--fail-on", severity]
        done = CliRunner().invoke(app, ["audit", str(SHOP), "--out", str(tmp_path), "--json", *words])
        assert (severity, done.exit_code) == (severity, code), done.output


def test_severity_limits_worst_groups_and_changes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [fleet.finding(1, "bad", "critical"), fleet.finding(2, "fair", "warning")]
    result = AuditResult(str(tmp_path), fleet.summary({"findings": rows}), ())
    monkeypatch.setattr("counterpoise.pipeline.audit.audit", lambda *_, **__: result)
    monkeypatch.setattr("counterpoise.report.render.write_report", lambda out: f"{out}/page.html")
    before = iter([[], rows] * 2)
    monkeypatch.setattr("counterpoise.cli.audit_command._findings_of", lambda *_: next(before))
    for words, named in (([], ["bad", "fair"]), (["--severity", "critical"], ["bad"])):
        done = CliRunner().invoke(app, ["audit", str(SHOP), "--out", str(tmp_path), *words])
        assert [line.split()[-1] for line in done.stdout.splitlines() if "Moves of" in line] == named * 2, done.output


def test_findings_of_other_clusters_are_not_compared(tmp_path: Path) -> None:
    fleet.write(tmp_path, findings=[fleet.finding(1, "g")])
    assert [row["group_id"] for row in _findings_of(str(tmp_path), ["default"]) or ()] == ["g"]
    assert _findings_of(str(tmp_path), ["west"]) is None
    assert _findings_of(str(tmp_path / "nowhere"), ["default"]) is None
