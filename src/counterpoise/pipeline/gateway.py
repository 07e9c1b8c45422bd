"""The JVM of a new session: its start, signals that must not end it early, its stderr without harmless lines, and its end."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Thread, current_thread, main_thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from counterpoise.errors import OptionError

__all__ = ["JVM_ENDED", "NOISE", "READER", "forward", "jvm_ended", "sigterm_deferred", "start_context"]

JVM_ENDED = "Spark's JVM has ended"
"""What an error says if `jvm_ended`."""

READER = "counterpoise-jvm-stderr"
"""Name of the thread that reads the JVM's stderr."""

NOISE = (
    b"WARNING: Using incubator modules",
    b"WARNING: A restricted method in java.lang.System has been called",
    b"WARNING: java.lang.System::load",
    b"WARNING: Use --enable-native-access",
    b"WARNING: Restricted methods will be blocked",
    b"WARNING: A terminally deprecated method in sun.misc.Unsafe has been called",
    b"WARNING: sun.misc.Unsafe::",
    b"WARNING: Please consider reporting this to the maintainers of ",
    b"NOTE: Picked up JDK_JAVA_OPTIONS",
    b"Picked up JAVA_TOOL_OPTIONS",
    b"Picked up _JAVA_OPTIONS",
)
"""Prefixes of lines that every JVM of Spark prints, that need no action and that no setting turns off."""


def start_context(settings: Mapping[str, str]) -> None:
    """Start the JVM and a Spark context with these settings, unless a JVM runs already.

    A thread copies the stderr of the JVM to that of this process, without `NOISE`. The caller's own handler of SIGINT stays;
    `SparkContext` would replace it. Raises `OptionError` if the JVM does not start; then the JVM has said why on stderr.
    """
    if getattr(SparkContext, "_gateway", None) is not None:
        return
    # Py4J logs tracebacks of a call that Ctrl-C has ended, one of them as the root logger.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.root.addFilter(lambda record: not str(record.msg).startswith("KeyboardInterrupt while sending"))
    conf = SparkConf().setAll(list(settings.items()))
    ours, its = os.pipe()
    reader = Thread(target=forward, args=(ours, sys.__stderr__), name=READER, daemon=True)
    reader.start()
    stopped: list[int] = []
    main = current_thread() is main_thread()
    # If a launch is interrupted, it deletes the file that the JVM is about to write: the JVM fails, but does not end.
    handler = signal.signal(signal.SIGINT, lambda number, _: stopped.append(number)) if main else None
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": its})  # type: ignore[no-untyped-call]
    except BaseException as error:
        os.close(its)
        reader.join(5)
        if isinstance(error, PySparkRuntimeError):
            words = "Spark's JVM did not start, and says why above; it needs Java 17 or newer: install it, or set JAVA_HOME"
            raise OptionError(words) from None
        raise
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
    os.close(its)
    if stopped:
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            gateway.proc.stdin.close()  # the JVM ends when its stdin is closed
            raise
    SparkContext(conf=conf, gateway=gateway)
    if main and handler is not signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)  # a SparkContext installs its own


_FORKS_IGNORE_SIGTERM = ContextVar("_FORKS_IGNORE_SIGTERM", default=False)
"""Whether children that this thread forks ignore SIGTERM."""
os.register_at_fork(after_in_child=lambda: _FORKS_IGNORE_SIGTERM.get() and signal.signal(signal.SIGTERM, signal.SIG_IGN))


@contextmanager
def sigterm_deferred() -> Iterator[None]:
    """Within the context SIGTERM waits: the handler from before receives it when the context ends.

    Threads started inside block SIGTERM for good, so that the main thread receives it. Children that this thread forks inside
    ignore it (blocking is not enough: a JVM unblocks it), because a service manager sends SIGTERM to all processes at once, and
    work is lost if the JVM ends first. PySpark's JVM is forked: `subprocess` forks if it is given a `preexec_fn`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    received: list[int] = []
    main = current_thread() is main_thread()
    handler = signal.signal(signal.SIGTERM, lambda number, _: received.append(number)) if main else None
    token = _FORKS_IGNORE_SIGTERM.set(True)
    try:
        yield
    finally:
        _FORKS_IGNORE_SIGTERM.reset(token)
        if main:
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if received:
            signal.raise_signal(signal.SIGTERM)


def jvm_ended() -> bool:
    """Whether a JVM that this process started has ended; False for one that it did not start (`spark-submit`, a server)."""
    jvm = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the process has no public name
    return jvm is not None and jvm.poll() is not None


def forward(source: int, target: Any) -> None:
    """Copy lines from a file descriptor to a text stream until it ends, without `NOISE`."""
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if target is not None and not line.startswith(NOISE):
                target.write(line.decode("utf-8", "replace"))
                target.flush()
