"""Parts of a capture, several captures at once, and names that must not leave the house."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as fn
from rich.console import Console

from counterpoise.cli.app import app
from counterpoise.errors import OptionError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.run import SUMMARY_FORMAT
from counterpoise.pipeline.scan.group_filter import groups_of_topics
from counterpoise.pipeline.scan.read import RAW_SCHEMA
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.scope import AuditScope, parse_time
from counterpoise.pipeline.tables.anonymous import anonymous, fingerprint
from counterpoise.report.render import write_report
from counterpoise.report.terminal import print_audit
from counterpoise.wire.offsets_topic.keys import RecordType, RegexKey, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import ConsumerGroupRegularExpressionValue
from tests.pipeline.conftest import Audited, data_frames, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINCE, UNTIL = datetime(2026, 11, 21, 4, 6, tzinfo=UTC), datetime(2026, 11, 21, 4, 10, tzinfo=UTC)
TWO = ["range", "sticky"]
KINDS = (pa.string(), pa.string(), TABLES["metrics"].field("skewed_topics").type, pa.list_(pa.string()), pa.string())
LATE = "bi-loader"
"""It has generations after the first samples and before its first row of lag."""


@pytest.fixture(scope="module")
def both(spark: SparkSession, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Two clusters (the capture, and again a microsecond later), only groups of a topic, four minutes, a policy, hashed."""
    scope = AuditScope(groups=("*",), topics=("order*",), since=SINCE, until=UNTIL, reset="earliest")
    out = tmp_path_factory.mktemp("both")
    whole = data_frames(spark, shop)
    assert whole.records is not None
    records = whole.records.where("partition in (0, 1, 3)").coalesce(1)
    later = records.withColumn("timestamp", fn.timestamp_micros(fn.unix_micros("timestamp") + 1))
    clusters = {"east": replace(whole, records=records), "west": replace(whole, records=later)}
    return Audited(audit(spark, clusters, out, strategies=TWO, scope=scope, salt="pepper"))


def names_of(audited: Audited) -> set[str]:
    """Every group, topic, client, member and host name of the capture."""
    found = set()
    for row in audited.table("offset_commits", "group_id", "topic"):
        found |= {row["group_id"], row["topic"]}
    for row in audited.table("group_generations", "group_id", "members"):
        found.add(row["group_id"])
        for member in row["members"]:
            found |= {member["member_id"], member["client_id"], member["client_host"], *(member["topics"] or ())}
    for row in audited.table("rebalances", "assignment", "group_id"):
        found.add(row["group_id"])
        found |= {m[name] for m in row["assignment"] for name in ("member_id", "client_id")}
    return {name for name in found if name}


