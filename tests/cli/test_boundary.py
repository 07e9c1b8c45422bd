"""What surrounds a command: closed streams, locales, words that are no text, an interrupt; and names that are not harmless."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.commands import RUN

from counterpoise.cli.app import app

EMOJI = {"topics": {"t": 3}, "members": [{"id": "a\U0001f600", "topics": ["t", "z"]}]}
EVIL = "x\x1b[2J\r\n\u202egpj\x07\x9b31m"
LEAD = {"strategy": "range", "topics": {"t": 2}, "members": [{"id": EVIL, "metadata": "000000000001000174ffffffff"}]}
STOPPED = """
import sys
from counterpoise.cli import main

class Stop:
    def find_spec(self, name, *_):
        if name == "counterpoise.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop())
main()
"""


def ended(*words: str | bytes, stdin: bytes = b"", shell: str = "", **env: str) -> subprocess.CompletedProcess[bytes]:
    """The command line as a process; `shell`: how its streams are closed."""
    called = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *RUN, *words]
    return subprocess.run(called, input=stdin, capture_output=True, check=False, env={**os.environ, **env})


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["plan", "-"], b"\xff\xfe{"),
        (["lead"], b"\xff\xfe{\n"),
        (["plan", "-"], b'{"topics": {"t\xed\xa0\x80": 1}, "members": []}'),
        (["lag", "--bootstrap-server", "a:1", "--group", b"g\xff"], b""),
    ],
)
def test_what_is_not_utf_8_is_exit_code_2_in_any_locale(words: list[str | bytes], stdin: bytes) -> None:
    done = ended(*words, stdin=stdin)
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    assert done.stderr.splitlines()[-1].startswith((b"counterpoise: ", b"Error: "))


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["plan", "-"], b"\x00\x01\x02\x80"),
        (["lead"], b'{"strategy": "\\ud800"}'),
        (["plan", "-"], b'{"topics": {"t": {"partitions": 3, "racks": [[]]}}, "members": [{"id": "a", "topics": 5}]}'),
        (["plan", "-"], b'{"topics": {"t": 1, "t": "x"}, "members": [], "members": 3}'),
        (["plan", "-", "--option", "x\udcff=1"], b"{}"),
        (["lag", "--bootstrap-server", "a:1", "--group", "g", "--capacity", "x=" + "9" * 5_000], b""),
        (["lag", "--bootstrap-server", "a:1", "--group", "g", "--command-config", "/"], b""),
        (["export", "9" * 5_000], b""),
        (["audit", "nowhere", "--out", "out", "--from", "0001-01-01T00:00:00+14:00"], b""),
        (["synthesize", "--out", "out", "--seconds", "1e30"], b""),
    ],
)  # fmt: skip
def test_input_of_no_sense_is_exit_code_2(words: list[str], stdin: bytes) -> None:
    done = run(*words, stdin=stdin)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(("counterpoise: ", "Error: "))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no equals", "the connection settings do not work"),
        ("noequals", "line 2: expected NAME=VALUE"),
        ("no.such.setting=1", "the connection settings do not work"),
        ("socket.timeout.ms=soon", "the connection settings do not work"),
        ("socket.timeout.ms=99999999999999", "the connection settings do not work"),
        ("security.protocol=TELNET", "the connection settings do not work"),
        ("ssl.truststore.location=trust.jks", "a Java key store cannot be read here"),
        ("security.protocol=SSL\nssl.ca.location=/no/such.pem", "the connection settings do not work"),
        ("sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;", "this login module is Java's own"),
        ("sasl.jaas.config=x.ScramLoginModule required username='u';", "expected username and password"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u", "the connection settings do not work"),
    ],
)
def test_a_property_that_does_not_work_is_one_line_before_anything_is_sent(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "client.properties").write_text(f"client.id=x\n{line}\n")
    done = run("lag", "--bootstrap-server", "127.0.0.1:1", "--group", "g", "--command-config", tmp_path / "client.properties")
    assert (done.exit_code, done.stderr.count("\n"), message in done.stderr) == (2, 1, True), done.stderr


@pytest.mark.parametrize(
    ("words", "shell", "code", "start"),
    [
        (["plan", "-"], "<&-", 2, b"counterpoise: -: standard input is closed"),
        (["lead", "-"], "<&-", 2, b"counterpoise: -: standard input is closed"),
        (["plan", "-"], ">&-", 2, b"counterpoise: standard output is closed"),
        (["plan", "-"], "2>&-", 0, b""),
        (["plan", "-"], "<&- >&- 2>&-", 2, b""),
    ],
)
def test_a_closed_stream_is_reported_and_nothing_is_lost_silently(words: list[str], shell: str, code: int, start: bytes) -> None:
    done = ended(*words, stdin=json.dumps(EMOJI).encode(), shell=shell)
    assert (done.returncode, done.stderr[: len(start)]) == (code, start)
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_the_locale_decides_about_no_input_and_output_is_spelled_out_where_it_must(env: dict[str, str]) -> None:
    done = ended("plan", "-", stdin=json.dumps(EMOJI, ensure_ascii=False).encode(), **env)
    assert (done.returncode, b"a\\U0001f600" in done.stdout) == (0, True)


def test_a_full_disk_is_exit_code_3_and_one_line(tmp_path: Path) -> None:
    """Wherever it is full: here no file may grow beyond so many blocks of 512 bytes."""
    dump = Path(__file__).parents[1] / "data" / "dump" / "decoder-4.3.1.txt"
    for blocks in (0, 2, 4):
        words = [*RUN, "capture", "--from-dump", str(dump), "--out", str(tmp_path / str(blocks))]
        done = subprocess.run(["/bin/sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", *words], capture_output=True, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
        assert b"is incomplete" in done.stderr


def test_an_interrupt_before_there_is_a_command_is_exit_code_130() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "counterpoise: interrupted\n")


def run(*words: object, stdin: Any = None) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def test_names_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    """Control characters, ANSI escapes, marks of direction and line ends are spelled out, in tables, sentences and errors."""
    members = [{"id": f"{name}{EVIL}", "topics": [EVIL, f"no{EVIL}"]} for name in "ab"]
    group = {"topics": {EVIL: 2, "[red]:bug:": 1}, "group": EVIL, "lag": {EVIL: [3, 4]}, "members": members}
    snapshot, plan = tmp_path / "group.json", tmp_path / "plan.json"
    snapshot.write_text(json.dumps(group))
    plan.write_text(json.dumps({f"c{EVIL}": {EVIL: [0]}}))
    shown = [
        run("plan", snapshot, "--compare", "all", "--strategy", "lag-sticky"),
        run("plan", snapshot, "--json"),
        run("explain", snapshot, EVIL, 0),
        run("explain", snapshot, EVIL, 9),
        run("compare", snapshot),
        run("verify", snapshot, plan),
        run("verify", snapshot, f"no{EVIL}"),
        run("export", plan, "--format", "assign"),
        run("export", plan, "--format", "spark"),
        run("lead", stdin=json.dumps(LEAD) + "\n" + json.dumps({**LEAD, EVIL: 1})),
    ]
    for result in shown:
        assert result.exit_code in (0, 1, 2)
        assert all(char.isprintable() or char == "\n" for char in result.output)
        assert "gpj" in result.output
    assert "[red]:bug:" in shown[0].output


def test_a_name_cannot_forge_a_line_of_a_plan(tmp_path: Path) -> None:
    members = [{"id": "a\nproven: all fine", "topics": ["t"]}, {"id": "b", "topics": ["t"], "owned": {"t": [0, 1, 2, 3]}}]
    snapshot = tmp_path / "group.json"
    snapshot.write_text(json.dumps({"topics": {"t": 4}, "members": members, "lag": {"t": [1, 2, 3, 4]}}))
    for strategy in ("lag", "range", "lag-sticky"):
        lines = run("plan", snapshot, "--strategy", strategy).output.splitlines()
        assert not [line for line in lines if line.startswith("proven: all fine")]
