"""`audit --follow`: many small updates give the tables of one audit, and figures that fit them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from py4j.protocol import Py4JError
from pyspark import SparkContext

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import CaptureError, SourceError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.follow import follower, openmetrics
from counterpoise.pipeline.follow.follower import STALE_S, Follow, cause_of
from counterpoise.pipeline.follow.gauges import Gauges
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured, running_tasks
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.tables.manifest import load_manifest
from counterpoise.pipeline.tables.transaction import TableTransaction
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.follow.conftest import ONE_PARTITION, Followed, number, reached, running, wait
from tests.pipeline.follow.growing import Growing
from tests.pipeline.incremental.pieces import comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "by_day.py", line 150, in _writer
    pq.write_table(table, scratch)
OSError: [Errno 28] No space left on device: 'part-000001.parquet'

SQLSTATE: XXKST
"""
Series = dict[tuple[str, ...], float]


@pytest.mark.parametrize("name", TABLES)
def test_all_tables_are_those_of_one_audit(followed: Followed, name: str) -> None:
    assert comparable_rows(followed.out, name) == comparable_rows(followed.whole, name)


def test_a_restart_adds_nothing_and_has_the_same_figures(followed: Followed) -> None:
    assert followed.rebalances == comparable_rows(followed.whole, "rebalances")
    assert (followed.again.status.updates, number(followed.out)) == (0, followed.first.status.updates)
    assert reached(followed.out) == followed.positions
    assert followed.again.gauges.groups == followed.first.gauges.groups
    assert followed.again.gauges.newest == max(row["log_ts"] for row in rows_of(followed.whole, "rebalances"))


def test_figures_are_those_of_one_audit(followed: Followed) -> None:
    whole, manifest = Gauges(("default",)), load_manifest(str(followed.whole))
    assert manifest is not None
    whole.refresh(manifest)
    assert len(whole.groups) > 8
    assert whole.groups == followed.first.gauges.groups


def test_a_report_comes_with_the_first_update_and_not_before_it_is_due_again(followed: Followed) -> None:
    assert followed.first.status.updates > 2
    assert followed.pages == [1]


def test_a_scrape_says_what_the_tables_say(followed: Followed) -> None:
    found = scraped(followed.first.gauges)
    report = {row["group_id"]: row for row in rows_of(followed.whole, "group_report")}
    steps = {name: row for name, row in report.items() if row["generations"] is not None and row["state"] != "deleted"}
    assert len(steps) > 8
    for series, column in (
        ("rebalances_total", "rebalances"),
        ("moved_partitions_total", "moved"),
        ("failed_generations_total", "failed_generations"),
        ("stopped_partition_seconds", "stopped_partition_seconds"),
        ("members", "members_now"),
        ("idle_members", "idle_now"),
    ):
        known = {("default", name): row[column] for name, row in steps.items() if row[column] is not None}
        assert found[series] == known, series
    judged = {name: row["spread_now"] for name, row in steps.items() if row["spread_now"] is not None and row["members_now"]}
    assert judged
    assert {name: found["spread_partitions"]["default", name] for name in judged} == judged
    empty = [name for name, row in steps.items() if not row["members_now"]]
    assert empty
    assert {found["spread_partitions"]["default", name] for name in empty} == {0}


def test_lag_in_a_scrape_is_that_of_the_newest_sample(followed: Followed) -> None:
    rows = rows_of(followed.whole, "partition_lag")
    newest = max(pq.read_table(SHOP / "log_offsets.parquet", columns=["sampled_at"])["sampled_at"].to_pylist())
    known = [row for row in rows if row["at"] == newest and row["lag"] is not None]
    groups = {row["group_id"] for row in known}
    assert len(groups) > 3
    found = scraped(followed.first.gauges)
    assert {name for _, name in found["sum_lag"]} == groups
    for group in groups:
        lags = [row for row in known if row["group_id"] == group]
        assert found["sum_lag"]["default", group] == sum(row["lag"] for row in lags), group
        assert found["max_lag"]["default", group] == max(row["lag"] for row in lags), group
        times = [row["time_lag_ms"] for row in lags if row["time_lag_ms"] is not None]
        assert found["max_lag_seconds"].get(("default", group)) == (max(times) / 1000 if times else None), group
        owners = {row["owner"] for row in lags} - {None}
        by_member = {owner: sum(row["lag"] for row in lags if row["owner"] == owner) for owner in owners}
        assert {key[2]: lag for key, lag in found["member_sum_lag"].items() if key[3] == group} == by_member, group
    named = {client for client, *_ in found["member_sum_lag"]}
    assert named <= {member["client_id"] for row in rows_of(followed.whole, "rebalances") for member in row["assignment"]}


def test_a_capture_that_merges_its_files_while_it_is_read_is_read_to_the_end(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "capture")
    for at in range(16):
        growing.grow((at + 1) / 40)
    capture = read_capture(growing.folder)
    growing.merge()
    assert [pq.read_table(list(files)).num_rows > 0 for files in (capture.files.records, capture.files.ends)] == [True, True]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (FAILED, "OSError: [Errno 28] No space left on device: 'part-000001.parquet'"),
        ("Job aborted\norg.apache.spark.SparkException: x", "Job aborted"),
        ("\n", "no words"),
    ],
)
def test_of_an_update_that_failed_the_cause_is_said(words: str, cause: str) -> None:
    assert cause_of(words) == cause


