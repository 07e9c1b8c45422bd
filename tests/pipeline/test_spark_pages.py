"""The commands of docs/cluster.md and docs/catalogs.md, with a local master for the cluster and a metastore for the lake.

test_cluster.py and tables/test_catalogs.py have real ones.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.spark_cluster import SETTINGS, Cluster, free_port
from tests.pipeline.test_pages import ROOT, text

pytestmark = pytest.mark.spark
FOUND = "4 groups made 27 rebalances"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A folder with a capture where the pages have one, and Spark's settings of the tests."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    configure(tmp_path)
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "prod").symlink_to(ROOT / "tests" / "data" / "recorded" / "kip848")
    made = Cluster(tmp_path)
    yield made
    for name in made.running:
        made.stop(name)


def configure(folder: Path, *more: str) -> None:
    lines = [*(f"{name} {value}" for name, value in SETTINGS.items() if name != "spark.log.level"), *more]
    (folder / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")


def commands(page: str) -> list[str]:
    """The commands of a page that are no `pip install`."""
    return re.findall(
        r"^ {4}((?:printf|spark-submit|SPARK_REMOTE=|counterpoise ).*)", text(page).replace("\\\n", " "), re.MULTILINE
    )


def shell(command: str, machine: Cluster) -> list[str]:
    return ["/bin/sh", "-c", command.replace("spark://spark.example.org:7077", "'local[2]'").replace("/mnt", str(machine.folder))]


def test_an_audit_is_submitted_and_is_the_client_of_a_server(machine: Cluster) -> None:
    program, submit, remote, server = commands("docs/cluster.md")
    assert machine.run("program", shell(program, machine)) == 0
    assert (machine.run("submit", shell(submit, machine)), FOUND in machine.text("submit")) == (1, True), machine.text("submit")
    port = str(free_port())
    machine.start("server", shell(server.replace("15002", port), machine))
    machine.said("server", r"(Spark Connect server started at)")
    (machine.folder / "audits").rename(machine.folder / "submitted")
    code = machine.run("remote", shell(remote.replace("spark.example.org:15002", f"127.0.0.1:{port}"), machine))
    machine.stop("server")
    assert (code, FOUND in machine.text("remote")) == (1, True), machine.text("remote")


def test_an_audit_into_a_catalog(machine: Cluster) -> None:
    (audit,) = commands("docs/catalogs.md")
    hive = re.findall(r"^ {4}(spark\.sql\.catalogImplementation .*)", text("docs/catalogs.md"), re.MULTILINE)
    configure(machine.folder, *hive)
    code = machine.run("audit", shell(audit.replace("lake.audits", "default"), machine))
    assert (code, FOUND in machine.text("audit")) == (1, True), machine.text("audit")
    assert list(machine.folder.glob("spark-warehouse/prod_rebalances/cluster=default/date=*/*.parquet"))
