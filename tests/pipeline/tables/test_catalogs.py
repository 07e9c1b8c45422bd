"""Audits into tables of a catalog, in every format that was tried: the rows of the folder, none twice, killed or not.

Iceberg and Delta Lake are made for one version of Spark each, so theirs is fetched with them (`scripts/fetch_lake.sh`). Commands
are as users run them, in processes of their own, with what a user writes into ``spark-defaults.conf``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.manifest import load_manifest
from counterpoise.pipeline.tables.paths import dataset
from tests.java import java_home
from tests.pipeline.conftest import SHOP
from tests.pipeline.incremental.pieces import ENDS, RECORDS, comparable_rows, cut, moment_at, saved_in, until

LAKE = Path(__file__).parents[3] / ".lake"
PROGRAM = "from counterpoise.cli import main\n\nmain()\n"
DUMP = """
import sys
from pyspark.sql import SparkSession
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.keyed import stored

spark = SparkSession.builder.master("local[2]").getOrCreate()
for name in TABLES:
    table = spark.table(Catalog(*sys.argv[1:3]).table(name)).select(*stored(name).names)
    table.coalesce(1).write.parquet(f"{sys.argv[3]}/{name}")
"""
SQL = (
    "import sys\nfrom pyspark.sql import SparkSession\n\nSparkSession.builder.master('local[1]').getOrCreate().sql(sys.argv[1])\n"
)
SOURCE = """
import sys
from pyspark.sql import SparkSession
from counterpoise.pipeline.audit import audit

spark = SparkSession.builder.master("local[2]").getOrCreate()
file, table, middle = sys.argv[1], f"{sys.argv[2]}.records", sys.argv[3]
for some in (f"timestamp < '{middle}'", f"timestamp >= '{middle}'"):
    spark.read.parquet(file).where(some).write.mode("append").saveAsTable(table)
    audit(spark, spark.table(table), "updated", strategies=["sticky"], since_last=True)
audit(spark, spark.table(table), "table", strategies=["sticky"])
audit(spark, file, "file", strategies=["sticky"])
"""
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
    replaces: bool = False
    """Whether it can replace rows."""


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
        replaces=True,
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
        replaces=True,
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

    def kill_while_it_stores(self, words: list[str], prefix: str) -> None:
        """Start the command, and kill it when it has written files of the fifth of twelve tables."""
        folder = self.folder / self.format.folder / f"{prefix}_rebalances"
        before, deadline = set(folder.glob("**/*.parquet")), time.monotonic() + 600
        process = self.start(PROGRAM, *words)
        while set(folder.glob("**/*.parquet")) <= before:
            assert process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def follows_up_to(self, records: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until this process has stored so many records of ``out-shop`` at least."""
        summary, deadline = self.folder / "out-shop" / "summary.json", time.monotonic() + 600
        while not summary.exists() or json.loads(summary.read_text(encoding="utf-8"))["records"]["total"] < max(records, 1):
            assert process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def differences(self, prefix: str, *, final: bool = False) -> list[str]:
        """Tables of the catalog with other rows than those of the folder, or than its final rows."""
        there = self.folder / f"rows-{prefix}"
        shutil.rmtree(there, ignore_errors=True)
        assert self.run(DUMP, self.format.schema, f"{prefix}_", str(there)) == 0, self.said()
        out = self.folder / f"out-{prefix}"
        manifest = load_manifest(str(out))
        assert manifest is not None
        manifest = replace(manifest, files=manifest.files - (provisional_files(out) if final else set()))
        kept = {name: dataset(out / "tables" / name, manifest) for name in TABLES}
        assert [name for name, one in kept.items() if not one.files] in ([], ["changes"])  # no group of the shop changes
        rows = {name: one.to_table(columns=[*TABLES[name].names, "date"]) for name, one in kept.items()}
        assert all(one.num_rows for name, one in rows.items() if name not in ("decode_errors", "changes"))
        return [name for name in TABLES if as_text(pq.read_table(there / name)) != as_text(rows[name])]


def as_text(rows: pa.Table) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def provisional_files(out: Path) -> set[str]:
    """Files of an output folder's manifest with rows that later records may still change."""
    saved = saved_in(out)
    assert saved is not None
    return set(saved.provisional_files)