def words_in(value: Any) -> set[str]:
    """Every string anywhere in a row."""
    if isinstance(value, bytes):
        return {value.decode("latin-1")}
    if isinstance(value, dict):
        return set().union(*map(words_in, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(words_in, value))
    return {value} if isinstance(value, str) else set()


def test_no_name_is_left_in_anything_that_is_written_or_printed(both: Audited, audited: Audited) -> None:
    """Every original name is looked for in every table, the summary, the report and the terminal's text."""
    out = both.result.out
    screen = io.StringIO()
    print_audit(both.result.summary, Console(file=screen, width=500), both.table("findings"))
    page = Path(write_report(out)).read_text(encoding="utf-8")
    texts = [screen.getvalue(), page, (out / "summary.json").read_text(encoding="utf-8")]
    for table in sorted((out / "tables").iterdir()):
        texts += ["\n".join(words_in(rows_of(out, table.name)))]
    ordinary = {"audit", "default"}
    names = {name for name in names_of(audited) if len(name) > 3} - ordinary
    assert len(names) > 150
    assert {name for name in names if any(name in text for text in texts)} == set()
    assert [path.name for path in out.parent.iterdir() if "-work" in path.name] == []
    assert "group-" in screen.getvalue()


def every_byte(file: Path) -> bytes:
    """A file as it is, and its columns and values unpacked, from its first bytes: Parquet, Arrow, gzip or Zstandard."""
    data = file.read_bytes()
    if data[:4] == b"PAR1":
        rows = [str(row).encode() for row in pq.read_table(file, partitioning=None).to_pylist()]
        return b"\n".join([data, *rows, str(pq.read_metadata(file).to_dict()).encode(), str(pq.read_schema(file)).encode()])
    if data[:6] == b"ARROW1":
        return data + str(pa.ipc.open_file(data).read_all().to_pylist()).encode()
    if codec := {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}.get(data[:2]):
        return data + pa.CompressedInputStream(pa.BufferReader(data), codec).read()
    return data


def test_no_name_is_left_in_any_byte_below_the_folder(both: Audited, audited: Audited) -> None:
    """In no file, packed or unpacked, hidden or not, and in no name of a file; the same search finds them in a plain audit."""
    names = {name.encode() for name in names_of(audited) if len(name) > 5} - {b"default"}
    counts = []
    for out in (both.result.out, audited.result.out):
        write_report(out)
        files = [path for path in out.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"report.html", "summary.json"}
        text = b"\n".join([every_byte(path) for path in files] + [str(path.relative_to(out)).encode() for path in out.rglob("*")])
        counts.append(len({name for name in names if name in text}))
    assert counts[0] == 0
    assert counts[1] > 100


def test_files_of_an_audit_have_no_wider_rights_than_the_umask(both: Audited) -> None:
    mask = os.umask(0)
    os.umask(mask)
    write_report(both.result.out)
    written = [path for path in both.result.out.rglob("*") if not path.is_symlink()]
    assert {path.suffix for path in written} >= {".parquet", ".json", ".html"}
    wide = [path for path in written if path.stat().st_mode & 0o777 & ~((0o777 if path.is_dir() else 0o666) & ~mask)]
    assert wide == []


def test_topics_that_are_skewed_or_recreated_are_hashed_as_elsewhere() -> None:
    """The shop has none in those minutes; a row without them, and names that come as codes, are hashed alike."""
    columns = ("topic", "client_id", "skewed_topics", "recreated", "detail")
    schema = pa.schema([(name, kind) for name, kind in zip(columns, KINDS, strict=True)])
    skewed = [{"topic": "orders", "most": 3, "fewest": 1, "most_client": "app-1", "fewest_client": None}]
    rows = [("orders", "app-1", skewed, ["orders"], "orders"), ("orders", "app-1", None, None, "x")]
    batch = pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)
    hashed, nothing = anonymous(batch, "salt").to_pylist()
    assert hashed["topic"].startswith("topic-")
    assert [tuple(one.values()) for one in hashed["skewed_topics"]] == [(hashed["topic"], 3, 1, hashed["client_id"], None)]
    assert (hashed["recreated"], nothing["skewed_topics"], nothing["recreated"]) == ([hashed["topic"]], None, None)
    assert (hashed["detail"], nothing["detail"]) == (None, None)
    assert anonymous(batch.slice(1), "salt").to_pylist() == [nothing]
    coded = pa.RecordBatch.from_arrays([batch.column("topic").dictionary_encode()], names=["topic"])
    assert anonymous(coded, "salt").column("topic").to_pylist() == [hashed["topic"]] * 2


def test_hashes_are_the_same_in_every_table_and_cluster(both: Audited) -> None:
    groups = {row["group_id"] for row in both.table("group_report", "group_id")}
    for name in ("offset_commits", "group_generations", "rebalances", "partition_lag", "replays", "metrics", "findings"):
        assert {row["group_id"] for row in both.table(name, "group_id")} <= groups, name
    owners = {row["owner"] for row in both.table("partition_lag", "owner")} - {None}
    assert owners <= {m["member_id"] for row in both.table("rebalances", "assignment") for m in row["assignment"]}
    assert owners


