"""The same audit on a standalone cluster of two workers, submitted and through Spark Connect: the golden tables, row by row.

The commands are as users run them, in processes of their own: a process has its own JVM or is the client of a server, never both.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.scope import AuditScope
from tests.cli.commands import family
from tests.pipeline import golden
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.pieces import cut, until
from tests.pipeline.spark_cluster import Cluster, standalone
from tests.pipeline.test_golden import STRATEGIES, captures_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SHARE = 0.5
"""So much of the recording is audited."""
GROUPS = ("order-*", "recommendations", "route-optimizer")
"""Range, cooperative, KIP-848 and transactional: every stage has something to do."""
Way = Callable[[Cluster, list[str], str], int]
PROGRAM = "from counterpoise.cli import main\n\nmain()\n"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """The beginning of the shop's, with one more record, which cannot be read: only `changes` is empty."""
    folder = cut(tmp_path / "capture", until(SHARE, "timestamp"), until(SHARE, "sampled_at"))
    file = folder / "consumer_offsets.parquet"
    records = pq.read_table(file)
    damaged = {**records.slice(0, 1).to_pylist()[0], "key": b"\x00\x01\x00", "partition": 0, "offset": 10_000_000}
    pq.write_table(pa.concat_tables([records, pa.Table.from_pylist([damaged], records.schema)]), file)
    return folder


def command(captures: Mapping[str, Path], out: str, groups: Sequence[str]) -> list[str]:
    """What follows the program's name, for captures by cluster; `out` is relative: it is the driver's folder that counts."""
    chosen = [word for pattern in groups for word in ("--group", pattern)]
    named = [word for name in captures for word in ("--cluster", name)]
    return ["audit", *map(str, captures.values()), *named, "--out", out, "--strategies", ",".join(STRATEGIES), *chosen]


def submitted(cluster: Cluster, words: list[str], name: str) -> int:
    (cluster.folder / "audit.py").write_text(PROGRAM, encoding="utf-8")
    return cluster.run(name, cluster.submit("audit.py", *words))


def connected(cluster: Cluster, words: list[str], name: str) -> int:
    return cluster.run(name, [sys.executable, "-c", PROGRAM, *words], {"SPARK_REMOTE": cluster.address})


def rows(out: Path, name: str) -> list[str]:
    found = rows_of(out, name, *TABLES[name].names, "date")
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in found)


def differences(out: Path, expected: Path) -> list[str]:
    """Tables and parts of the summary that differ."""
    found, wanted = (json.loads((each / "summary.json").read_text(encoding="utf-8")) for each in (out, expected))
    parts = [f"summary: {part}" for part in {**found, **wanted} if found.get(part) != wanted.get(part)]
    return [name for name in TABLES if rows(out, name) != rows(expected, name)] + parts


def test_a_cluster_gives_the_golden_tables_and_those_of_a_local_session(
    spark: SparkSession, shop: Path, capture: Path, tmp_path: Path
) -> None:
    """Each way has its own executors on both workers; afterwards nothing of the cluster runs."""
    (tmp_path / "captures").mkdir()
    whole, half = captures_in(tmp_path / "captures", shop), {"default": capture}
    del whole["default"]  # the shop, which has golden tables of all strategies
    all_groups = audit(spark, dict(whole), tmp_path / "all", strategies=STRATEGIES).out
    some_groups = audit(spark, capture, tmp_path / "some", strategies=STRATEGIES, scope=AuditScope(groups=GROUPS)).out
    assert [[name for name in TABLES if not rows(out, name)] for out in (all_groups, some_groups)] == [[], ["changes"]]
    with standalone(tmp_path) as cluster:
        assert_same(cluster, submitted, whole, all_groups, ())
        assert executors(tmp_path) == 2, "one on each of two workers"
        with cluster.connect():
            assert_same(cluster, connected, whole, all_groups, ())
            assert_same(cluster, connected, half, some_groups, GROUPS)
            assert connected(cluster, ["audit", str(shop), "--out", "connected-shop"], "shop") == 1
        assert executors(tmp_path) == 4
        assert submitted(cluster, ["audit", str(shop), "--out", "submitted-shop"], "shop") == 1
    plain, recordings = golden.frozen("plain"), golden.frozen("recordings")
    expected = {"0": {name: plain[name] | recordings[name] for name in plain}, "shop": golden.frozen("shop")}
    for way, (audited, tables) in product((submitted, connected), expected.items()):
        found = golden.summed_up(cluster.folder / f"{way.__name__}-{audited}")
        assert golden.differences(found, tables) == [], (way.__name__, audited)
    assert cluster.stopped >= {"master", "worker-0", "worker-1", "connect"}
    for port in cluster.ports:
        with socket.socket() as one:
            assert one.connect_ex(("127.0.0.1", port)), f"something listens on {port}"