def user_of(folder: Path, wanted: Format) -> User:
    """An empty folder, a metastore (Derby) or warehouse in it, and a schema."""
    settings = {**COMMON, **wanted.settings}
    env = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
    }
    env |= {"JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(folder / "conf")}
    env |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if wanted.jars:
        found = [str(jar) for jar in sorted((LAKE / "jars").glob("*.jar")) if jar.name.startswith(wanted.jars)]
        assert found, f"{LAKE}: no jars of {wanted.jars}; run `scripts/fetch_lake.sh .lake`"
        settings["spark.jars"] = ",".join(found)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(LAKE / "python"), env.get("PYTHONPATH")]))
    (folder / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    one = User(folder, env, wanted)
    if wanted.schema != "default":
        assert one.run(SQL, f"CREATE NAMESPACE {wanted.schema}") == 0, one.said()
    return one


@pytest.fixture(params=list(FORMATS))
def user(request: pytest.FixtureRequest, tmp_path: Path) -> User:
    """Someone who uses one of the formats."""
    return user_of(tmp_path, FORMATS[request.param])


def test_a_catalog_has_the_rows_of_the_folder_and_none_twice(user: User, tmp_path: Path) -> None:
    """Half of the recording, the same half again, all of it."""
    half = cut(tmp_path / "half", until(0.5, "timestamp"), until(0.5, "sampled_at"))
    for capture in (half, half, SHOP):
        assert user.run(PROGRAM, *user.audit(capture, "shop")) == 1, user.said()
    assert user.differences("shop") == []


@pytest.mark.parametrize("user", ["iceberg", "delta"], indirect=True)
def test_audits_and_updates_of_a_table_of_records_give_the_tables_of_one_of_their_file(user: User) -> None:
    records = pq.read_table(SHOP / RECORDS, filters=[("partition", "in", (0, 4))])
    pq.write_table(records, user.folder / "records.parquet")
    assert user.run(SOURCE, str(user.folder / "records.parquet"), user.format.schema, str(moment_at(0.5))) == 0, user.said()
    for out in ("updated", "table"):
        assert [name for name in TABLES if differ(user.folder / out, user.folder / "file", name)] == []


def differ(one: Path, other: Path, name: str) -> bool:
    return comparable_rows(one, name) != comparable_rows(other, name)


def test_an_audit_killed_while_it_stores_and_run_again_stores_no_row_twice(user: User) -> None:
    """Killed when files of the fifth of twelve tables are there; then again, to its end."""
    words = user.audit(SHOP, "killed")
    user.kill_while_it_stores(words, "killed")
    assert not (user.folder / "out-killed" / "summary.json").exists()
    assert user.run(PROGRAM, *words) == 1, user.said()
    assert user.differences("killed") == []


def test_after_each_update_a_catalog_has_the_rows_of_the_folder_or_the_final_ones(user: User, tmp_path: Path) -> None:
    """Three parts of the recording; the last update reads everything again, and is killed while it stores before it ends."""
    words = [*user.audit(tmp_path / "capture", "shop"), "--since", "last"]
    final = not user.format.replaces
    for share in (0.3, 0.5, 2.0):
        cut(tmp_path / "capture", until(share, "timestamp"), until(share, "sampled_at"))
        if share > 1:
            user.kill_while_it_stores(words, "shop")
        assert user.run(PROGRAM, *words) == 1, user.said()
        assert provisional_files(tmp_path / "out-shop")
        notes = json.loads((tmp_path / "out-shop" / "summary.json").read_text(encoding="utf-8"))["notes"]
        assert sum("format cannot replace rows" in note for note in notes) == final
        # Final rows of a topic that was recreated keep the form that they had.
        assert user.differences("shop", final=final) == (["partition_lag"] if final and share > 1 else [])


@pytest.mark.parametrize("user", ["iceberg"], indirect=True)
def test_two_clusters_are_followed_into_a_catalog(user: User, tmp_path: Path) -> None:
    """The even log partitions are one cluster, which is recorded to its end; the odd ones are another one, which grows."""

    def recorded(name: str, rest: int, share: float) -> str:
        def mine(table: pa.Table) -> pa.ChunkedArray:
            return pc.and_(pc.equal(pc.bit_wise_and(table["partition"], 1), rest), until(share, "timestamp")(table))

        folder = cut(tmp_path / f"{name}-{share}", mine, until(share, "sampled_at"))
        (tmp_path / name).mkdir(exist_ok=True)
        for file in (ENDS, RECORDS):
            (folder / file).replace(tmp_path / name / file)
        for companion in folder.iterdir():
            shutil.copy(companion, tmp_path / name)
        return str(tmp_path / name)

    clusters = [recorded("even", 0, 2.0), "--cluster", "odd", "--cluster", "even", "--follow", "--trigger", "0.5"]
    process = user.start(PROGRAM, *user.audit(Path(recorded("odd", 1, 0.5)), "shop"), *clusters)
    user.follows_up_to(0, process)
    recorded("odd", 1, 2.0)
    user.follows_up_to(pq.read_metadata(SHOP / RECORDS).num_rows, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0, user.said()
    assert user.differences("shop") == []
    assert set(json.loads((tmp_path / "out-shop" / "summary.json").read_text(encoding="utf-8"))["clusters"]) == {"odd", "even"}
