"""Hypothesis profiles and the fixtures that several layers share: one lazy Spark session, one lazy Kafka broker."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.java import QUICK, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERVERS = {
    "audits": re.compile(r"\b(audited: Audited|pieces: Pieces|followed: Followed)\b"),
    "spark": re.compile(r"\bspark: |\(\"spark\"\)"),
    "s3": re.compile(r"\bs3: "),
}
"""What a test file has in it whose tests need an audit that other files read too, a Spark session, the S3-compatible server."""
_WITH_AUDITS = ("incremental", "tables")
"""Folders whose Spark tests run where the shared audits are, so that two workers with a session have about as much to do."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background with SIGINT ignored, and children inherit that: tests interrupt some.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.kafka_broker", "tests.s3_server"]


class ServersOnOneWorker(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """With several workers (`make test`) tests that share an audit run on one of them; so do others that need Spark, or S3.

    Tests of a file with a fixture for the whole module, such as a broker of its own, also stay together.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope_of_file(nodeid.partition("::")[0]) or nodeid


@cache
def _scope_of_file(path: str) -> str:
    """What the tests of a file share, or nothing."""
    text = Path(path).read_text(encoding="utf-8")
    alone = path if 'scope="module"' in text else ""
    server = next((server for server, needed in _SERVERS.items() if needed.search(text)), alone)
    return "audits" if server == "spark" and Path(path).parent.name in _WITH_AUDITS else server


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ServersOnOneWorker:
    """Live groups, which mostly wait, run beside the tests that need Spark."""
    return ServersOnOneWorker(config, log)


# A shared machine stalls for seconds: no deadlines, and a slow draw is no failure.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _COMMON, max_examples=30)
settings.register_profile("ci", _COMMON, max_examples=30, derandomize=True)
settings.register_profile("long", _COMMON, max_examples=1_000)
settings.load_profile(os.environ.get("COUNTERPOISE_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """The marker of single tests and cases that only the long profile runs; whole files: the folders' conftest.py."""
    config.addinivalue_line("markers", "long: only with COUNTERPOISE_PROFILE=long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `long`, unless the profile is; begin with the tutorials, which wait for two minutes.

    Tests of live groups get the marker `soak`.
    """
    for item in items:
        if item.nodeid.startswith("tests/clients/") and item.get_closest_marker("kafka"):
            item.add_marker("soak")
    items.sort(key=lambda item: "tests/tutorials" not in item.nodeid)
    if os.environ.get("COUNTERPOISE_PROFILE") != "long":
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session per test run, started by the first test that asks for it.

    Two cores, no UI, ports on loopback, few shuffle partitions; Arrow settings are Spark's own defaults, as users have them.
    Plans of tests run over a few rows once: compiling and re-planning them costs more than running them, a third of all
    processor time. The audit of the shop (`audited`) runs with both, as a user's does.
    """
    os.environ["JAVA_HOME"] = java_home()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("counterpoise-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", " ".join(("-Xss4m", "-XX:ReservedCodeCacheSize=256m", *QUICK)))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
