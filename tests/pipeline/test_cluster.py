"""The same audit on a standalone cluster of two workers, submitted and through Spark Connect: the same tables, row by row.

The commands as users run them, in processes of their own: a process has its own JVM or is the client of a server, never both.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.choice import Choice
from tests.pipeline.conftest import rows_of
from tests.pipeline.spark_cluster import Cluster, standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
GROUPS = ("order-*", "recommendations", "route-optimizer")
"""Range, cooperative, KIP-848 and transactional: every stage has something to do."""
STRATEGIES = ("sticky",)
PROGRAM = "from counterpoise.cli import main\n\nmain()\n"


@pytest.fixture
def capture(shop: Path, tmp_path: Path) -> Path:
    """The shop's, with one more record, which cannot be read: no table is empty."""
    folder = tmp_path / "capture"
    folder.mkdir()
    for name in ("log_offsets.parquet", "topics.json", "aborted_offsets.json"):
        shutil.copy(shop / name, folder)
    records = pq.read_table(shop / "consumer_offsets.parquet")
    damaged = {**records.slice(0, 1).to_pylist()[0], "key": b"\x00\x01\x00", "partition": 0, "offset": 10_000_000}
    pq.write_table(
        pa.concat_tables([records, pa.Table.from_pylist([damaged], records.schema)]), folder / "consumer_offsets.parquet"
    )
    return folder


def command(capture: Path, out: str) -> list[str]:
    """What follows the program's name; `out` is relative: it is the driver's folder that counts."""
    chosen = [word for pattern in GROUPS for word in ("--group", pattern)]
    return ["audit", str(capture), "--out", out, "--strategies", ",".join(STRATEGIES), *chosen]


def submitted(cluster: Cluster, capture: Path) -> int:
    (cluster.folder / "audit.py").write_text(PROGRAM, encoding="utf-8")
    return cluster.run("submitted", cluster.submit("audit.py", *command(capture, "submitted")))


def connected(cluster: Cluster, capture: Path) -> int:
    with cluster.connect() as address:
        return cluster.run(
            "connected", [sys.executable, "-c", PROGRAM, *command(capture, "connected")], {"SPARK_REMOTE": address}
        )


def rows(out: Path, name: str) -> list[str]:
    found = rows_of(out, name, *TABLES[name].names, "date")
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in found)


def differences(out: Path, expected: Path) -> list[str]:
    """Tables and parts of the summary that differ."""
    found, wanted = (json.loads((each / "summary.json").read_text(encoding="utf-8")) for each in (out, expected))
    parts = [f"summary: {part}" for part in {**found, **wanted} if found.get(part) != wanted.get(part)]
    return [name for name in TABLES if rows(out, name) != rows(expected, name)] + parts


def test_a_cluster_gives_the_tables_of_a_local_session(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    """Each way has its own executors on both workers; afterwards nothing of the cluster runs."""
    here = audit(spark, capture, tmp_path / "here", strategies=STRATEGIES, choice=Choice(groups=GROUPS)).out
    assert all(rows(here, name) for name in TABLES)
    with standalone(tmp_path) as cluster:
        for number, (out, way) in enumerate({"submitted": submitted, "connected": connected}.items(), 1):
            assert way(cluster, capture) == 1, cluster.text(out)[-5000:]
            assert differences(tmp_path / out, here) == [], out
            assert len(list(tmp_path.glob("work-*/app-*"))) == 2 * number, f"{out}: an executor on each of two workers"
    assert cluster.stopped == {"master", "worker-0", "worker-1", "submitted", "connect", "connected"}
    for port in cluster.ports:
        with socket.socket() as one:
            assert one.connect_ex(("127.0.0.1", port)), f"something listens on {port}"
