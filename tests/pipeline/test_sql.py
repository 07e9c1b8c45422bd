"""The queries of docs/sql.md, run by Spark and DuckDB on tables of the shop and compared with figures counted without SQL."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from counterpoise.cli.app import app
from counterpoise.cli.sql_command import connect
from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.conftest import Audited
from tests.pipeline.tables import targets
from tests.pipeline.tables.targets import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
QUERIES = {
    int(number): query
    for number, query in re.findall(r"^## (\d+)\..*?```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
}
Rows = list[dict[str, Any]]
Check = Callable[[Rows, Audited], bool]


def causes(rows: Rows, audited: Audited) -> bool:
    seen = Counter((r["group_id"], r["cause"]) for r in audited.table("rebalances") if r["kind"] == "rebalance")
    return {(r["group_id"], r["cause"]): r["rebalances"] for r in rows} == seen


def behind(rows: Rows, audited: Audited) -> bool:
    now = {r["group_id"]: r["lag_now"] for r in audited.table("group_report") if r["lag_now"]}
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["group_id"]] += row["lag"]
    return sums == now


def over_time(rows: Rows, audited: Audited) -> bool:
    samples = {r["at"] for r in audited.table("partition_lag") if r["group_id"] == "order-service"}
    return len(rows) == len(samples) > 100 and max(r["lag"] for r in rows) > 0


def per_minute(rows: Rows, audited: Audited) -> bool:
    steps = [r for r in audited.table("rebalances") if r["kind"] == "rebalance"]
    return sum(r["rebalances"] for r in rows) == len(steps)


def restarts(rows: Rows, audited: Audited) -> bool:
    seen = Counter((r["group_id"], client) for r in audited.table("rebalances") for client in r["restarted"])
    return bool(seen) and {(r["group_id"], r["client"]): r["restarts"] for r in rows} == seen


def idle(rows: Rows, audited: Audited) -> bool:
    """As the report says of groups of every kind, for each by its worst protocol."""
    most: Counter[str] = Counter()
    for row in rows:
        most[row["group_id"]] = max(most[row["group_id"]], row["idle"])
    report = audited.table("group_report", "group_id", "idle_peak")
    return most == Counter({row["group_id"]: row["idle_peak"] for row in report if row["idle_peak"]})


def costs(rows: Rows, audited: Audited) -> bool:
    loops = Counter(r["strategy"] for r in audited.table("metrics") if r["mode"] == "closed_loop")
    by_name = {r["strategy"]: r for r in rows}
    fewest = min(r["stopped"] for r in rows)
    same = {r["generations"] for r in rows} == {min(loops.values())} and set(by_name) == set(loops)
    return same and by_name["lag-sticky"]["lag_over_bound"] < by_name["range"]["lag_over_bound"] and rows[0]["stopped"] == fewest


def slow(rows: Rows, audited: Audited) -> bool:
    worst = max(r["sync_latency_ms_max"] or 0 for r in audited.table("group_report"))
    return bool(rows[0]["worst_ms"] == worst)


def readers(rows: Rows, audited: Audited) -> bool:
    seen = Counter(r["group_id"] for r in audited.table("offset_commits") if r["topic"] == "orders" and not r["deleted"])
    return len(seen) > 1 and {r["group_id"]: r["commits"] for r in rows if r["commits"]} == seen


def first(rows: Rows, audited: Audited) -> bool:
    reported = [(f["rank"], f["title"]) for f in audited.result.summary["findings"]["top"] if f["severity"] != "notice"]
    return [(r["rank"], r["title"]) for r in rows] == reported[:20]


CHECKS: tuple[Check, ...] = (causes, behind, over_time, per_minute, restarts, idle, costs, slow, readers, first)


Ask = Callable[[str], Rows]


@pytest.fixture(scope="module")
def asked(spark: SparkSession, audited: Audited) -> dict[str, Ask]:
    """A query engine by name, with a view per table."""
    for name in TABLES:
        targets.read(spark, name, Folder(audited.result.out / "tables")).createOrReplaceTempView(name)
    duck = connect(str(audited.result.out))

    def by_duck(query: str) -> Rows:
        result = duck.execute(query)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    return {"Spark": lambda query: [row.asDict(recursive=True) for row in spark.sql(query).collect()], "DuckDB": by_duck}


@pytest.mark.parametrize("engine", ["Spark", "DuckDB"])
@pytest.mark.parametrize(("number", "check"), list(enumerate(CHECKS, 1)), ids=lambda value: getattr(value, "__name__", value))
def test_the_answer_is_the_one_counted_without_sql(
    asked: dict[str, Ask], audited: Audited, number: int, check: Check, engine: str
) -> None:
    rows = asked[engine](QUERIES[number])
    assert rows
    assert check(rows, audited), rows[:5]


def test_every_query_of_the_page_is_run() -> None:
    assert sorted(QUERIES) == list(range(1, len(CHECKS) + 1))
    assert PAGE.read_text(encoding="utf-8").count("```sql") == len(CHECKS)


def queried(audited: Audited, *words: str) -> Any:
    return CliRunner().invoke(app, ["sql", str(audited.result.out), *words])


def test_the_command_prints_a_table_or_a_json_object_per_row(audited: Audited) -> None:
    steps = len(audited.table("rebalances"))
    query = "SELECT group_id, log_ts, joined FROM rebalances ORDER BY log_ts"
    lines = [json.loads(line) for line in queried(audited, query, "--json").stdout.splitlines()]
    assert len(lines) == steps > 100
    assert list(lines[0]) == ["group_id", "log_ts", "joined"]
    assert lines[0]["log_ts"].startswith("2026-11-21T04:")
    *shown, last = queried(audited, "SELECT log_offset FROM rebalances").stdout.splitlines()
    assert len(shown) == 101
    assert last == f"{steps - 100} more rows are not shown; --json prints all"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "QUERY: Parser Error: "),
        ("SELECT * FROM rebalance", "QUERY: Catalog Error: "),
        (" ", "QUERY is empty; try "),
        (";", "QUERY is empty; try "),
        (";\t", "QUERY is empty; try "),
        ("/* x */", "QUERY is empty; try "),
        ("SELECT * FROM query", "QUERY: Catalog Error: "),
        ("SELECT 1 AS a, 2 AS a", "QUERY: two columns are called 'a'; give one of them another name with AS"),
    ],
)
def test_a_wrong_query_is_one_line(audited: Audited, query: str, message: str) -> None:
    result = queried(audited, query, "--json")
    assert (result.exit_code, message in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr


def test_a_folder_without_tables_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sql", str(tmp_path), "SELECT 1"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path}: no tables; name the output folder of an audit" in result.stderr


def test_values_that_json_lacks_and_names_that_look_like_markup(audited: Audited) -> None:
    values = "'nan'::DOUBLE AS n, MAP {TIMESTAMP '2020-01-01': 1} AS m, [1.5, 'inf'::DOUBLE] AS l, {'a': NULL} AS s"
    row = json.loads(queried(audited, f"SELECT {values}, DATE '2020-01-02' AS d", "--json").stdout)
    assert row == {"n": None, "m": {"2020-01-01T00:00:00": 1}, "l": [1.5, None], "s": {"a": None}, "d": "2020-01-02"}
    shown = queried(audited, 'SELECT 1 AS "[/nope] [b]x"').stdout.splitlines()
    assert shown[0].strip() == "[/nope] [b]x"


def test_an_interrupted_query_ends_like_every_interrupted_command(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def execute(self, _: str) -> None:
            raise RuntimeError("Query interrupted")

    monkeypatch.setattr("counterpoise.cli.sql_command.connect", lambda _: Interrupted())
    assert queried(audited, "SELECT 1").exit_code == 130


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    for name in TABLES:
        (tmp_path / "tables" / name).mkdir(parents=True)
        (tmp_path / "tables" / name / "_SUCCESS").touch()
    table = tmp_path / "tables" / "rebalances" / "cluster=a" / "date=2026-11-21"
    table.mkdir(parents=True)
    (table / "part.parquet").write_bytes(b"PAR1 cut short")
    result = CliRunner().invoke(app, ["sql", str(tmp_path), "SELECT 1"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "tables/rebalances: cannot be read (" in result.stderr