@pytest.mark.long  # --since last to an object store: incremental/test_since_last_of.py
def test_followed_to_an_object_store(spark: SparkSession, tmp_path: Path, s3: str) -> None:
    out, capture = f"{s3}/out", Growing(tmp_path / "capture")
    capture.grow(0.1)
    follow = Follow(spark, {"default": tmp_path / "capture"}, out, trigger=0.2, report_every=1e9, strategies=("sticky",))
    with configured(spark, ONE_PARTITION), running(follow):
        wait(lambda: follow.status.updates == 1)
        end = capture.grow(0.3)
        wait(lambda: reached(out) == end and follow.status.updates == number(out))
    whole = audit(spark, tmp_path / "capture", tmp_path / "whole", strategies=("sticky",)).out
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []
    assert follow.gauges.groups


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (OSError(28, "No space left on device"), r"\[Errno 28\] No space left on device"),
        (Py4JError("Answer from Java side is empty"), "Answer from Java side is empty"),  # the JVM was killed
    ],
)
def test_an_update_that_fails_ends_following_with_one_line_and_exit_code_3(
    failure: Exception, reason: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("counterpoise.pipeline.follow.follower.audit", fail)
    follow = Follow(spark, {"default": SHOP}, tmp_path / "out")
    assert follow.trouble() is None
    with pytest.raises(SourceError, match=rf"shop: an update has failed \({reason}\); start again, nothing is lost$") as raised:
        follow.run()
    assert exit_code_of(raised.value) == 3
    cause = raised.value.__cause__
    assert cause is failure or (cause is not None and cause.__cause__ is failure)
    assert (follow.trouble() or "").startswith("failed: ")


def test_whatever_an_update_raises_if_the_jvm_has_ended_the_exit_code_is_3(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    def fail(*_: object, **__: object) -> None:
        ended.append(True)
        raise CaptureError("s.rebalances: some words of Spark")

    monkeypatch.setattr("counterpoise.pipeline.follow.follower.audit", fail)
    monkeypatch.setattr("counterpoise.pipeline.follow.follower.jvm_ended", lambda: bool(ended))
    with pytest.raises(SourceError, match=r"failed \(Spark's JVM has ended\); start again") as raised:
        Follow(spark, {"default": SHOP}, tmp_path / "out").run()
    assert exit_code_of(raised.value) == 3


def test_stop_cancels_a_running_update(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job would take ten minutes."""
    raised: list[Exception] = []

    def endless(batches: Iterator[Any]) -> Iterator[Any]:
        time.sleep(600)
        yield from batches

    def update(*_: object, **__: object) -> None:
        try:
            spark.range(1).mapInArrow(endless, "id long").collect()
        except Exception as error:
            raised.append(error)
            raise

    monkeypatch.setattr("counterpoise.pipeline.follow.follower.audit", update)
    with running(Follow(spark, {"default": SHOP}, tmp_path / "out")):
        wait(lambda: running_tasks()[2] > 0)
    assert len(raised) == 1


def test_the_end_of_the_jvm_is_noticed_even_if_an_idle_update_uses_up_the_trigger(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hasattr(SparkContext._gateway, "proc"), "jvm_ended looks at it"
    monkeypatch.setattr("counterpoise.pipeline.follow.follower.jvm_ended", lambda: True)
    follow = Follow(spark, {"default": SHOP}, tmp_path / "out", trigger=0.0)
    with pytest.raises(OSError, match="Spark's JVM has ended"):
        follow._wait(time.monotonic())


def test_an_update_that_does_not_end_is_trouble_and_a_long_first_one_is_not(spark: SparkSession, tmp_path: Path) -> None:
    follow = Follow(spark, {"default": SHOP}, tmp_path / "out")
    follow._began = time.monotonic() - STALE_S - 5
    follow.status.doing = "reading what is recorded"
    assert follow.trouble() is None
    follow.status.doing = "following"
    assert follow.trouble() == "the last update began 605 s ago and has not ended"
    follow._began += 10
    assert follow.trouble() is None


def test_a_pause_between_two_updates_is_no_trouble_however_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service manager would start it again every ten minutes."""
    now, troubles = [0.0], list[str | None]()
    nobody: Any = None
    follow = Follow(nobody, {"default": SHOP}, tmp_path / "out", trigger=3_600)

    def wait(until: float) -> None:
        now[0] = until - 1
        troubles.append(follow.trouble())
        follow._stopped.set()

    monkeypatch.setattr(follower, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(follower, "audit", lambda *_, **__: SimpleNamespace(nothing_new=True))
    monkeypatch.setattr(follow, "_wait", wait)
    follow.status.doing = "following"
    follow._updates()
    assert troubles == [None]


def test_what_watching_raises_ends_following(spark: SparkSession, tmp_path: Path) -> None:
    def watch() -> None:
        raise CaptureError("recording has ended")

    with pytest.raises(CaptureError, match="recording has ended"):
        Follow(spark, {"default": SHOP}, tmp_path / "out", watch=watch).run()


def test_a_second_writer_of_the_folder_is_refused_with_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with (
        TableTransaction(str(tmp_path / "out")).open(),
        pytest.raises(CaptureError, match="another audit is writing there") as refused,
    ):
        Follow(spark, {"default": SHOP}, tmp_path / "out", trigger=0.2).run()
    assert len(str(refused.value).splitlines()) == 1


def scraped(gauges: Gauges) -> dict[str, Series]:
    """Name of a series after the prefix -> labels in order of their names -> value."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    end = openmetrics.serve(gauges, port, "127.0.0.1", lambda: None)
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