def test_clusters_are_distinguished_everywhere(both: Audited) -> None:
    for name in ("offset_commits", "rebalances", "partition_lag", "replays", "metrics", "group_report", "findings", "actions"):
        counts = Counter(row["cluster"] for row in both.table(name, "cluster"))
        assert counts["east"] == counts["west"] > 0, name
    ranks = [finding["rank"] for finding in both.result.summary["findings"]["top"]]
    assert ranks == list(range(1, len(ranks) + 1))
    assert both.result.summary["clusters"] == ["east", "west"]
    page = (both.result.out / "report.html").read_text(encoding="utf-8")
    assert "east/group-" in page
    assert "west/group-" in page


def test_only_groups_that_use_the_topic_and_their_other_topics_too(both: Audited, audited: Audited) -> None:
    wanted = {row["group_id"] for row in audited.table("offset_commits") if row["topic"].startswith("order")}
    for row in audited.table("group_generations", "group_id", "members"):
        if any(topic.startswith("order") for member in row["members"] for topic in member["topics"] or ()):
            wanted.add(row["group_id"])
    some = {row["group_id"] for row in both.table("group_report", "group_id")}
    assert 3 < len(some) <= len(wanted)
    assert len(wanted) < len({row["group_id"] for row in audited.table("group_report", "group_id")})


def test_a_group_by_itself_is_replayed_as_among_all(spark: SparkSession, audited: Audited, shop: Path, tmp_path: Path) -> None:
    """Which samples its replays know does not depend on what others had then: before its own first lag nothing is known."""
    with configured(spark, {"spark.sql.shuffle.partitions": "1"}):
        out = audit(spark, shop, tmp_path, strategies=["sticky", "lag-sticky"], scope=AuditScope(groups=(LATE,))).out
    assert {row["group_id"] for row in rows_of(out, "group_report")} == {LATE}
    alike = 0
    for name in ("replays", "metrics"):
        mine = rows_of(out, name)
        strategies = {row["strategy"] for row in mine}
        assert strategies == {"observed", "sticky", "lag-sticky"}
        among = [row for row in audited.table(name) if row["group_id"] == LATE and row["strategy"] in strategies]
        assert sorted(mine, key=repr) == sorted(among, key=repr)
        alike += sum(row.get("lag_unknown") == row.get("n_partitions") is not None for row in mine)
    assert alike, "no generation before the group's first row of lag"


def test_who_subscribes_by_pattern_is_chosen_by_what_the_pattern_matches() -> None:
    """The broker says so in a record of its own, perhaps long before anything is committed.

    A group without a topic so far is known, too: if it uses one later, an update lacks its first records.
    """
    kind = RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION
    rows = [
        {
            "key": encode_key(kind, RegexKey(group, pattern)),
            "value": topics and encode_value(kind, ConsumerGroupRegularExpressionValue(topics=topics, version=1, timestamp=1), 0),
            "partition": 0,
            "offset": at,
            "timestamp": SINCE,
        }
        for at, (group, pattern, topics) in enumerate(
            [("watcher", "shop.*", ("shop.a",)), ("other", "x.*", ("x",)), ("gone", "shop.*", None)]
        )
    ]
    found = groups_of_topics([pa.RecordBatch.from_pylist(rows, RAW_SCHEMA)], ("shop.*",))
    assert found == {"gone": False, "other": False, "watcher": True}


def test_the_window_keeps_what_compaction_would_have_left(both: Audited, audited: Audited) -> None:
    """Steps within the window are those of the whole audit; before it there is at most one generation per group."""
    whole = {(row["log_partition"], row["log_offset"]): row for row in audited.table("rebalances")}
    steps = [row for row in both.table("rebalances") if row["cluster"] == "east"]
    inside = [row for row in steps if row["log_ts"] >= SINCE]
    assert all(row["log_ts"] < UNTIL for row in steps)
    assert inside
    classic = [row for row in steps if row["log_ts"] < SINCE and row["group_type"] == "classic"]
    assert set(Counter(row["group_id"] for row in classic).values()) == {1}
    for row in inside:
        assert row["n_members"] == whole[row["log_partition"], row["log_offset"]]["n_members"]
    at = {row["at"] for row in both.table("partition_lag", "at")}
    assert min(at) >= SINCE
    assert max(at) < UNTIL


