"""The one place where a Spark session is made; stages only use the one they are given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from counterpoise.pipeline.gateway import quiet_context

__all__ = ["LOCAL_SETTINGS", "SMALL", "configured", "local_session"]

LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "33554432",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "262144",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "1048576",
}
"""What a session of our own sets. The batch limits bound what a Python worker holds at once (32 MB of Arrow).

There, Arrow and NumPy have one heap: one of Arrow's own, which its readers and writers take whatever pool a worker sets, keeps
what it freed, and one of glibc's for each thread another 12 MB. There is a task for every core, so no task needs more threads.
The thresholds are fixed because glibc raises them by itself: then a worker keeps the memory of its largest arrays (20 million
records: 278 MB instead of 199; the CPU time of workers is a sixth higher in return).
"""


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """While something is done: these settings of the session, whatever they are otherwise."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


SMALL = 500_000
"""Up to so many records there is one task per core in each stage: each task has a start of its own."""


_NAME = "counterpoise audit"


def local_session(settings: Mapping[str, str] | None = None, *, records: int | None = None) -> tuple[SparkSession, bool]:
    """The active session, or a new one.

    Parameters
    ----------
    settings : mapping, optional
        Further Spark settings; they win over `LOCAL_SETTINGS`. Ignored by an active session.
    records : int, optional
        How many records there are, if that is known: tasks in Python read them, so that the JVM only needs its quick compiler.

    Returns
    -------
    session : SparkSession
    made : bool
        True when it was made here, so whoever asked may stop it.

    Notes
    -----
    Under ``spark-submit`` the master, memory and cores come from there; where ``SPARK_REMOTE`` names a server (Spark Connect),
    from the server: only settings of a session are sent to it. Alone it is ``local[*]`` with as many shuffle partitions as two
    per core.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    cores = os.cpu_count() or 1
    builder = SparkSession.builder.appName(_NAME)
    remote = "SPARK_REMOTE" in os.environ
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or remote
    defaults = {} if submitted else _alone(cores, records)
    whole = {**LOCAL_SETTINGS, **defaults, **(settings or {})}
    if remote:
        whole = {name: value for name, value in whole.items() if name.startswith("spark.sql.")}
    if not submitted:
        quiet_context({"spark.app.name": _NAME, **whole})
    for name, value in whole.items():
        builder = builder.config(name, value)
    return builder.getOrCreate(), True


def _alone(cores: int, records: int | None) -> dict[str, str]:
    small = records is not None and records <= SMALL
    settings = {"spark.master": "local[*]", "spark.sql.shuffle.partitions": str(cores if small else 2 * cores)}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    quiet = f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties").as_uri()}"'
    quick = " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC" if records is not None else ""
    settings["spark.driver.extraJavaOptions"] = quiet + quick
    if "SPARK_DRIVER_MEMORY" not in os.environ:
        settings["spark.driver.memory"] = "2g"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must find this package, and Spark would take the first python3 in the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return settings
