"""`counterpoise capture` used wrongly gets one line that says what to do, and no secret is in it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from counterpoise.cli import audit_follow
from counterpoise.cli.app import app
from counterpoise.pipeline.capture.recorder import Recorder
from counterpoise.pipeline.capture.recording import Status
from counterpoise.pipeline.capture.settings import Settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "OUT"], "no bootstrap servers: give --bootstrap-server"),
        (["--out", "OUT", "--from-segments", "OUT", "--follow"], "it goes with --out and --json only"),
        (
            ["--out", "OUT", "--from-dump", "OUT", "--poll-every", "2"],
            "--from-dump reads files: it goes with --out and --json only",
        ),
        (["--out", "OUT", "--from-dump", "OUT", "--sample-every", "30"], "it goes with --out and --json only"),
        (["--out", "OUT", "--from-segments", "OUT", "--flush-every", "3"], "it goes with --out and --json only"),
        (["--out", "OUT", "--from-segments", "OUT", "--from-dump", "OUT"], "it goes with --out and --json only"),
        (["--out", "OUT", "--from-segments", "OUT/none"], "no such folder"),
        (["--out", "OUT", "--bootstrap-server", "a:1", "--poll-every", "2"], "--poll-every goes with --poll"),
        (["--out", "OUT", "--bootstrap-server", "a:1", "--command-config", "OUT/none"], "No such file"),
        (["--out", "OUT", "--bootstrap-server", "a:1", "--command-config", "BAD"], "isolation.level: expected read_committed or"),
        (["--out", "OUT", "--bootstrap-server", "a:1", "--command-config", "WRONG"], "do not work"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "bad").write_text("isolation.level=serializable\nsasl.password=hunter2\n")
    (tmp_path / "wrong").write_text("security.protocol=hunter2\nsasl.password=hunter2\n")
    places = {"OUT": str(tmp_path / "out"), "BAD": str(tmp_path / "bad"), "WRONG": str(tmp_path / "wrong")}
    given = [each.replace("OUT", places["OUT"]) if each.startswith("OUT") else places.get(each, each) for each in arguments]
    done = CliRunner().invoke(app, ["capture", *given])
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.output + done.stderr


def test_the_help_has_examples() -> None:
    done = CliRunner().invoke(app, ["capture", "--help"])
    assert done.exit_code == 0
    assert "counterpoise capture --bootstrap-server broker:9092 --out history --follow" in done.stdout


def test_a_second_signal_does_not_end_a_recording_while_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends SIGTERM twice."""
    printed = []

    def echo(text: str, **_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        printed.append(text)

    monkeypatch.setattr(Recorder, "run", lambda self, **_: self.status)
    monkeypatch.setattr("counterpoise.cli.capture_command.click.echo", echo)
    before = signal.signal(signal.SIGTERM, lambda *_: printed.append("ended"))
    try:
        options = ["--bootstrap-server", "localhost:1", "--out", str(tmp_path / "out"), "--json"]
        assert CliRunner().invoke(app, ["capture", *options]).exit_code == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [json.loads(text)["records"] for text in printed] == [0]


def reported(*troubles: str) -> Callable[..., Status]:
    """A run of a recording that has these troubles, one after the other."""

    def run(self: Recorder, **_: object) -> Status:
        for trouble in troubles:
            self.status.trouble = trouble
            self._report(self.status)
        return self.status

    return run


TROUBLES = ("", "waiting for a:1", "a:1 does not answer", "", "", "cannot write (full)", "")
SAID = [f"counterpoise: {words}" for words in ("waiting for a:1", "recording again", "cannot write (full)", "recording again")]


@pytest.mark.parametrize(("options", "said"), [(["--follow"], SAID), (["--follow", "--json"], []), ([], [])])
def test_without_a_terminal_a_line_says_that_a_recording_waits_and_that_it_goes_on(
    options: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a service manager, whose log would be empty in an outage of hours; with --json the status says it."""
    monkeypatch.setattr(Recorder, "run", reported(*TROUBLES))
    done = CliRunner().invoke(app, ["capture", "--bootstrap-server", "a:1", "--out", str(tmp_path / "out"), *options])
    assert (done.exit_code, done.stderr.splitlines()) == (0, said)


def test_an_audit_that_follows_says_that_its_recording_waits_and_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Recorder, "run", reported(*TROUBLES))
    with audit_follow._recorded(Settings({"bootstrap.servers": "a:1"}), str(tmp_path), threading.Event()):
        pass
    assert capsys.readouterr().err.splitlines() == SAID
