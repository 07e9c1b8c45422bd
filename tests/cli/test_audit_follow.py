"""`audit --follow`: what goes together, said before anything starts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.pipeline.conftest import SHOP

from counterpoise.cli.app import app
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.stored.catalog import Catalog


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "--since", "last", "--follow"], "--since and --follow: give one of them"),
        (["a", "--follow", "--anonymize"], "--anonymize: the next audit must hash names alike; give --salt too"),
        (["--bootstrap-server", "h:1", "--follow", "--anonymize"], "--anonymize with --follow: the recording in OUT"),
        (["a", "--follow", "--json"], "--json does not go with --follow"),
        (["a", "--bootstrap-server", "h:1"], "--bootstrap-server goes with --follow"),
        (["a", "--metrics-port", "9308"], "--metrics-port goes with --follow"),
        (["a", "--metrics-host", "0.0.0.0"], "--metrics-host goes with --follow"),
        (["a", "--metrics-host", "0.0.0.0", "--follow"], "--metrics-host goes with --metrics-port"),
        (["a", "--trigger", "2"], "--trigger goes with --follow"),
        (["a", "--report-every", "60"], "--report-every goes with --follow"),
        (["a", "--verbose", "--json"], "--verbose: text is printed neither with --follow nor with --json"),
        (["--follow", "a", "--fail-on", "never"], "--fail-on does not go with --follow"),
        (["--follow", "a", "--verbose"], "--verbose: text is printed neither with --follow nor with --json"),
        (["--follow"], "--follow: give capture folders that are being written, or --bootstrap-server; not both, not none"),
        (["a", "--follow", "--bootstrap-server", "h:1"], "--follow: give capture folders that are being written, or"),
        (["a", "b", "--follow"], "captures: 2, names of clusters: 0; give --cluster once for each capture, all different"),
        (["--follow", "--cluster", "a", "--cluster", "b"], "--follow: a process records one cluster; give --cluster once"),
        ([], "no SOURCE; give the folder of a capture, or --follow with --bootstrap-server"),
        (["no-such-folder", "--follow"], "no-such-folder: no such file or folder"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"])
def test_a_session_of_others_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    result = CliRunner().invoke(app, ["audit", "a", "--follow", "--out", str(tmp_path / "out")])
    assert (result.exit_code, "--follow needs a Spark session of its own" in result.output) == (2, True)


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        return None if name in ("confluent_kafka", "prometheus_client") else object()

    monkeypatch.setattr("counterpoise.cli.inputs.find_spec", find)
    options = ["audit", "--follow", "--bootstrap-server", "h:1", "--metrics-port", "9308", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2
    assert "--follow needs confluent-kafka, prometheus-client: pip install 'counterpoise[follow]'" in result.output


def test_what_is_given_reaches_the_follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[tuple[object, ...], dict[str, object]]] = []
    monkeypatch.setattr("counterpoise.cli.audit_command.follow", lambda *args, **named: given.append((args, named)))
    options = ["audit", "a", "b", "--follow", "--cluster", "x", "--cluster", "y", "--group", "g*", "--reset", "latest"]
    options += ["--strategies", "sticky, lag", "--trigger", "5", "--out", str(tmp_path), "--topic", "t", "--into", "s"]
    options += ["--from", "2026-01-01", "--anonymize", "--salt", "secret"]
    assert CliRunner().invoke(app, options).exit_code == 0
    scope = AuditScope(("g*",), ("t",), datetime(2026, 1, 1, tzinfo=UTC), reset="latest")
    audit = {"strategies": ("sticky", "lag"), "scope": scope, "salt": "secret", "into": Catalog("s")}
    recorded = {"cluster": "default", "bootstrap": None, "config": None, "port": None, "host": "127.0.0.1", "pace": (5.0, 300.0)}
    assert given == [(({"x": "a", "y": "b"}, str(tmp_path)), recorded | audit)]


def test_an_audit_that_was_made_without_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"format": 2, "hashed": None}))
    result = CliRunner().invoke(app, ["audit", str(SHOP), "--follow", "--out", str(tmp_path)])
    assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1)
    assert "was made without it and cannot be continued; give another --out" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]
