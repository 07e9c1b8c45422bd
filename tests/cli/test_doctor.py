"""`counterpoise doctor`: each thing that can be missing, with what to do; exit code 1 if something is."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.java import java_home

from counterpoise.cli import doctor_command
from counterpoise.cli.app import app
from counterpoise.errors import HostError, MissingExtraError
from counterpoise.extras import pip_install
from counterpoise.pipeline.capture import cluster

Checks = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def _java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home())


def doctor(*words: str) -> tuple[int, Checks]:
    result = CliRunner().invoke(app, ["doctor", "--json", *words])
    return result.exit_code, {one["what"]: one for one in map(json.loads, result.stdout.splitlines())}


def test_on_this_machine_nothing_is_missing() -> None:
    code, checks = doctor()
    assert (code, {one["ok"] for one in checks.values()}, {one["to_do"] for one in checks.values()}) == (0, {True}, {""})
    extras = {f"extra {name}" for name in metadata.metadata("counterpoise").get_all("Provides-Extra") or ()} - {"extra all"}
    others = {"Java", "assignors in kafka-python", "assignors in aiokafka", "memory", "disk of --out", "disk of Spark"}
    assert checks.keys() == extras | others
    assert f"pyspark {metadata.version('pyspark')}" in checks["extra spark"]["found"]
    assert checks["extra connect"]["found"].count("pandas ") == 1


def test_an_extra_that_is_not_installed_is_not_missing_and_one_that_is_too_old_is(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"duckdb": None, "aiokafka": "0.11.9"}
    monkeypatch.setattr(doctor_command, "_version", lambda name: versions.get(name, "99.0"))
    code, checks = doctor()
    sql, old = checks["extra sql"], checks["extra aiokafka"]
    assert (sql["ok"], sql["found"], sql["to_do"]) == (None, "lacks duckdb", pip_install("sql"))
    assert (old["ok"], old["found"]) == (False, "aiokafka 0.11.9")
    assert old["to_do"] == f"{pip_install('aiokafka')}, which has aiokafka 0.12 or newer"
    assert code == 1


def test_an_extra_lacks_the_packages_of_the_extras_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "_version", lambda name: None if name in {"grpcio", "jinja2"} else "9999")
    checks = doctor()[1]
    assert (checks["extra connect"]["found"], checks["extra follow"]["found"]) == ("lacks jinja2, grpcio", "lacks jinja2")
    assert checks["extra aiokafka"]["found"] == "aiokafka 9999"


@pytest.mark.parametrize(
    ("script", "found"), [(None, "No such file or directory"), ("echo 'version \"11.0.2\"' >&2", '"11.0.2"')]
)
def test_no_java_and_an_old_one_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, found: str
) -> None:
    (tmp_path / "bin").mkdir()
    if script is not None:
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, checks = doctor()
    assert (code, checks["Java"]["ok"], found in checks["Java"]["found"]) == (1, False, True), checks["Java"]
    assert checks["Java"]["to_do"].startswith("install Java 17 or newer")


def test_little_memory_and_a_full_disk_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "_MEMORY", 1e6)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2, 1, 1000))
    code, checks = doctor("--out", str(tmp_path / "no" / "such"))
    assert (code, [checks[name]["ok"] for name in ("memory", "disk of --out", "disk of Spark")]) == (1, [False] * 3)
    assert checks["memory"]["to_do"].endswith("or set SPARK_DRIVER_MEMORY (its default is 2g)")
    assert checks["disk of --out"]["found"] == f"{tmp_path}: 0.0 GiB free"
    assert checks["disk of --out"]["to_do"] == "free some: an audit needs 1 GiB; or give another --out"


def test_a_client_that_hides_what_an_assignor_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise HostError("kafka-python 9.9: lacks _subscription; install 3.0")

    monkeypatch.setattr("counterpoise.clients.kafka_python.StickyAssignor", refuse)
    code, checks = doctor()
    mine = checks["assignors in kafka-python"]
    assert (code, mine["ok"], mine["found"], mine["to_do"]) == (1, False, "kafka-python 9.9: lacks _subscription", "install 3.0")


def test_a_client_that_is_installed_and_cannot_be_imported_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "counterpoise.clients.kafka_python", raising=False)
    monkeypatch.setitem(sys.modules, "kafka.coordinator.assignors", None)
    code, checks = doctor()
    mine = checks["assignors in kafka-python"]
    assert (code, mine["ok"], mine["to_do"]) == (1, False, "install another release of kafka-python")
    assert mine["found"].startswith("cannot be imported: import of kafka.coordinator.assignors halted")
    assert checks["assignors in aiokafka"]["ok"]
    with pytest.raises(
        MissingExtraError, match=r"need kafka-python \(import of kafka.coordinator.assignors halted; .*pip install"
    ):
        importlib.import_module("counterpoise.clients.kafka_python")


def test_a_cluster_that_does_not_answer_is_missing_and_nothing_else_is_asked() -> None:
    code, checks = doctor("--bootstrap-server", "127.0.0.1:1")
    assert (code, list(checks)[-1], checks["cluster"]["ok"]) == (1, "cluster", False)
    assert "127.0.0.1:1 does not answer" in checks["cluster"]["found"]
    assert checks["cluster"]["to_do"] == "check the address, the listener and its security"


def test_a_partition_of_the_offsets_topic_without_a_leader_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster leaves it out of its answers: it is named, and the checks after it are made."""
    known = {(cluster.OFFSETS_TOPIC, index): 7 for index in range(3)}
    monkeypatch.setattr(cluster.Cluster, "cluster_id", "c")
    monkeypatch.setattr(cluster.Cluster, "partitions", lambda *_: list(known))
    monkeypatch.setattr(cluster.Cluster, "offsets", lambda *_: {one: at for one, at in known.items() if one[1] != 1})
    monkeypatch.setattr(cluster.Cluster, "topics", lambda _: {"t": {}})
    code, checks = doctor("--bootstrap-server", "127.0.0.1:1")
    assert (code, checks["cluster"]["ok"], checks["topics"]["ok"]) == (1, True, True)
    mine = checks[cluster.OFFSETS_TOPIC]
    assert mine["found"] == "__consumer_offsets: partition 1 has no leader, so its groups cannot be recorded"
    assert mine["to_do"].startswith("try again when it has one (kafka-topics --describe")


def test_the_table_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "300"})
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Java")]
    assert line.split()[1] == "MISSING"
