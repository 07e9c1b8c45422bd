"""The Spark session: the only module that creates one; stages take it as an argument."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from counterpoise.pipeline.gateway import start_context

__all__ = ["LOCAL_SETTINGS", "SMALL", "configured", "local_session", "running_tasks"]

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
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "2097152",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "8388608",
}
"""Settings of a new session. The batch limits bound the memory of a Python worker (32 MB of Arrow at once).

Arrow and NumPy share one heap in a worker: Arrow's readers and writers ignore the pool that a worker sets, and Arrow's own heap
keeps freed memory. Each thread would have another glibc arena of 12 MB; there is a task for every core, so a task needs no more
threads. The malloc thresholds are fixed because glibc raises them otherwise, and a worker keeps the memory of its
largest arrays. With an eighth of these values each array is mapped anew: a sixth more CPU time, 40 MB less per worker.
"""


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within the context, the session has these settings; they are restored at the end."""
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


def running_tasks() -> tuple[tuple[int, ...], int, int]:
    """The running Spark stages of this process, their tasks that are done, and all tasks; (), 0, 0: none, or unknown."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public way that starts none
    try:
        tracker = None if context is None else context.statusTracker()
        stages = {} if tracker is None else {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
    except Exception:  # noqa: BLE001 - a JVM that ends, in the thread that only shows progress
        stages = {}
    known = {number: one for number, one in sorted(stages.items()) if one is not None}
    return tuple(known), sum(one.numCompletedTasks for one in known.values()), sum(one.numTasks for one in known.values())


SMALL = 500_000
"""Up to this number of records a stage has one task per core, because the start of each task costs time."""


_NAME = "counterpoise audit"


def local_session(settings: Mapping[str, str] | None = None, *, records: int | None = None) -> tuple[SparkSession, bool]:
    """The active session, or a new one; and whether it is new, so that the caller stops it.

    `settings` override `LOCAL_SETTINGS` in a new session. If the number of `records` is known, tasks in Python read them, and the
    JVM needs its quick compiler only.

    Under ``spark-submit`` the master, memory and cores are those of the submission. If ``SPARK_REMOTE`` names a server (Spark
    Connect), they are the server's; only ``spark.sql`` settings are sent to it. Otherwise the master is ``local[*]``, with two
    shuffle partitions per core.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    cores = os.cpu_count() or 1
    remote = "SPARK_REMOTE" in os.environ
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or remote
    defaults = {} if submitted else _alone(cores, records)
    whole = {**LOCAL_SETTINGS, **defaults, **(settings or {})}
    if remote:
        whole = {name: value for name, value in whole.items() if name.startswith("spark.sql.")}
    if not submitted:
        start_context({"spark.app.name": _NAME, **whole})
    return SparkSession.builder.appName(_NAME).config(map={**whole}).getOrCreate(), True


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
