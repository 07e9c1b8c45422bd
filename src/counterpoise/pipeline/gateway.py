"""The JVM of a session of our own, started so that what it says about itself does not come between a user and an error."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from counterpoise.errors import OptionError

__all__ = ["NOISE", "READER", "forward", "quiet_context", "without_sigterm"]

READER = "counterpoise-jvm-stderr"
"""Name of the thread that reads what the JVM says."""

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
"""How lines start that every JVM of Spark prints and nobody can act on; no setting of the JVM turns them off."""


def quiet_context(settings: Mapping[str, str]) -> None:
    """Start the JVM and a Spark context with these settings, unless a JVM runs already; `NOISE` is left out of its stderr.

    Notes
    -----
    All else that it writes there comes through, line by line, as long as this process runs. A JVM that does not start says
    why, as it does without this.

    Raises
    ------
    OptionError
        The JVM does not start.
    """
    if getattr(SparkContext, "_gateway", None) is not None:
        return
    conf = SparkConf().setAll(list(settings.items()))
    ours, its = os.pipe()
    reader = Thread(target=forward, args=(ours, sys.__stderr__), name=READER, daemon=True)
    reader.start()
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": its})  # type: ignore[no-untyped-call]
    except BaseException as error:
        os.close(its)
        reader.join(5)
        if isinstance(error, PySparkRuntimeError):
            words = "Spark's JVM did not start, and says why above; it needs Java 17 or newer: install it, or set JAVA_HOME"
            raise OptionError(words) from None
        raise
    os.close(its)
    SparkContext(conf=conf, gateway=gateway)


@contextmanager
def without_sigterm() -> Iterator[None]:
    """While within, what this thread starts never hears of SIGTERM: who started it ends it.

    Notes
    -----
    A service manager sends it to all processes at once, and a JVM that goes first takes the work of the others with it. What is
    blocked here is so in threads and processes that are started; a JVM unblocks it again unless it is ignored, which only the
    main thread can see to. Here it waits meanwhile.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main = current_thread() is main_thread()
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def forward(source: int, target: Any) -> None:
    """Copy lines from a file descriptor to a text stream until it ends, but for `NOISE`."""
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if target is not None and not line.startswith(NOISE):
                target.write(line.decode("utf-8", "replace"))
                target.flush()
