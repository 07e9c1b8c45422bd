"""Plans for Spark queries: every partition once, from where the group is, and as few restarts as possible."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from counterpoise.cli.app import app
from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.export import EARLIEST, export_plan, export_written
from counterpoise.pipeline.schemas import TABLES

AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(partition: int, committed: int | None, *, clamped: bool = False, **more: Any) -> dict[str, Any]:
    """A row of `partition_lag`: the log holds 10 to 100."""
    lag = None if committed is None else max(0, 100 - max(committed, 10))
    about = {"cluster": "default", "group_id": "g", "topic": "t", "partition": partition, "at": AT, "committed": committed}
    return {**about, "log_start": 10, "log_end": 100, "lag": lag, "owner": None, "quality": "exact", "clamped": clamped, **more}


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """An audit's folder: topic t with seven partitions, one without a commit, one committed below its start."""
    rows = [row(p, 40 + p) for p in range(5)] + [row(5, None), row(6, 3, clamped=True)]
    rows += [row(9, 50, at=AT.replace(year=2025), topic="gone"), row(0, 77, group_id="other")]
    folder = tmp_path / "tables" / "partition_lag"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["partition_lag"]), folder / "part-0.parquet")
    return tmp_path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["export", *(str(word) for word in words)])


def test_every_partition_goes_to_one_query_and_starts_where_the_group_is(audited: Path) -> None:
    plan = export_plan(audited, "g", "sticky", 3)
    given = [(q["query"], p) for q in plan["queries"] for p in json.loads(q["assign"])["t"]]
    assert sorted(p for _, p in given) == list(range(7))
    assert sorted(len(json.loads(q["assign"])["t"]) for q in plan["queries"]) == [2, 2, 3]
    starts = {p: offset for q in plan["queries"] for p, offset in json.loads(q["startingOffsets"])["t"].items()}
    assert starts == {"0": 40, "1": 41, "2": 42, "3": 43, "4": 44, "5": EARLIEST, "6": EARLIEST}
    assert "2 partitions start at their first record" in plan["notes"][0]
    assert plan["no_restart"] == 0


def test_a_partition_without_a_leader_at_the_last_sample_is_in_the_plan_and_a_topic_without_one_is_named(tmp_path: Path) -> None:
    rows = [row(p, 40 + p) for p in range(3)] + [row(0, 9, topic="u")]
    rows += [row(0, 50, at=AT.replace(minute=1))]
    folder = tmp_path / "tables" / "partition_lag"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["partition_lag"]), folder / "part-0.parquet")
    plan = export_plan(tmp_path, "g", "lag-sticky", 1)
    assert json.loads(plan["queries"][0]["startingOffsets"]) == {"t": {"0": 50, "1": 41, "2": 42}}
    assert plan["notes"] == [
        "not in the last sample (no leader, or no commit any more), so as in an earlier one: t 1-2",
        "left out, because the last sample lacks them (topic deleted or recreated, or no leader): u 0",
    ]


def test_the_next_export_restarts_only_queries_whose_partitions_change(audited: Path, tmp_path: Path) -> None:
    """From three queries to four: the three of 7 partitions have 3, 2, 2; the fourth takes one of the three and is new."""
    first = run(audited, "--group", "g", "--queries", 3)
    (tmp_path / "plan.json").write_text(first.stdout, encoding="utf-8")
    same = run(audited, "--group", "g", "--queries", 3, "--previous", tmp_path / "plan.json")
    assert "3 of 3 queries need no restart; kept 7, moved 0" in same.stderr
    wider = run(audited, "--group", "g", "--queries", 4, "--previous", tmp_path / "plan.json")
    plan = json.loads(wider.stdout)
    assert (plan["moved"], plan["no_restart"]) == (1, 2)
    assert [q["query"] for q in plan["queries"] if q["restart"]] == [
        next(q["query"] for q in json.loads(first.stdout)["queries"] if len(json.loads(q["assign"])["t"]) == 3),
        "query-3",
    ]
    fewer = json.loads(run(audited, "--group", "g", "--queries", 2, "--previous", tmp_path / "plan.json").stdout)
    assert "no longer needed: query-2" in fewer["notes"]


def test_offsets_of_stopped_queries_go_before_commits(audited: Path, tmp_path: Path) -> None:
    (tmp_path / "17").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"1":99,"5":60}}\n', encoding="utf-8")
    result = run(audited, "--group", "g", "--queries", 1, "--offsets", tmp_path / "17", "--format", "spark")
    (line,) = map(json.loads, result.stdout.splitlines())
    assert set(line) == {"query", "assign", "startingOffsets"}
    starts = json.loads(line["startingOffsets"])["t"]
    assert (starts["1"], starts["5"], starts["0"]) == (99, 60, 40)
    assert "new, empty checkpointLocation" in result.stderr