def test_executors_that_are_killed_change_nothing(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    """Three times one is killed as soon as its Python workers run; Spark starts others, and computes what was on it again."""
    here = audit(spark, capture, tmp_path / "here", strategies=STRATEGIES).out
    with standalone(tmp_path) as cluster:
        (cluster.folder / "audit.py").write_text(PROGRAM, encoding="utf-8")
        cluster.start("killed", cluster.submit("audit.py", *command({"default": capture}, "out", ())))
        process, killed = cluster.running["killed"], set[int]()
        while process.poll() is None and len(killed) < 3:
            for pid in set(executors_at_work(cluster)) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
                break
            time.sleep(0.1)
        assert process.wait(600) == 1, cluster.text("killed")[-5000:]
        assert len(killed) == 3
        assert differences(cluster.folder / "out", here) == []


def test_a_capture_is_followed_through_connect_and_in_a_submission(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    """The second one continues where the first was stopped, and finds nothing new."""
    here = audit(spark, capture, tmp_path / "here", strategies=STRATEGIES).out
    words = [*command({"default": capture}, "followed", ()), "--follow"]
    with standalone(tmp_path) as cluster:
        out = cluster.folder / "followed"
        with cluster.connect():
            cluster.start("connected", [sys.executable, "-c", PROGRAM, *words], {"SPARK_REMOTE": cluster.address})
            cluster.said("connected", "(following: 1 update)")
            cluster.running["connected"].send_signal(signal.SIGTERM)
            assert cluster.running["connected"].wait(60) == 0, cluster.text("connected")[-5000:]
        assert [name for name in TABLES if rows(out, name) != rows(here, name)] == []
        (cluster.folder / "audit.py").write_text(PROGRAM, encoding="utf-8")
        cluster.start("submitted", cluster.submit("audit.py", *words))
        cluster.said("submitted", "(following: 0 update)")
        assert [name for name in TABLES if rows(out, name) != rows(here, name)] == []


def executors_at_work(cluster: Cluster) -> list[int]:
    """Executors of the cluster's workers that have a Python worker's daemon."""
    found = []
    for name in ("worker-0", "worker-1"):
        words = {pid: process_words(pid) for pid in family(cluster.running[name].pid)}
        daemons = [pid for pid, line in words.items() if b"pyspark.daemon" in line]
        found += [
            parent for pid in daemons if (parent := parent_of(pid)) and b"CoarseGrainedExecutorBackend" in words.get(parent, b"")
        ]
    return found


def parent_of(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def process_words(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def assert_same(cluster: Cluster, way: Way, captures: Mapping[str, Path], here: Path, groups: tuple[str, ...]) -> None:
    """An audit on the cluster, and its tables beside those of a local session."""
    out = f"{way.__name__}-{len(groups)}"
    assert way(cluster, command(captures, out, groups), out) == 1, cluster.text(out)[-5000:]
    assert differences(cluster.folder / out, here) == [], out


def executors(folder: Path) -> int:
    return len(list(folder.glob("work-*/app-*")))
