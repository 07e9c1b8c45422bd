"""`audit --follow`: the stream gives the rows of the batch, the audits behind it all other tables, and figures fit both."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from counterpoise.pipeline.follow import openmetrics
from counterpoise.pipeline.follow.gauges import Now
from counterpoise.pipeline.follow.query import cause_of
from counterpoise.pipeline.follow.seed import begin_with
from counterpoise.pipeline.incremental.saved import load
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.sources import read_capture
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.follow.conftest import Followed, live_files
from tests.pipeline.follow.growing import Growing
from tests.pipeline.incremental.pieces import comparable_rows

if TYPE_CHECKING:
    pass

FAILED = """[STREAM_FAILED] An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 621, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException:
  File "tail.py", line 150, in _put
    pq.write_table(table, scratch)
OSError: [Errno 28] No space left on device: 'live-000001.parquet'

SQLSTATE: XXKST
"""
Series = dict[tuple[str, ...], float]


def test_streamed_rebalances_are_those_of_the_batch(followed: Followed) -> None:
    assert followed.streamed
    assert followed.live == comparable_rows(followed.whole, "rebalances")


@pytest.mark.parametrize("name", TABLES)
def test_after_a_restart_all_tables_are_those_of_the_batch(followed: Followed, name: str) -> None:
    assert comparable_rows(followed.out, name) == comparable_rows(followed.whole, name)


def test_a_restart_resumes_and_takes_the_live_rows_over(followed: Followed) -> None:
    saved = load(followed.out / ".since" / "state.json")
    assert saved is not None
    assert saved.number == 2
    assert saved.clusters["default"].positions == followed.positions
    assert (followed.out / ".since" / "kept-00000002").is_dir()
    assert live_files(followed.out) == []


def test_figures_that_were_followed_are_figures_read_from_the_tables(followed: Followed) -> None:
    read = Now()
    aborted = json.loads((SHOP / "aborted_offsets.json").read_bytes())
    begin_with(read, followed.whole, "default", {(pair[0], pair[1]) for pair in aborted})
    assert read.groups == followed.follow.now.groups


def test_a_scrape_says_what_the_tables_say(followed: Followed) -> None:
    found = scraped(followed.follow.now)
    report = {row["group_id"]: row for row in rows_of(followed.whole, "group_report")}
    steps = {name: row for name, row in report.items() if row["generations"] is not None and row["state"] != "deleted"}
    assert len(steps) > 8
    for series, column in (
        ("rebalances_total", "rebalances"),
        ("moved_partitions_total", "moved"),
        ("failed_generations_total", "failed_generations"),
        ("members", "members_now"),
        ("idle_members", "idle_now"),
    ):
        assert found[series] == {("default", name): row[column] or 0 for name, row in steps.items()}, series
    judged = {name: row["spread_now"] for name, row in steps.items() if row["spread_now"] is not None and row["members_now"]}
    assert judged
    assert {name: found["spread_partitions"]["default", name] for name in judged} == judged


def test_lag_in_a_scrape_is_that_of_the_newest_sample(followed: Followed) -> None:
    """Of groups all of whose partitions were last committed before it: later commits are in the scrape already."""
    rows = rows_of(followed.whole, "partition_lag")
    ends = pq.read_table(SHOP / "log_offsets.parquet", columns=["sampled_at"])["sampled_at"].to_pylist()
    newest = max(ends)
    late = {row["group_id"] for row in rows_of(followed.whole, "offset_commits") if row["log_ts"] > newest}
    known = [row for row in rows if row["at"] == newest and row["lag"] is not None and row["group_id"] not in late]
    groups = {row["group_id"] for row in known}
    assert len(groups) > 3
    found = scraped(followed.follow.now)
    for group in groups:
        lags = [row for row in known if row["group_id"] == group]
        assert found["sum_lag"]["default", group] == sum(row["lag"] for row in lags), group
        assert found["max_lag"]["default", group] == max(row["lag"] for row in lags), group
        by_member = {owner: sum(row["lag"] for row in lags if row["owner"] == owner) for owner in {row["owner"] for row in lags}}
        told = {key[2]: lag for key, lag in found["member_sum_lag"].items() if key[3] == group and lag}
        assert told == {owner: lag for owner, lag in by_member.items() if owner is not None and lag}, group


def test_a_capture_that_merges_its_files_while_it_is_read_is_read_to_the_end(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "capture")
    for at in range(16):
        growing.grow((at + 1) / 40)
    capture = read_capture(growing.folder)
    growing.merge()
    assert capture.files is not None
    assert [pq.read_table(list(files)).num_rows > 0 for files in (capture.files.records, capture.files.ends)] == [True, True]


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (FAILED, "OSError: [Errno 28] No space left on device: 'live-000001.parquet'"),
        (
            "[STREAM_FAILED] Query terminated: Job aborted\norg.apache.spark.SparkException: x",
            "[STREAM_FAILED] Query terminated: Job aborted",
        ),
        ("\n", "no words"),
    ],
)
def test_of_a_stream_that_failed_the_cause_is_said(told: str, cause: str) -> None:
    assert cause_of(told) == cause


def scraped(now: Now) -> dict[str, Series]:
    """Name of a series after the prefix -> labels in order of their names -> value."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    end = openmetrics.serve(now, port, "127.0.0.1")
    try:
        link = HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("GET", "/metrics")
        text = link.getresponse().read().decode()
    finally:
        end()
    return dict(_series(text))


def _series(text: str) -> Iterator[tuple[str, Series]]:
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = tuple(value for _, value in sorted(one.labels.items()))
            found.setdefault(one.name.removeprefix(openmetrics.PREFIX + "_"), {})[labels] = one.value
    yield from found.items()
