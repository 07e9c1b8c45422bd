"""Records to blocks: each is in them once, and no aggregate spans what somebody looks at."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.scan import key_dictionary
from counterpoise.pipeline.scan import scan as scan_module
from counterpoise.pipeline.scan.group_filter import GroupFilter
from counterpoise.pipeline.scan.read import RAW_SCHEMA
from counterpoise.pipeline.scan.scan import ScanSpec, scan
from counterpoise.pipeline.shuffle.blocks import COMMITS, MANIFEST, RECORDS, ClusterTask, bucket_of, read_stream
from counterpoise.pipeline.tables.transaction import NewFiles
from counterpoise.wire.offsets_topic.keys import group_of
from counterpoise.wire.offsets_topic.records import decode_record

Row = dict[str, Any]
BUCKETS = 8


def us(row: Row) -> int:
    return round(row["timestamp"].timestamp() * 1_000_000)


@pytest.fixture(scope="module")
def records(shop: Path) -> pa.Table:
    """Part of the shop; a key is too short, one is null, a commit damaged."""
    whole = pq.read_table(shop / "consumer_offsets.parquet").select(RAW_SCHEMA.names).cast(RAW_SCHEMA).slice(0, 12_000)
    keys = (b"\x00\x03\x00", None, b"\x00\x01\x00")
    last = max(whole["offset"].to_pylist())
    odd = [{**whole.slice(0, 1).to_pylist()[0], "key": key, "offset": last + at} for at, key in enumerate(keys, 1)]
    return pa.concat_tables([whole, pa.Table.from_pylist(odd, RAW_SCHEMA)])


def scanned(records: pa.Table, folder: Path, rows: int = 500, **spec: Any) -> tuple[list[list[Any]], dict[str, Any]]:
    """The blocks of each flush, and the manifest."""
    task = ClusterTask("c", NewFiles(str(folder), 1), 0, BUCKETS)
    *flushes, (manifest,) = scan(records.to_batches(rows), ScanSpec(task, **spec))
    assert manifest.bucket == MANIFEST
    return flushes, json.loads(manifest.payload)


def rows_in(flushes: list[list[Any]], kind: int) -> list[Row]:
    found = []
    for block in (one for flush in flushes for one in flush if one.kind == kind):
        rows: list[Row] = read_stream(block.payload).to_pylist()
        groups = (row["group_id"].encode() if kind == COMMITS else group_of(row["key"]) for row in rows)
        assert {bucket_of(group, BUCKETS) for group in groups} == {block.bucket}
        found += rows
    return found


def commits_of(records: pa.Table) -> dict[tuple[str, str, int], list[Row]]:
    """Sound commits by partition of a group."""
    found = defaultdict(list)
    for row in records.to_pylist():
        if row["key"] is not None and b"\x00\x00" < row["key"] < b"\x00\x02" and len(row["key"]) > 3:
            decoded: Any = decode_record(row["key"], row["value"])
            key = decoded.key
            found[key.group, key.topic, key.partition].append(row)
    return found


@pytest.mark.parametrize("forgets", [False, True], ids=["all keys known", "keys forgotten after every batch"])
def test_no_aggregate_spans_what_somebody_looks_at_and_every_commit_is_in_one(
    records: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Neither another record of its group nor a sample lies between two commits of one row; later ones are single."""
    if forgets:
        monkeypatch.setattr(key_dictionary, "_MOST", 0)
    times = sorted(us(row) for row in records.to_pylist())
    instants, aggregate_until = tuple(times[at] for at in (2_000, 5_000, 7_000)), times[9_000]
    flushes, manifest = scanned(records, tmp_path, instants=instants, aggregate_until=aggregate_until)
    commits, rows = commits_of(records), rows_in(flushes, COMMITS)
    assert (len(flushes) > 10) == forgets
    others = defaultdict(list)
    for row in rows_in(flushes, RECORDS):
        others[group_of(row["key"]).decode(errors="replace")].append(row["offset"])
    assert sum(row["live"] + row["dead"] for row in rows) == sum(map(len, commits.values())) == manifest["decoded"]
    assert sum(row["dead"] for row in rows) == manifest["tombstones"]
    joined = 0
    of_key = defaultdict(list)
    for row in rows:
        of_key[row["group_id"], row["topic"], row["partition"]].append(row)
    assert of_key.keys() == commits.keys()
    for key, mine in of_key.items():
        left = sorted(commits[key], key=lambda row: row["offset"])
        for row in sorted(mine, key=lambda row: row["offset"]):
            n = row["live"] + row["dead"]
            spanned, left = left[:n], left[n:]
            first, last = spanned[0], spanned[-1]
            assert (row["offset"], row["ts"], row["deleted"]) == (last["offset"], us(last), last["value"] is None)
            assert not any(first["offset"] < at < last["offset"] for at in others[key[0]])
            at = [us(one) for one in spanned]
            assert not any(min(at) <= instant < max(at) for instant in instants if instant not in (min(at), max(at)))
            assert n == 1 or max(at) <= aggregate_until
            joined += n > 1
        assert left == []
    assert joined > 50


def test_every_record_that_is_no_commit_is_in_one_block_and_counted_by_type(records: pa.Table, tmp_path: Path) -> None:
    flushes, manifest = scanned(records, tmp_path)
    others = [row for row in records.to_pylist() if row["key"] is None or row["key"] >= b"\x00\x02"]
    assert Counter(map(str, rows_in(flushes, RECORDS))) == Counter(map(str, others))
    kinds = Counter(None if row["key"] is None else int.from_bytes(row["key"][:2], "big") for row in others)
    assert {kind: n for kind, n, _ in manifest["kinds"]} == dict(kinds)
    assert sum(gone for _, _, gone in manifest["kinds"]) == sum(row["value"] is None for row in others)
    times = [us(row) for row in records.to_pylist()]
    assert manifest["times"] == [min(times), max(times)]
    assert (manifest["errors"], manifest["tables"]["decode_errors"]["rows"]) == (1, 1)


