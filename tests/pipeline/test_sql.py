"""The queries of docs/sql.md, run on the tables of the shop capture and held against figures counted without SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.conftest import Audited
from tests.pipeline.stored import targets
from tests.pipeline.stored.targets import Folder

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
    most: Counter[tuple[str, str]] = Counter()
    for row in audited.table("rebalances"):
        if row["n_idle"] and (row["protocol_kind"] == "eager" or row["kind"] == "cooperative_followup"):
            most[row["group_id"], row["protocol"]] = max(most[row["group_id"], row["protocol"]], row["n_idle"])
    return {(r["group_id"], r["protocol"]): r["idle"] for r in rows} == most


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
    told = [(f.rank, f.title) for f in audited.result.findings if f.severity != "notice"]
    return [(r["rank"], r["title"]) for r in rows] == told[:20]


CHECKS: tuple[Check, ...] = (causes, behind, over_time, per_minute, restarts, idle, costs, slow, readers, first)


@pytest.fixture(scope="module")
def views(spark: SparkSession, audited: Audited) -> SparkSession:
    """The session with the page's own views."""
    for name in TABLES:
        targets.read(spark, name, Folder(audited.result.out / "tables")).createOrReplaceTempView(name)
    return spark


@pytest.mark.parametrize(("number", "check"), list(enumerate(CHECKS, 1)), ids=lambda value: getattr(value, "__name__", value))
def test_the_answer_is_the_one_counted_without_sql(views: SparkSession, audited: Audited, number: int, check: Check) -> None:
    rows = [row.asDict(recursive=True) for row in views.sql(QUERIES[number]).collect()]
    assert rows
    assert check(rows, audited), rows[:5]


def test_every_query_of_the_page_is_run() -> None:
    assert sorted(QUERIES) == list(range(1, len(CHECKS) + 1))
    assert PAGE.read_text(encoding="utf-8").count("```sql") == len(CHECKS)