def test_assign_calls_are_python(audited: Path) -> None:
    result = run(audited, "--group", "g", "--queries", 2, "--format", "assign", "--strategy", "lag-sticky")
    seen: list[tuple[str, int, int]] = []

    class Consumer:
        def assign(self, listed: list[tuple[str, int, int]]) -> None:
            seen.extend(listed)

    exec(result.stdout, {"consumer": Consumer(), "TopicPartition": lambda *about: about})
    assert sorted(seen)[:2] == [("t", 0, 40), ("t", 1, 41)]
    assert len(seen) == 7


def test_queries_keep_their_names_and_partitions_however_many_there_are(audited: Path) -> None:
    few = export_plan(audited, "g", "sticky", 2)
    many = export_plan(audited, "g", "sticky", 11, previous=few["plan"])
    assert [q["query"] for q in many["queries"]] == [f"query-{number}" for number in range(11)]
    kept = {name: [p for p in many["plan"][name].get("t", []) if p in few["plan"][name]["t"]] for name in few["plan"]}
    assert [len(held) for held in kept.values()] == [1, 1]


def test_a_plan_made_elsewhere_is_exported_query_by_member(tmp_path: Path) -> None:
    """From `plan --json`; the next plan moves one partition, so one of three queries keeps running."""
    first = {"strategy": "sticky", "assignment": {"a": {"t": [1, 0]}, "b": {"t": [2, 3], "u": [0]}, "c": {"t": [4]}}}
    (tmp_path / "first.json").write_text(json.dumps(first), encoding="utf-8")
    exported = run(tmp_path / "first.json")
    assert exported.exit_code == 0, exported.stderr
    (tmp_path / "export.json").write_text(exported.stdout, encoding="utf-8")
    assert "0 of 3 queries need no restart" in exported.stderr
    assert "6 partitions start at their first record" in exported.stderr
    (tmp_path / "next.json").write_text('{"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "c": {"t": [4], "u": [0]}}', encoding="utf-8")
    (tmp_path / "17").write_text('v1\n{}\n{"t":{"0":5,"4":44},"u":{"0":9}}\n', encoding="utf-8")
    result = run(
        tmp_path / "next.json", "--previous", tmp_path / "export.json", "--offsets", tmp_path / "17", "--format", "spark"
    )
    assert "1 of 3 queries need no restart; kept 5, moved 1" in result.stderr
    starts = {about["query"]: json.loads(about["startingOffsets"]) for about in map(json.loads, result.stdout.splitlines())}
    assert starts == {
        "a": {"t": {"0": 5, "1": EARLIEST}},
        "b": {"t": {"2": EARLIEST, "3": EARLIEST}},
        "c": {"t": {"4": 44}, "u": {"0": 9}},
    }