def test_blocks_of_a_flush_hold_the_records_between_its_offsets(
    records: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "_RECORD_BYTES", 5_000)
    flushes, manifest = scanned(records, tmp_path)
    assert len(manifest["flushes"]) == len(flushes) > 3
    for blocks, (first, spans) in zip(flushes, manifest["flushes"], strict=True):
        inside = {partition: (low, high) for partition, low, high in spans}
        rows = rows_in([blocks], RECORDS)
        assert {block.first_time for block in blocks} <= {first}
        assert all(inside[row["partition"]][0] <= row["offset"] <= inside[row["partition"]][1] for row in rows)
        assert all(us(row) >= first for row in rows)


def test_of_groups_that_are_not_chosen_records_are_counted_and_only_what_is_damaged_is_kept(
    records: pa.Table, tmp_path: Path
) -> None:
    found = [scanned(records, tmp_path, groups=GroupFilter(patterns)) for patterns in (("*",), ("order-*",), ("nobody",))]
    (_, whole), (flushes, some), (no_flushes, none) = found
    for name in ("decoded", "tombstones", "errors", "times", "kinds", "last", "flushes"):
        assert whole[name] == some[name] == none[name], name
    rows = [one["tables"]["offset_commits"]["rows"] for one in (whole, some, none)]
    assert rows[0] == whole["decoded"] > rows[1] > rows[2] == 0
    assert all(row["group_id"].startswith("order-") for row in rows_in(flushes, COMMITS))
    assert all(group_of(row["key"]).startswith(b"order-") for row in rows_in(flushes, RECORDS))
    assert sum(map(len, no_flushes)) == 0
    assert none["tables"]["decode_errors"]["rows"] >= whole["tables"]["decode_errors"]["rows"]


def test_commits_that_never_took_effect_are_in_the_table_and_in_no_aggregate(records: pa.Table, tmp_path: Path) -> None:
    gone = [row for rows in list(commits_of(records).values())[::5] for row in rows[:3]]
    pairs = {(row["partition"], row["offset"]) for row in gone} | {(gone[0]["partition"] + 1, gone[0]["offset"])}
    flushes, manifest = scanned(records, tmp_path, aborted=frozenset(pairs))
    aborted = sum((row["partition"], row["offset"]) in pairs for rows in commits_of(records).values() for row in rows)
    assert manifest["tables"]["offset_commits"]["rows"] == manifest["decoded"]
    assert sum(row["live"] + row["dead"] for row in rows_in(flushes, COMMITS)) == manifest["decoded"] - aborted


def test_the_manifest_has_the_last_record_of_each_log_partition_and_the_one_before_the_first_that_counts(
    records: pa.Table, tmp_path: Path
) -> None:
    of: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(records.to_pylist(), key=lambda row: row["offset"]):
        of[row["partition"]].append(row)
    many = next(partition for partition, rows in of.items() if len(rows) > 10)
    begin = {many: of[many][5]["offset"]}
    flushes, manifest = scanned(records, tmp_path, begin=begin)
    assert {partition: tuple(last) for partition, *last in manifest["last"]} == {
        partition: (rows[-1]["offset"], us(rows[-1])) for partition, rows in of.items()
    }
    before = [row for row in of[many] if row["offset"] == begin[many] - 1]
    assert before
    assert manifest["before_begin"] == [[many, row["offset"], us(row)] for row in before]
    assert manifest["skipped"]
    assert not scanned(records, tmp_path)[1]["skipped"]
    read = {(row["partition"], row["offset"]) for row in rows_in(flushes, RECORDS)}
    assert min(at for partition, at in read | {(many, NEVER)} if partition == many) >= begin[many]


def test_a_task_that_ran_twice_leaves_its_rows_once(records: pa.Table, tmp_path: Path) -> None:
    """Only files in its manifest become part of the table; those of the other attempt stay where they are."""
    first, manifest = (scanned(records, tmp_path / "work")[1] for _ in range(2))
    days, others = (one["tables"]["offset_commits"]["days"] for one in (manifest, first))
    made = manifest["tables"]["offset_commits"]
    placed = list(map(Path, days.values()))
    assert sum(pq.read_metadata(file).num_rows for file in placed) == made["rows"] == manifest["decoded"]
    assert all(Path(file).exists() for file in others.values())


def test_a_record_without_a_time_at_the_end_of_its_partition_is_not_read_again(records: pa.Table, tmp_path: Path) -> None:
    """An update begins behind the last record of each log partition, and a row of `decode_errors` is written once."""
    few = [row for row in records.slice(0, 500).to_pylist() if row["key"][:2] == b"\x00\x01"]
    at = max(row["offset"] for row in records.to_pylist()) + 1
    more = pa.Table.from_pylist([*few, {**few[0], "offset": at, "timestamp": None}], RAW_SCHEMA)
    place = few[0]["partition"]
    _, manifest = scanned(more, tmp_path)
    assert [place, at, 0] in manifest["last"]
    assert manifest["tables"]["decode_errors"]["rows"] == 1
    _, again = scanned(more, tmp_path, begin={place: at + 1})
    assert ([place, at, 0] in again["before_begin"], again["tables"]["decode_errors"]["rows"]) == (True, 0)
