"""`audit --follow`: what goes together, told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from counterpoise.cli.app import app


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "--since", "last", "--follow"], "--since and --follow: give one of them"),
        (["a", "--follow", "--topic", "t"], "--topic does not go with --follow"),
        (["a", "--follow", "--from", "2026-01-01"], "--from does not go with --follow"),
        (["a", "--follow", "--reset", "latest"], "--reset does not go with --follow"),
        (["a", "--follow", "--anonymize"], "--anonymize does not go with --follow"),
        (["a", "--follow", "--into", "s"], "--into does not go with --follow"),
        (["a", "--follow", "--json"], "--json does not go with --follow"),
        (["a", "--bootstrap-server", "h:1"], "--bootstrap-server goes with --follow"),
        (["a", "--metrics-port", "9308"], "--metrics-port goes with --follow"),
        (["a", "--trigger", "2"], "--trigger goes with --follow"),
        (["a", "--report-every", "60"], "--report-every goes with --follow"),
        (["--follow"], "--follow: give one capture folder that is being written, or --bootstrap-server"),
        (["a", "--follow", "--bootstrap-server", "h:1"], "--follow: give one capture folder that is being written, or"),
        (["a", "b", "--follow"], "--follow: several captures or clusters were given; give one"),
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
        if name == "google.protobuf":
            raise ModuleNotFoundError(name)
        return None if name == "prometheus_client" else object()

    monkeypatch.setattr("counterpoise.cli.inputs.find_spec", find)
    result = CliRunner().invoke(app, ["audit", "a", "--follow", "--metrics-port", "9308", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "--follow needs protobuf, prometheus-client: pip install 'counterpoise[follow]'" in result.output