def test_the_group_of_a_plan_is_that_of_its_export_and_partitions_that_nobody_reads_any_more_are_named(tmp_path: Path) -> None:
    """Of the previous export, which read orders 0 to 2."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps({"group": "billing", "strategy": "sticky", "assignment": {"a": {"orders": [0, 1, 2]}}}))
    second.write_text(json.dumps({"a": {"orders": [1]}, "b": {"payments": [0]}}))
    before = export_written(first)
    after = export_written(second, previous=before["plan"])
    assert (before["group"], after["group"]) == ("billing", None)
    assert "2 partitions of the previous export are not in the plan, so no query reads them: orders 0 2" in after["notes"]


def test_queries_without_a_partition_are_named_and_not_printed_to_be_started(audited: Path) -> None:
    plan = json.loads(run(audited, "--group", "g", "--queries", 9).stdout)
    idle = [name for name, share in plan["plan"].items() if not share]
    assert len(idle) == 2
    assert f"no partition is left for {', '.join(idle)}: do not start them (more queries than partitions)" in plan["notes"]
    for form in ("spark", "assign"):
        assert len(run(audited, "--group", "g", "--queries", 9, "--format", form).stdout.splitlines()) == 7


def test_an_export_is_not_taken_for_a_plan_whose_offsets_nobody_knows(audited: Path, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(run(audited, "--group", "g", "--queries", 2).stdout, encoding="utf-8")
    result = run(tmp_path / "export.json", "--format", "spark")
    assert result.exit_code == 2
    assert f"counterpoise export OUT_DIR --group g --queries N --previous {tmp_path / 'export.json'}" in result.stderr


def test_a_plan_that_cannot_be_exported_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "twice.json").write_text('{"a": {"t": [0]}, "b": {"t": [0]}}', encoding="utf-8")
    (tmp_path / "none.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "negative.json").write_text('{"a": {"t": [0, -1]}}', encoding="utf-8")
    for words, message in (
        ((tmp_path / "twice.json",), "t-0 is given to a and to b"),
        ((tmp_path / "none.json",), "no plan ("),
        ((tmp_path / "negative.json",), "negative.json: a has partition -1 of t; give partitions from 0 on"),
        ((tmp_path / "twice.json", "--queries", 2), "--queries with"),
        ((tmp_path, "--group", "g"), "needs --group and --queries"),
    ):
        result = run(*words)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_files_with_different_offsets_of_a_partition_are_refused_in_either_order(audited: Path, tmp_path: Path) -> None:
    for name, last in (("16", '{"t":{"1":50,"2":7}}'), ("17", '{"t":{"1":99}}'), ("18", '{"t":{"1":99,"3":5}}')):
        (tmp_path / name).write_text(f"v1\n{{}}\n{last}\n", encoding="utf-8")
    for first, second, message in (
        ("16", "17", "t-1 ends at 99, in another file at 50"),
        ("17", "16", "t-1 ends at 50, in another"),
    ):
        result = run(audited, "--group", "g", "--queries", 1, "--offsets", tmp_path / first, "--offsets", tmp_path / second)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert f"{tmp_path / second}: {message}" in result.stderr
    result = run(audited, "--group", "g", "--queries", 1, "--offsets", tmp_path / "17", "--offsets", tmp_path / "18")
    starts = json.loads(json.loads(result.stdout)["queries"][0]["startingOffsets"])["t"]
    assert (starts["1"], starts["3"]) == (99, 5)


def test_offsets_of_partitions_that_are_not_in_the_plan_are_named(audited: Path, tmp_path: Path) -> None:
    (tmp_path / "17").write_text('v1\n{}\n{"t":{"0":5,"7":1,"8":1},"tt":{"0":9}}\n', encoding="utf-8")
    (tmp_path / "plan.json").write_text('{"a": {"t": [0, 1, 2]}}', encoding="utf-8")
    note = "offsets of 3 partitions that are not in the plan are not used: t 7-8, tt 0"
    for words in ((audited, "--group", "g", "--queries", 1), (tmp_path / "plan.json",)):
        assert note in run(*words, "--offsets", tmp_path / "17").stderr.splitlines()


def test_wrong_use_gets_one_line(audited: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such table; run the audit again"):
        export_plan(tmp_path / "nowhere", "g", "sticky", 2)
    with pytest.raises(OptionError, match="group nobody has no partitions"):
        export_plan(audited, "nobody", "sticky", 2)
    for queries in (0, 10**11):
        with pytest.raises(OptionError, match=f"{queries} queries: 1 to 10000 are expected"):
            export_plan(audited, "g", "sticky", queries)
    for text, where in (("[]", "plan: "), ('{"plan": {"query-0": {"t": [-1]}}}', "plan.query-0.t[0]: ")):
        (tmp_path / "plan.json").write_text(text, encoding="utf-8")
        result = run(audited, "--group", "g", "--queries", 2, "--previous", tmp_path / "plan.json")
        assert result.exit_code == 2
        assert f"plan.json: {where}" in result.stderr
        assert "an export in JSON is expected" in result.stderr


@pytest.mark.parametrize(
    ("last", "path"),
    [
        ('{"t":"x"}', "offsets.t: "),
        ('{"t":null}', "offsets.t: "),
        ('{"t":[1]}', "offsets.t: "),
        ("[]", "offsets: "),
        ('{"t":{"0":"x"}}', "offsets.t.0: "),
        ('{"t":{"0":null}}', "offsets.t.0: "),
        ('{"t":{"0":-3}}', "offsets.t.0: "),
        ('{"t":{"0":9223372036854775808}}', "offsets.t.0: "),
        ('{"t":{"x":1}}', "offsets.t: "),
        ('{"t":{"1.5":1}}', "offsets.t: "),
        ('{"t":{"-1":1}}', "offsets.t: "),
        (f'{{"t":{{"{"9" * 5000}":1}}}}', "offsets.t: "),
        ('{"t":{"0":Infinity}}', "not JSON: "),
        ('{"t":{"0":NaN}}', "not JSON: "),
        ('{"t":{"0":1e400}}', "not JSON: "),
        (f'{{"t":{{"0":{"9" * 5000}}}}}', "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("", "not JSON: "),
        (b'{"t\xff":{}}', "byte "),
    ],
)
def test_offsets_that_no_checkpoint_holds_name_the_path(audited: Path, tmp_path: Path, last: str | bytes, path: str) -> None:
    file = tmp_path / "17"
    file.write_bytes(b"v1\n{}\n" + (last if isinstance(last, bytes) else last.encode()) if last else b"")
    result = run(audited, "--group", "g", "--queries", 1, "--offsets", file)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert result.stderr.startswith(f"counterpoise: {file}: {path}")