def test_if_nothing_is_committed_the_reset_policy_gives_the_lag(both: Audited) -> None:
    columns = ("committed", "log_start", "log_end", "lag", "quality")
    without = [row for row in both.table("partition_lag", *columns) if row["committed"] is None]
    assert without
    assert {row["quality"] for row in without} == {"reset_policy"}
    assert all(row["lag"] == row["log_end"] - row["log_start"] for row in without)
    assert any(row["lag"] for row in without)


def test_times_and_windows_that_make_no_sense_are_reported() -> None:
    assert parse_time("2026-11-21T04:06", "--from") == SINCE
    assert parse_time("2026-11-21T05:06+01:00", "--from") == SINCE
    with pytest.raises(OptionError, match="--from yesterday: expected a time like"):
        parse_time("yesterday", "--from")
    with pytest.raises(OptionError, match="no window"):
        AuditScope(since=UNTIL, until=SINCE)
    for name, at in (("since", SINCE.replace(tzinfo=None)), ("until", "2026-11-21")):
        with pytest.raises(OptionError, match=f"{name} 2026-11-21.*: expected a datetime with a time zone"):
            AuditScope(**{name: at})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="--reset none: expected earliest or latest"):
        AuditScope(reset="none")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "words", "message"),
    [
        (None, ["--anonymize"], "the names there are plain;"),
        ("salt", [], "the names there are hashed (give --anonymize and their --salt);"),
        ("salt", ["--anonymize", "--salt", "pepper"], "the names there are hashed with another salt (give theirs with --salt);"),
    ],
)
def test_a_folder_has_names_of_one_kind(shop: Path, tmp_path: Path, before: str | None, words: list[str], message: str) -> None:
    about = {"format": SUMMARY_FORMAT, "hashed": None if before is None else fingerprint(before)}
    (tmp_path / "summary.json").write_text(json.dumps(about), encoding="utf-8")
    result = CliRunner().invoke(app, ["audit", str(shop), *words, "--out", str(tmp_path)])
    assert (result.exit_code, message in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr


def test_a_salt_in_the_environment_is_that_of_the_option(shop: Path, tmp_path: Path) -> None:
    about = {"format": SUMMARY_FORMAT, "hashed": fingerprint("salt")}
    (tmp_path / "summary.json").write_text(json.dumps(about), encoding="utf-8")
    words = ["audit", str(shop), "--anonymize", "--out", str(tmp_path)]
    result = CliRunner(env={"COUNTERPOISE_SALT": "pepper"}).invoke(app, words)
    assert (result.exit_code, "hashed with another salt" in result.stderr) == (2, True), result.stderr


def test_options_that_do_not_go_together_are_reported_before_spark_starts(shop: Path, tmp_path: Path) -> None:
    for words, message in (
        ([str(shop), str(shop)], "give --cluster once for each"),
        ([str(shop), str(shop), "--cluster", "a", "--cluster", "a"], "all different"),
        ([str(shop), "--salt", "x"], "--salt goes with --anonymize"),
        ([str(shop), "--strategies", " , "], "names no strategy; there are: "),
        ([str(shop), "--from", "noon"], "--from noon: expected a time like"),
    ):
        result = CliRunner().invoke(app, ["audit", *words, "--out", str(tmp_path / "out")])
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["groups", "topics"])
def test_one_text_for_the_patterns_is_refused(name: str) -> None:
    """Each of its letters would be a pattern, and ``*`` among them the pattern of all."""
    with pytest.raises(OptionError, match=rf"{name}: expected a tuple of patterns, got one text: give \('bi-\*',\)"):
        AuditScope(**{name: "bi-*"})  # type: ignore[arg-type]
