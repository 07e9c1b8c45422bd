"""Recorded groups of a 4.3.1 broker, in some of which members polled too late: the same rows at once and in pieces.

Members had a `max.poll.interval.ms` of 6 s (those that stall) or 60 s, and a session timeout of 10 s. What they did:

- java-two, java-one, librdkafka: a member stopped polling for 12 s;
- static: a static member for 8 s, back within its session, and later for 24 s;
- paused: a process was stopped for 20 s, beyond its session and within its interval;
- unsubscribed: the only member unsubscribed, subscribed again after 10 s, and was closed in the end;
- by-hand: commits without a member, then the group was deleted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import AuditResult, audit
from counterpoise.pipeline.session import configured
from tests.pipeline.conftest import rows_of
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KICKED = Path(__file__).parents[1] / "data" / "recorded" / "kicked"
STRATEGIES = ("sticky",)
IN_BETWEEN_S = 36.0
"""In java-one and java-two a member has left and is not back yet; in paused too."""


@pytest.fixture(scope="module")
def audited_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    return audit(spark, KICKED, tmp_path_factory.mktemp("kicked") / "out", strategies=STRATEGIES)


def reported(audited: AuditResult, *columns: str) -> dict[str, tuple[Any, ...]]:
    return {row["group_id"]: tuple(row[name] for name in columns) for row in rows_of(audited.out, "group_report")}


def until(folder: Path, seconds: float) -> Path:
    """The recording as it was so many seconds after its first record."""
    folder.mkdir(exist_ok=True)
    first = pc.min(pq.read_table(KICKED / "consumer_offsets.parquet")["timestamp"]).as_py().timestamp()
    for name, column in (("consumer_offsets", "timestamp"), ("log_offsets", "sampled_at")):
        rows = pq.read_table(KICKED / f"{name}.parquet")
        times = pc.cast(rows[column], "int64")
        pq.write_table(rows.filter(pc.less(times, int((first + seconds) * 1e6))), folder / f"{name}.parquet")
    (folder / "topics.json").write_text((KICKED / "topics.json").read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def test_members_that_polled_too_late_are_reported_and_others_are_not(audited_once: AuditResult) -> None:
    figures = reported(audited_once, "poll_kicks", "poll_kick_clients", "poll_kick_generation", "poll_interval_ms")
    assert figures == {
        "java-two": (1, ["a"], 4, 6000),
        "java-one": (1, ["a"], 4, 6000),
        "librdkafka": (1, ["a"], 5, 6000),
        **dict.fromkeys(("static", "paused", "unsubscribed", "by-hand"), (None, None, None, None)),
    }
    found = [row["group_id"] for row in rows_of(audited_once.out, "findings") if row["kind"] == "polled_too_late"]
    assert sorted(found) == ["java-one", "java-two", "librdkafka"]


def test_a_member_left_when_its_record_was_deleted_and_not_when_others_got_its_partitions(audited_once: AuditResult) -> None:
    gone = {
        row["group_id"]: row["log_ts"]
        for row in rows_of(audited_once.out, "modern_group_records")
        if row["record_type"] == 5 and row["deleted"]
    }
    figures = reported(audited_once, "poll_kick_ts")
    assert {group: figures[group] for group in ("java-two", "java-one", "librdkafka")} == {
        group: (gone[group],) for group in ("java-two", "java-one", "librdkafka")
    }


def test_a_deleted_group_that_only_committed_is_simple_and_one_whose_members_left_is_empty(audited_once: AuditResult) -> None:
    figures = reported(audited_once, "group_type", "state", "complete", "members_now")
    assert figures["by-hand"] == ("simple", "deleted", None, 0)
    assert figures["unsubscribed"] == ("consumer", "empty", True, 0)
    assert {group for group, about in figures.items() if about[1] == "stable"} == {*figures} - {"by-hand", "unsubscribed"}
    assert audited_once.summary["groups"]["by_type"] == {"consumer": 6, "simple": 1}
    found = {(row["group_id"], row["kind"]) for row in rows_of(audited_once.out, "findings")}
    assert ("unsubscribed", "dead_groups") in found
    assert not [kind for group, kind in found if group == "by-hand" and kind != "simple_consumer"]


def test_the_summary_has_the_time_that_partitions_stood_still(audited_once: AuditResult) -> None:
    sums: dict[tuple[str, str], float] = {}
    for (runs,) in reported(audited_once, "strategies").values():
        for one in runs or ():
            if one["stopped_seconds"] is not None:
                sums[one["strategy"], one["mode"]] = sums.get((one["strategy"], one["mode"]), 0.0) + one["stopped_seconds"]
    stopped = {(row["strategy"], row["mode"]): row["stopped_seconds"] for row in audited_once.summary["strategies"]}
    assert {key for key in stopped if key in sums} == {("observed", "replay"), ("sticky", "replay"), ("sticky", "closed_loop")}
    assert stopped == {key: pytest.approx(seconds) for key, seconds in sums.items()}
    assert stopped["observed", "replay"] > 0


def test_updates_report_the_same_poll_timeouts_as_one_audit(
    spark: SparkSession, audited_once: AuditResult, tmp_path: Path
) -> None:
    """The first audit ends while members that were kicked out are not back yet."""
    folder, out = tmp_path / "capture", tmp_path / "out"
    with configured(spark, ONE_PARTITION):
        for seconds in (IN_BETWEEN_S, 1000.0):
            last = audit(spark, {"default": until(folder, seconds)}, out, strategies=STRATEGIES, since_last=True)
    for name in ("rebalances", "group_report", "findings"):
        assert comparable_rows(out, name) == comparable_rows(audited_once.out, name), name
    assert last.summary["strategies"] == audited_once.summary["strategies"]
