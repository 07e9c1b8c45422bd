"""What the JVM writes to stderr: noise is left out, all else comes through."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import SourceError
from counterpoise.pipeline import gateway, session
from counterpoise.pipeline.gateway import forward
from counterpoise.pipeline.source import spark_records
from counterpoise.pipeline.source.spark_records import read_errors
from tests.pipeline.conftest import SHOP


def test_only_noise_is_left_out() -> None:
    ours, its = os.pipe()
    os.write(its, b"WARNING: Using incubator modules: jdk.incubator.vector\nJAVA_HOME is not set\n\xff WARNING: more\nlast")
    os.close(its)
    printed = io.StringIO()
    forward(ours, printed)
    assert printed.getvalue() == "JAVA_HOME is not set\n\ufffd WARNING: more\nlast"


def test_the_jvm_is_started_with_its_noise_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, made = io.StringIO(), []

    def launch(conf: SparkConf, popen_kwargs: dict[str, Any]) -> str:
        os.write(popen_kwargs["stderr"], b"WARNING: Using incubator modules: jdk.incubator.vector\nno room\n")
        assert dict(conf.getAll())["spark.ui.enabled"] == "false"
        return "jvm"

    class Context:
        _gateway = None

        def __init__(self, conf: SparkConf, gateway: str) -> None:
            made.append((conf.get("spark.master"), conf.get("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"), gateway))

    monkeypatch.setattr(gateway, "launch_gateway", launch)
    monkeypatch.setattr(gateway, "SparkContext", Context)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: None)
    monkeypatch.setattr("sys.__stderr__", printed)
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    session.local_session({"spark.master": "local[1]"})
    for thread in threading.enumerate():
        if thread.name == gateway.READER:
            thread.join(10)
    assert made == [("local[1]", "system", "jvm")]
    assert printed.getvalue() == "no room\n"


def test_an_interrupt_while_the_jvm_starts_comes_when_it_can_be_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, it failed to write a file that was deleted meanwhile, and stayed for ever."""
    jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def launch(*_: object, **__: object) -> SimpleNamespace:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return SimpleNamespace(proc=jvm)

    monkeypatch.setattr(gateway, "launch_gateway", launch)
    monkeypatch.setattr(gateway, "SparkContext", SimpleNamespace(_gateway=None))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        gateway.start_context({})
    assert (jvm.wait(60), signal.getsignal(signal.SIGINT)) == (0, before)
    logging.root.error("KeyboardInterrupt while sending command.")  # as Py4J does, with a traceback
    logging.root.error("anything else")
    assert [record.msg for record in caplog.records] == ["anything else"]


def test_a_jvm_has_ended_if_its_process_has_and_one_that_others_started_never_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process: the gateway is that of spark-submit, or there is none, as with Spark Connect."""
    jvm = subprocess.Popen(["sleep", "600"])

    def ended() -> list[bool]:
        found = []
        for one in (SimpleNamespace(proc=jvm), SimpleNamespace(), None):
            monkeypatch.setattr(gateway, "SparkContext", SimpleNamespace(_gateway=one))
            found.append(gateway.jvm_ended())
        return found

    assert ended() == [False, False, False]
    jvm.kill()
    jvm.wait()
    assert ended() == [True, False, False]


LOST = [Py4JError("An error occurred while calling o80.collectToPython"), ConnectionRefusedError(111, "Connection refused")]


@pytest.mark.parametrize("lost", LOST)
def test_an_error_without_a_jvm_says_that_it_has_ended_and_is_exit_code_3(
    lost: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_records, "jvm_ended", lambda: True)
    with (
        pytest.raises(SourceError, match=r"^a: Spark's JVM has ended; run it again") as raised,
        read_errors("a"),
    ):
        raise lost
    assert exit_code_of(raised.value) == 3


@pytest.mark.parametrize("lost", LOST)
def test_the_same_error_with_a_jvm_stays_as_it_is(lost: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_records, "jvm_ended", lambda: False)
    with pytest.raises(type(lost)) as raised, read_errors("a"):
        raise lost
    assert raised.value is lost


def test_where_there_is_no_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "counterpoise",
        "audit",
        str(SHOP),
        "--out",
        str(tmp_path / "out"),
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(words, env=env | {"JAVA_HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "counterpoise: Spark's JVM did not start, and says why above; it needs Java 17"
    )


DEAF = """
import os, signal, subprocess, sys, threading
from counterpoise.pipeline.gateway import sigterm_deferred

heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append("heard"))
threading.Thread(target=threading.Event().wait, daemon=True).start()  # it does not block the signal
ask = "from signal import *; print(getsignal(SIGTERM).name, SIGTERM in pthread_sigmask(SIG_BLOCK, ()))"

def child():  # forked as Spark forks its JVM
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, preexec_fn=int).stdout.strip()

with sigterm_deferred():
    os.kill(os.getpid(), signal.SIGTERM)
    print(child(), heard)
print(child(), heard)
"""


def test_children_started_while_sigterm_waits_ignore_it_and_the_parent_handles_it_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["SIG_IGN True []", "SIG_DFL False ['heard']"]
