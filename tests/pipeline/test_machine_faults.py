"""Audits whose workers have no memory, or whose disks are full: one line and exit code 3; run again, the tables are complete.

Minutes: in the long profile.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from tests.cli.commands import RUN
from tests.java import java_home
from tests.pipeline.incremental.pieces import comparable_rows

pytestmark = [pytest.mark.spark, pytest.mark.kills]
OPTIONS = ("--strategies", "sticky")
ENOUGH = "200m"
Limits = dict[str, str]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "capture"
    synthesize(Fleet(records=60_000, groups=40, rebalances=300, seconds=3600.0, sample_every=60.0, seed=5), folder)
    return folder


@pytest.fixture(scope="module")
def whole(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed audit."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert audit(capture, out).returncode in (0, 1)
    return out


def audit(
    capture: Path, out: Path, environment: Limits | None = None, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    words = [*prefix, *RUN, "audit", str(capture), "--out", str(out), *OPTIONS]
    env = os.environ | {"JAVA_HOME": java_home()} | (environment or {})
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env, timeout=600)


def assert_equal(out: Path, whole: Path) -> None:
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []


def assert_one_line(failed: subprocess.CompletedProcess[str], message: str = "") -> None:
    # PySpark's own workers print their limits, if they have any.
    lines = [
        line
        for line in failed.stderr.splitlines()
        if line and " mem limits" not in line and not line.startswith("Setting mem limits")
    ]
    assert (failed.returncode, len(lines)) == (3, 1), failed.stderr
    assert re.match(f"counterpoise: .*{message}", lines[0]), lines
    assert "unexpected error" not in lines[0]


def test_workers_without_memory_end_an_audit_with_one_line(capture: Path, whole: Path, tmp_path: Path) -> None:
    """From too little for the libraries to nearly enough; what an audit that failed has left, the next one deletes."""
    out, failed = tmp_path / "out", 0
    for megabytes in (100, 250, 330, 350, 370):
        conf = tmp_path / f"conf-{megabytes}"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(f"spark.executor.pyspark.memory {megabytes}m\n")
        done = audit(capture, out, {"SPARK_CONF_DIR": str(conf)})
        if done.returncode not in (0, 1):
            assert_one_line(done, "a Python worker of Spark was killed, or was out of memory")
            failed += 1
    assert failed >= 2
    assert audit(capture, out).returncode in (0, 1)
    assert_equal(out, whole)


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[tuple[tuple[str, ...], Callable[[], None]]]:
    """A small disk at a folder; what a command must begin with, and how it gets room. Without root: files of limited size."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    limited = ("/bin/sh", "-c", f'ulimit -f {kilobytes // 8}; exec "$@"', "sh")

    def enlarge() -> None:
        if mounted:
            subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", str(folder)], check=True)

    try:
        yield () if mounted else limited, enlarge
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("kilobytes", [8, 200, 600, 1000, 1500])
def test_a_full_disk_ends_an_audit_with_one_line(capture: Path, whole: Path, tmp_path: Path, kilobytes: int) -> None:
    """At different points of the audit: its tables are on the full disk."""
    with disk(tmp_path / "disk", kilobytes) as (prefix, enlarge):
        out = tmp_path / "disk" / "out"
        assert_one_line(audit(capture, out, prefix=prefix))
        enlarge()
        assert audit(capture, out).returncode in (0, 1)
        assert_equal(out, whole)


@pytest.mark.parametrize("kilobytes", [8, 300])
def test_a_full_disk_of_spark_ends_an_audit_with_one_line(capture: Path, whole: Path, tmp_path: Path, kilobytes: int) -> None:
    """Blocks of the shuffle are on the full disk."""
    with disk(tmp_path / "disk", kilobytes) as (prefix, enlarge):
        out, local = tmp_path / "out", {"SPARK_LOCAL_DIRS": str(tmp_path / "disk"), "TMPDIR": str(tmp_path / "disk")}
        assert_one_line(audit(capture, out, local, prefix))
        enlarge()
        assert audit(capture, out, local).returncode in (0, 1)
        assert_equal(out, whole)
