"""`audit --follow`: what goes together, said before anything starts."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.commands import family, is_jvm, started, wait
from tests.pipeline.conftest import SHOP

from counterpoise.cli.app import app
from counterpoise.errors import CaptureError, SourceError
from counterpoise.extras import pip_install
from counterpoise.pipeline.capture.recorder import Recorder
from counterpoise.pipeline.run import SUMMARY_FORMAT
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.tables.catalog import Catalog

SMALL = SHOP.parents[1] / "tests" / "data" / "recorded" / "kip848"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a", "--since", "last", "--follow"], "--since does not go with --follow: following always begins where"),
        (["a", "--follow", "--anonymize"], "--anonymize: the next audit must hash names alike; give --salt too"),
        (["--bootstrap-server", "h:1", "--anonymize"], "--anonymize: the next audit must hash names alike; give --salt too"),
        (["a", "--follow", "--json"], "--json does not go with --follow"),
        (
            ["a", "--bootstrap-server", "h:1"],
            "give the folder of a capture (SOURCE), or a cluster with --bootstrap-server; not both",
        ),
        (["a", "--metrics-port", "9308"], "--metrics-port goes with --follow"),
        (["a", "--metrics-host", "0.0.0.0"], "--metrics-host goes with --metrics-port"),
        (["a", "--metrics-host", "0.0.0.0", "--follow"], "--metrics-host goes with --metrics-port"),
        (["a", "--trigger", "2"], "--trigger goes with --follow"),
        (["a", "--report-every", "60"], "--report-every goes with --follow"),
        (["a", "--table-prefix", "t_"], "--table-prefix goes with --into"),
        (["a", "--salt", "s"], "--salt goes with --anonymize"),
        (["a", "--anonymize", "--salt", ""], "--salt is empty (an unset variable?); give a text, or leave it out"),
        (["a", "--top", "3", "--json"], "--top: text is printed neither with --follow nor with --json"),
        (["a", "--severity", "warning", "--follow"], "--severity: text is printed neither with --follow nor with --json"),
        (["a", "--config", "no-such-file"], "no-such-file: No such file or directory; name a readable file"),
        (["a", "--verbose", "--json"], "--verbose: text is printed neither with --follow nor with --json"),
        (["--follow", "a", "--fail-on", "never"], "--fail-on does not go with --follow"),
        (["--follow", "a", "--verbose"], "--verbose: text is printed neither with --follow nor with --json"),
        (["--follow"], "give the folder of a capture (SOURCE), or a cluster with --bootstrap-server; not both, not none"),
        (["a", "--follow", "--bootstrap-server", "h:1"], "give the folder of a capture (SOURCE), or a cluster"),
        (["a", "b", "--follow"], "captures: 2, names of clusters: 0; give --cluster once for each capture, all different"),
        (
            ["--follow", "--bootstrap-server", "h:1", "--cluster", "a", "--cluster", "b"],
            "a process records one cluster; give --cluster once",
        ),
        ([], "give the folder of a capture (SOURCE), or a cluster with --bootstrap-server; not both, not none"),
        (["no-such-folder", "--follow"], "no-such-folder: no such file or folder"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_salt_in_the_environment_is_ignored_without_anonymize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOISE_SALT", "secret")
    for options, words in (([], "no-such-folder: no such file or folder"), (["--salt", "s"], "--salt goes with --anonymize")):
        result = CliRunner().invoke(app, ["audit", "no-such-folder", *options, "--out", str(tmp_path / "out"), "--follow"])
        assert (result.exit_code, words in result.output) == (2, True), result.output


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = ["--bootstrap-server", "h:1"]
    for absent, options, words in (
        ("confluent_kafka", live, f"--bootstrap-server needs confluent-kafka: {pip_install('live')}"),
        ("confluent_kafka", [*live, "--follow"], f"--bootstrap-server needs confluent-kafka: {pip_install('follow')}"),
        ("prometheus_client", [*live, "--follow", "--metrics-port", "9308"], "--follow needs prometheus-client: pip install"),
    ):
        monkeypatch.setattr("counterpoise.cli.inputs.find_spec", lambda name, absent=absent: None if name == absent else object())
        result = CliRunner().invoke(app, ["audit", *options, "--out", str(tmp_path / "out")])
        assert (result.exit_code, words in result.output) == (2, True), result.output


def test_what_is_given_reaches_the_follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[tuple[object, ...], dict[str, object]]] = []
    monkeypatch.setattr("counterpoise.cli.audit_command.follow", lambda *args, **named: given.append((args, named)))
    options = ["audit", "a", "b", "--follow", "--cluster", "x", "--cluster", "y", "--group", "g*", "--reset", "latest"]
    options += ["--strategies", "sticky, lag", "--trigger", "5", "--out", str(tmp_path), "--topic", "t", "--into", "s"]
    options += ["--from", "2026-01-01", "--anonymize", "--salt", "secret"]
    assert CliRunner().invoke(app, options).exit_code == 0
    scope = AuditScope(("g*",), ("t",), datetime(2026, 1, 1, tzinfo=UTC), reset="latest")
    audit = {"strategies": ("sticky", "lag"), "scope": scope, "salt": "secret", "into": Catalog("s")}
    recorded = {"settings": None, "address": ("127.0.0.1", None), "pace": (5.0, 300.0)}
    assert given == [(({"x": "a", "y": "b"}, str(tmp_path)), recorded | audit)]


def test_an_audit_that_was_made_without_follow_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"format": SUMMARY_FORMAT, "hashed": None}))
    result = CliRunner().invoke(app, ["audit", str(SHOP), "--follow", "--out", str(tmp_path)])
    assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1)
    assert "was made without it and cannot be continued; give another --out" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("more", [[], ["--anonymize", "--salt", "other"]], ids=["plain names", "another salt"])
def test_a_cluster_is_not_recorded_if_names_in_the_folder_are_hashed(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is made to be passed on: a recording with plain names must not come into it."""
    monkeypatch.setattr(Recorder, "run", lambda *_, **__: pytest.fail("it records"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text(json.dumps({"format": SUMMARY_FORMAT, "hashed": "abc"}))
    options = ["audit", "--bootstrap-server", "h:1", "--out", str(tmp_path / "out"), *more]
    done = CliRunner().invoke(app, options)
    assert (done.exit_code, "the names there are hashed" in done.output) == (2, True), done.output
    assert CliRunner().invoke(app, [*options, "--follow"]).exit_code == 2
    assert [file.name for file in tmp_path.rglob("*")] == ["out", "summary.json"]


@pytest.mark.parametrize("follow", [False, True])
def test_with_hashed_names_the_cluster_is_recorded_beside_the_folder(
    follow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def recorder(_: object, folder: str, *__: object) -> None:
        folders.append(folder)
        raise SourceError("h:1 does not answer", transient=True)

    monkeypatch.setattr("counterpoise.pipeline.capture.recorder.Recorder", recorder)
    words = ["audit", "--bootstrap-server", "h:1", "--anonymize", "--salt", "s", *(["--follow"] if follow else [])]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")]).exit_code == 3
    assert folders == [str(tmp_path / ".out-capture")]
    done = CliRunner().invoke(app, [*words, "--out", "s3://bucket"])
    assert (done.exit_code, "a whole bucket; the capture with plain names goes beside" in done.output) == (2, True), done.output


@pytest.mark.spark
def test_a_signal_stops_following_while_spark_starts(tmp_path: Path) -> None:
    """While it follows: tests/pipeline/test_live_pages.py."""
    log = tmp_path / "log"
    with started(log, "audit", SHOP, "--follow", "--out", tmp_path / "out") as process:
        wait(lambda: any(map(is_jvm, family(process.pid))), process)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    assert [words for words in ("following: ", "Traceback") if words in log.read_text()] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_following_while_it_records_what_there_is(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = []

    def record(_: Recorder, *, follow: bool) -> None:
        records.append(follow)
        signal.raise_signal(number)
        time.sleep(60)  # as a cluster that does not answer

    monkeypatch.setattr(Recorder, "run", record)
    monkeypatch.setattr("counterpoise.pipeline.session.local_session", lambda **_: pytest.fail("Spark starts"))
    done = CliRunner().invoke(app, ["audit", "--follow", "--bootstrap-server", "localhost:1", "--out", str(tmp_path / "out")])
    assert (done.exit_code, records) == (0, [False]), done.output


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (CaptureError("it was truncated"), 2),
        (SourceError("b:1 does not answer", transient=True), 3),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 3),
        (KeyError("a fault"), 3),
    ],
)
def test_an_error_of_the_recording_at_its_stop_is_reported(
    error: Exception, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self) -> None: ...

    stop = threading.Event()

    def record(_: Recorder, *, follow: bool) -> None:
        if follow:
            assert stop.wait(60)
            raise error

    monkeypatch.setattr(Recorder, "run", record)
    monkeypatch.setattr(Recorder, "stop", lambda _: stop.set())
    monkeypatch.setattr("counterpoise.pipeline.session.local_session", lambda **_: (None, False))
    monkeypatch.setattr("counterpoise.pipeline.source.capture.read_capture", lambda _: None)
    monkeypatch.setattr("counterpoise.pipeline.follow.follower.Follow", Stopped)
    done = CliRunner().invoke(app, ["audit", "--follow", "--bootstrap-server", "localhost:1", "--out", str(tmp_path / "out")])
    assert (done.exit_code, str(error.args[-1]) in done.output) == (exit_code, True), done.output


@pytest.mark.spark
@pytest.mark.long  # in process: tests/pipeline/test_gateway.py and tests/pipeline/follow/test_follow.py
def test_following_ends_if_its_jvm_is_killed_long_before_the_next_update(tmp_path: Path) -> None:
    log, options = tmp_path / "log", ("--follow", "--trigger", "3600", "--strategies", "sticky")
    with started(log, "audit", SMALL, "--out", tmp_path / "out", *options) as process:
        wait(lambda: "following: " in log.read_text(), process)
        os.kill(next(filter(is_jvm, family(process.pid))), signal.SIGKILL)
        assert process.wait(120) == 3
    ends = f"{SMALL}: an update has failed (Spark's JVM has ended); start again, nothing is lost"
    assert log.read_text().splitlines()[-1] == f"counterpoise: {ends}"
