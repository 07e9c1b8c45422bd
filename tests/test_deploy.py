"""examples/deploy: every command there has options that exist, the DAG has its task, and the Databricks script audits."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import yaml
from pyspark.sql import SparkSession

from counterpoise._version import __version__
from counterpoise.cli.app import app
from counterpoise.pipeline.findings import RULES
from counterpoise.pipeline.findings.policy import read_policy
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.catalog import Catalog
from tests.pipeline.conftest import rows_of
from tests.pipeline.tables import targets

DEPLOY = Path(__file__).parents[1] / "examples" / "deploy"
CAPTURE = Path(__file__).parent / "data" / "recorded" / "kip848"


def commands() -> Iterator[tuple[str, list[str]]]:
    """File and words of each command line; placeholders of a service manager stay as they are."""
    for unit in sorted(DEPLOY.glob("systemd/*.service")):
        line = re.search(r"^ExecStart=((?:.*\\\n)*.*)", unit.read_text(), re.MULTILINE)
        assert line is not None
        yield unit.name, shlex.split(line[1].replace("\\\n", ""))[1:]
    for file in sorted(DEPLOY.glob("kubernetes/*.yaml")):
        for each in _objects(yaml.safe_load_all(file.read_text())):
            if "args" in each:
                yield file.name, each["args"]
    dag = (DEPLOY / "airflow" / "counterpoise_audit.py").read_text()
    yield "counterpoise_audit.py", shlex.split(dag.partition('bash_command="')[2].partition('"')[0])[1:]
    docker = re.search(r"#   docker run --rm counterpoise:\S+ (.+)", (DEPLOY / "Dockerfile").read_text())
    assert docker is not None
    yield "Dockerfile", docker[1].split()


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if not isinstance(value, str | int | bool | None):
        for one in value:
            yield from _objects(one)


@pytest.mark.parametrize(("file", "words"), list(commands()))
def test_a_command_has_options_that_exist_and_go_together(file: str, words: list[str]) -> None:
    context = click.Context(app)
    command = app.get_command(context, words[0])
    assert command is not None, file
    made = command.make_context(words[0], list(words[1:]), parent=context)
    if words[0] == "audit":
        from counterpoise.cli.audit_options import check_together

        check_together({each.opts[0]: made.params[str(each.name)] for each in command.params})


def test_all_kinds_of_files_were_looked_at() -> None:
    assert {file for file, _ in commands()} == {
        *(unit.name for unit in DEPLOY.glob("systemd/*.service")),
        *("follow.yaml", "hourly.yaml", "counterpoise_audit.py", "Dockerfile"),
    }


def test_images_have_the_version_of_this_release() -> None:
    texts = [file.read_text() for file in DEPLOY.rglob("*") if file.is_file()]
    named = {version for text in texts for version in re.findall(r"counterpoise:(\d\S*)", text)}
    assert named == {__version__}


def test_the_rules_of_the_config_map_can_be_read(tmp_path: Path) -> None:
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "hourly.yaml").read_text()))
    (rules,) = [one["data"]["counterpoise.toml"] for one in objects if one["kind"] == "ConfigMap"]
    (tmp_path / "counterpoise.toml").write_text(rules)
    policy = read_policy(tmp_path / "counterpoise.toml", (rule.__name__ for rule in RULES))
    assert [one.name for one in policy.owner] == ["team-orders"]


@pytest.mark.parametrize("airflow", [2, 3])
def test_the_dag_has_one_task_with_the_names_of_both_airflows(airflow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With modules that only record; the check of a release parses it with Airflow itself."""
    made: list[tuple[str, dict[str, Any]]] = []

    class Recorded:
        def __init__(self, *names: str, **given: Any) -> None:
            made.append((type(self).__name__, {"names": names, **given}))

        def __enter__(self) -> Recorded:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    classes = {name: type(name, (Recorded,), {}) for name in ("DAG", "BashOperator")}
    places = {
        2: {"airflow": ["DAG"], "airflow.operators.bash": ["BashOperator"]},
        3: {"airflow.sdk": ["DAG"], "airflow.providers.standard.operators.bash": ["BashOperator"]},
    }
    for place in (*places[2], *places[3], "airflow.operators", "airflow.providers", "airflow.providers.standard"):
        module = ModuleType(place)
        for name in places[airflow].get(place, ()):
            setattr(module, name, classes[name])
        monkeypatch.setitem(sys.modules, place, module)
    runpy.run_path(str(DEPLOY / "airflow" / "counterpoise_audit.py"))
    (dag, about), (task, work) = made
    assert (dag, task, about["names"], work["task_id"]) == ("DAG", "BashOperator", ("counterpoise_audit",), "audit")
    assert (about["max_active_runs"], about["catchup"]) == (1, False)


def test_the_databricks_script_audits_into_a_catalog(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each table of the catalog has the rows of the folder."""
    spark.sql("CREATE DATABASE IF NOT EXISTS deployed")
    script = runpy.run_path(str(DEPLOY / "databricks" / "audit.py"), run_name="script")
    bundle = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
    (task,) = bundle["resources"]["jobs"]["counterpoise_audit"]["tasks"]
    assert (DEPLOY / "databricks" / task["spark_python_task"]["python_file"]).exists()
    assert len(task["spark_python_task"]["parameters"]) == 3
    script["main"](str(CAPTURE), str(tmp_path / "out"), "spark_catalog.deployed")
    for name in TABLES:
        found = targets.read(spark, name, Catalog("deployed", "audit_"))
        columns = ["cluster", next(one for one in ("group_id", "log_offset", "rank") if one in found.columns)]
        there = Counter(tuple(row) for row in found.select(*columns).collect())
        assert there == Counter(tuple(row[column] for column in columns) for row in rows_of(tmp_path / "out", name)), name
    assert spark.table("deployed.audit_rebalances").count() > 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert f"{tmp_path}/out/report.html" in capsys.readouterr().out


def test_the_bundle_brings_the_packages_of_the_extras_that_databricks_lacks() -> None:
    bundle = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
    (task,) = bundle["resources"]["jobs"]["counterpoise_audit"]["tasks"]
    brought = {one["pypi"]["package"] for one in task["libraries"] if "pypi" in one}
    extras = tomllib.loads((DEPLOY.parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {re.split(r"[\[>=<]", line)[0] for name in ("spark", "report", "cli") for line in extras[name]}
    assert brought == needed - {"pyspark", "pyarrow", "pandas", "counterpoise"}  # these are in the runtime, or the wheel
