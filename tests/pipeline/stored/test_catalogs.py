"""Audits into tables of a catalog, in every format that was tried: the rows of the folder, none twice, killed or not.

Iceberg and Delta Lake are made for one version of Spark each, so theirs is fetched with them (`scripts/fetch_lake.sh`). Commands
are as users run them, in processes of their own, with what a user writes into ``spark-defaults.conf``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.schemas import TABLES
from tests.java import java_home
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.incremental.pieces import cut, until

LAKE = Path(__file__).parents[3] / ".lake"
PROGRAM = "from counterpoise.cli import main\n\nmain()\n"
DUMP = """
import sys
from pyspark.sql import SparkSession
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.keyed import stored

spark = SparkSession.builder.master("local[2]").getOrCreate()
for name in TABLES:
    table = spark.table(Catalog(*sys.argv[1:3]).table(name)).select(*stored(name).names)
    table.coalesce(1).write.parquet(f"{sys.argv[3]}/{name}")
"""
SQL = (
    "import sys\nfrom pyspark.sql import SparkSession\n\nSparkSession.builder.master('local[1]').getOrCreate().sql(sys.argv[1])\n"
)
COMMON = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.host": "127.0.0.1",
    # As in the session of the tests: of plans over few rows, compiling them and planning them anew is most of the time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
METASTORE = {"spark.sql.catalogImplementation": "hive"}


@dataclass(frozen=True)
class Format:
    """What a user configures, the schema, where the files of its tables lie, and whose jars are wanted (with their Spark)."""

    settings: Mapping[str, str]
    schema: str = "default"
    folder: str = "spark-warehouse"
    jars: tuple[str, ...] = ()


FORMATS = {
    "parquet": Format(METASTORE),
    "hive": Format(
        {**METASTORE, "spark.sql.legacy.createHiveTableByDefault": "true", "spark.hadoop.hive.default.fileformat": "parquet"}
    ),
    "iceberg": Format(
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": "warehouse",
        },
        "lake.audits",
        "warehouse/audits",
        ("iceberg-",),
    ),
    "delta": Format(
        {
            **METASTORE,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.sources.default": "delta",
            # By default 50 tasks read what a table consists of, which is a few files here.
            "spark.databricks.delta.snapshotPartitions": "2",
        },
        jars=("delta-", "unitycatalog-"),
    ),
}


@dataclass(frozen=True)
class User:
    """Someone with a folder, a Spark and its settings."""

    folder: Path
    env: Mapping[str, str]
    format: Format

    def start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a program in the folder, with processes of its own in one group; its words go to ``log``."""
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program, *words],
                env=self.env,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, program: str, *words: str) -> int:
        """The same to its end; the exit code."""
        return self.start(program, *words).wait(600)

    def audit(self, capture: Path, prefix: str) -> list[str]:
        """The words of the command, with a folder that is called as the tables."""
        into = ["--into", self.format.schema, "--table-prefix", f"{prefix}_"]
        return ["audit", str(capture), "--out", f"out-{prefix}", "--strategies", "sticky", *into]

    def said(self) -> str:
        """What the last program said."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def differences(self, prefix: str) -> list[str]:
        """Tables of the catalog with other rows than those of the folder."""
        there = self.folder / f"rows-{prefix}"
        assert self.run(DUMP, self.format.schema, f"{prefix}_", str(there)) == 0, self.said()
        return [name for name in TABLES if self._rows(there / name) != self._kept(prefix, name)]

    def _rows(self, folder: Path) -> list[str]:
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in pq.read_table(folder).to_pylist())

    def _kept(self, prefix: str, name: str) -> list[str]:
        rows = rows_of(self.folder / f"out-{prefix}", name, *TABLES[name].names, "date")
        assert rows or name == "decode_errors"
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


@pytest.fixture(params=list(FORMATS))
def user(request: pytest.FixtureRequest, tmp_path: Path) -> User:
    """An empty folder, a metastore (Derby) or warehouse in it, and a schema."""
    wanted = FORMATS[request.param]
    settings = {**COMMON, **wanted.settings}
    env = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
    }
    env |= {"JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(tmp_path / "conf")}
    env |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if wanted.jars:
        found = [str(jar) for jar in sorted((LAKE / "jars").glob("*.jar")) if jar.name.startswith(wanted.jars)]
        assert found, f"{LAKE}: no jars of {request.param}; run `scripts/fetch_lake.sh .lake`"
        settings["spark.jars"] = ",".join(found)
        env["PYTHONPATH"] = str(LAKE / "python")
    (tmp_path / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    one = User(tmp_path, env, wanted)
    if wanted.schema != "default":
        assert one.run(SQL, f"CREATE NAMESPACE {wanted.schema}") == 0, one.said()
    return one


def test_the_rows_of_the_folder_and_none_twice(user: User, tmp_path: Path) -> None:
    """Half of the recording, the same half again, all of it."""
    half = cut(tmp_path / "half", until(0.5, "timestamp"), until(0.5, "sampled_at"))
    for capture in (half, half, SHOP):
        assert user.run(PROGRAM, *user.audit(capture, "shop")) == 1, user.said()
    assert user.differences("shop") == []


def test_killed_while_it_stores_and_run_again(user: User) -> None:
    """Killed when files of the fifth of ten tables are there; then again, to its end."""
    words = user.audit(SHOP, "killed")
    process, deadline = user.start(PROGRAM, *words), time.monotonic() + 600
    while not any((user.folder / user.format.folder / "killed_rebalances").glob("**/*.parquet")):
        assert process.poll() is None, user.said()
        assert time.monotonic() < deadline, user.said()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    assert not (user.folder / "out-killed" / "summary.json").exists()
    assert user.run(PROGRAM, *words) == 1, user.said()
    assert user.differences("killed") == []
