"""Records that are no commits: each in one bucket, all of a group together in the order of the log, whatever is held at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.direct.files.error_rows import ErrorRows
from counterpoise.pipeline.direct.files.marked_file import MarkedFile, marked_batches
from counterpoise.pipeline.direct.files.reading import RAW, RAW_SCHEMA, are_commits, raw_batches
from counterpoise.pipeline.direct.groups import rest
from counterpoise.pipeline.direct.groups.chosen import ChosenGroups
from counterpoise.pipeline.direct.groups.dealt import PARTS, Dealt
from counterpoise.pipeline.direct.lag.asked_lag import ASKED, AskedLag, LagKnown
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS
from counterpoise.pipeline.direct.tasks import Piece

RECORDS = "consumer_offsets.parquet"


def pieces_of_shop(shop: Path, out: Path) -> list[Piece]:
    """The records of the shop in two files, the later ones first; a key is too short, one is null, a commit damaged."""
    whole = pq.read_table(shop / RECORDS).select(RAW_SCHEMA.names).cast(RAW_SCHEMA)
    keys = (b"\x00\x03\x00", None, b"\x00\x01\x00")
    odd = [{**row, "key": key} for row, key in zip(whole.slice(0, 3).to_pylist(), keys, strict=True)]
    half = len(whole) // 2
    pq.write_table(whole.slice(half), out / "first.parquet", row_group_size=4_000)
    pq.write_table(
        pa.concat_tables([whole.slice(0, half), pa.Table.from_pylist(odd, RAW_SCHEMA)]),
        out / "last.parquet",
        row_group_size=9_000,
    )
    files = [str(out / name) for name in ("first.parquet", "last.parquet")]
    return [Piece("c", ((file, tuple(range(pq.read_metadata(file).num_row_groups))),)) for file in files]


def put_in_buckets(piece: Piece, folder: Path) -> dict[str, Any]:
    with ErrorRows(str(folder)) as errors, rest.Split(str(folder), None, errors) as out:
        for batch in raw_batches(piece, RAW):
            out.add(batch, np.flatnonzero(~are_commits(batch.column("key"))))
    return out.told


@pytest.mark.parametrize(
    ("held", "at_once", "cached"),
    [(16 << 20, 8 << 20, 8 << 20), (2_000, 3_000, 8 << 20), (2_000, 1, 8 << 20), (2_000, 3_000, 9_000)],
)
def test_every_group_comes_whole_and_in_the_order_of_the_log(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, at_once: int, cached: int
) -> None:
    """Whether a bucket's records are held together, or each part is read when it is needed."""
    for name, value in (("_HELD", held), ("_AT_ONCE", at_once), ("_CACHED", cached)):
        monkeypatch.setattr(rest, name, value)
    told = [put_in_buckets(piece, tmp_path) for piece in pieces_of_shop(shop, tmp_path)]
    files = [(about["rest"], about["buckets"]) for about in told]
    read: list[dict[str, Any]] = []
    for bucket in range(BUCKETS):
        mine = [row for batch in rest.in_log_order(files, bucket) for row in batch.to_pylist()]
        groups = [group for group, _ in groupby(mine, key=lambda row: rest.group_of(row["key"]))]
        assert groups == sorted(set(groups))
        read += mine
    for _, rows in groupby(read, key=lambda row: rest.group_of(row["key"])):
        places = [(row["partition"], row["offset"]) for row in rows]
        assert places == sorted(places)
    raw = [row for name in ("first.parquet", "last.parquet") for row in pq.read_table(tmp_path / name).to_pylist()]
    others = [row for row in raw if row["key"] is None or row["key"] >= b"\x00\x02"]
    assert Counter(map(str, read)) == Counter(map(str, others))
    assert (len(files[0][1]) > len(set(files[0][1]))) == (held == 2_000)


def test_what_is_split_off_is_counted_by_type(shop: Path, tmp_path: Path) -> None:
    pieces = pieces_of_shop(shop, tmp_path)
    told = [kind for piece in pieces for kind in put_in_buckets(piece, tmp_path)["kinds"]]
    raw = pa.concat_tables([pq.read_table(tmp_path / name) for name in ("first.parquet", "last.parquet")])
    others = raw.filter(pc.fill_null(pc.greater_equal(raw["key"], b"\x00\x02"), True)).to_pylist()
    kinds = Counter(None if row["key"] is None else int.from_bytes(row["key"][:2], "big") for row in others)
    assert {kind: sum(n for one, n, *_ in told if one == kind) for kind, *_ in told} == dict(kinds)
    assert sum(gone for _, _, gone, *_ in told) == sum(row["value"] is None for row in others)
    times = [int(row["timestamp"].timestamp() * 1e6) for row in others]
    assert (min(at for *_, at, _ in told), max(at for *_, at in told)) == (min(times), max(times))


def lag_row(group: str, at: int, lag: int | None, quality: str = "exact") -> dict[str, Any]:
    blank = dict.fromkeys(LAG_COLUMNS.names)
    return {**blank, "group_id": group, "topic": "t", "partition": 0, "at": at, "lag": lag, "quality": quality, "clamped": False}


def test_a_generation_is_given_the_lag_of_the_last_sample_before_it_whoever_has_rows_of_that(tmp_path: Path) -> None:
    rows = [lag_row("g", 10, 7), lag_row("g", 15, 8, "interpolated"), lag_row("g", 20, 9, "interpolated"), lag_row("h", 10, None)]
    batch = pa.RecordBatch.from_pylist([*rows, lag_row("x", 10, 3)], schema=LAG_COLUMNS)
    instants = [10, 20, 30]
    asked = AskedLag([("g", 12), ("g", 25), ("g", 35), ("h", 12), ("g", 5)], np.array(instants)).of(batch)
    assert [(row["group_id"], row["at"], row["lag"]) for row in asked.to_pylist()] == [("g", 10, 7), ("g", 20, 9)]
    assert len(AskedLag([("g", 35)], np.zeros(0, np.int64)).of(batch)) == 0
    with MarkedFile(str(tmp_path), "asked", ASKED) as out:
        out.write(asked, 3)
    assert out.file is not None
    known = LagKnown([(out.file, out.marks)], 3, instants, str(tmp_path))

    def told(group: str, at: int) -> list[tuple[Any, ...]] | None:
        found = known.at(group, at)
        listed = [(entry["topic"], entry["partitions"].tolist(), entry["lags"].tolist()) for entry in found or ()]
        return None if found is None else listed

    assert told("g", 12) == [("t", [0], [7])]
    assert told("g", 25) == [("t", [0], [9])], "of the very instant of a sample, whatever it is called"
    assert told("g", 35) == []
    assert told("h", 12) == []
    assert told("g", 5) is None


def test_lag_beyond_what_is_held_at_once_is_dealt_over_parts_of_which_each_is_read_once_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups asked for one after the other, in another order than they were written; instants without a row, too."""
    chance = np.random.default_rng(11)
    instants = list(range(10, 400, 10))
    rows = [
        {"group_id": group, "at": at, "topic": topic, "partition": partition, "lag": int(chance.integers(1 << 40))}
        for group in ("b", "a", "empty at times")
        for at in instants
        if group in "ab" or at % 50 == 0
        for topic in ("t", "s")
        for partition in range(7)
    ]
    rows = [rows[at] for at in chance.permutation(len(rows)).tolist()]
    with MarkedFile(str(tmp_path), "asked", ASKED) as out:
        for first in range(0, len(rows), 100):
            out.write(pa.Table.from_pylist(rows[first : first + 100], ASKED), 3)
        out.write(pa.Table.from_pylist([{**rows[0], "lag": 5}], ASKED), 4)
    assert out.file is not None
    files = [(out.file, out.marks)]
    reads: list[range] = []
    read = Dealt.read

    def counted(self: Dealt, parts: range) -> pa.Table:
        reads.append(parts)
        return read(self, parts)

    monkeypatch.setattr(Dealt, "read", counted)

    def told(at_once: int) -> dict[tuple[str, int], list[tuple[str, list[int], list[int]]] | None]:
        found: dict[tuple[str, int], list[tuple[str, list[int], list[int]]] | None] = {}
        with LagKnown(files, 3, instants, str(tmp_path), at_once) as known:
            for group, at in product(("empty at times", "a", "nobody", "b"), (3, *range(10, 420, 5))):
                entries = known.at(group, at)
                listed = [(one["topic"], one["partitions"].tolist(), one["lags"].tolist()) for one in entries or ()]
                found[group, at] = None if entries is None else sorted(listed)
        return found

    whole = told(len(rows))
    assert not reads
    assert sum(len(lags) for listed in whole.values() for *_, lags in listed or ()) > len(rows)
    for at_once, most in ((100, len(rows) // 100 + 1), (1, PARTS)):
        assert told(at_once) == whole
        assert 5 < len(reads) <= most + 2, "each part once, but for those that hold the ends of two groups"
        assert len(set(reads)) >= len(reads) - 2
        reads.clear()
    assert not list((tmp_path / "lag-known").iterdir()), "what was dealt is gone"


def test_records_are_split_off_while_commits_are_decoded_whose_sums_end_at_them(shop: Path, tmp_path: Path) -> None:
    """Sums know where to end by the other records' keys alone."""
    for piece in pieces_of_shop(shop, tmp_path):
        before, marks = put_in_buckets(piece, tmp_path), rest.mark_others(piece, str(tmp_path))["marks"]
        wanted = Wanted(str(tmp_path), (marks,), samples=(0,), width=60e6)
        told, uncut = (decode_piece(piece, replace(wanted, rest=files)) for files in (wanted.rest, ()))
        kept, alone = (
            pa.Table.from_batches(marked_batches([(one["rest"], one["buckets"])], range(BUCKETS))) for one in (told, before)
        )
        assert sorted(map(str, kept.to_pylist())) == sorted(map(str, alone.to_pylist()))
        assert told["kinds"] == before["kinds"]
        marked = sorted(map(str, pq.read_table(marks).to_pylist()))
        assert marked == sorted(str(row) for part in rest.marks_in([(told["rest"], told["buckets"])]) for row in part.to_pylist())
        sums = [pa.Table.from_batches(marked_batches([*one["sums"].items()], range(BUCKETS))) for one in (told, uncut)]
        assert len(sums[0]) > len(sums[1])


def test_of_groups_that_are_not_chosen_records_are_counted_and_only_what_is_damaged_is_kept(shop: Path, tmp_path: Path) -> None:
    for piece in pieces_of_shop(shop, tmp_path):
        plain = Wanted(str(tmp_path), (), samples=(0,), width=60e6)
        whole, some, none = (
            decode_piece(piece, replace(plain, chosen=ChosenGroups(patterns))) for patterns in (("*",), ("order-*",), ("nobody",))
        )
        for name in ("decoded", "tombstones", "errors", "first", "last", "kinds"):
            assert whole[name] == some[name] == none[name]
        rows = [one["tables"]["offset_commits"]["rows"] for one in (whole, some, none)]
        assert rows[0] == whole["decoded"] > rows[1] > rows[2] == 0
        listed = pa.concat_tables([pq.read_table(file) for file in some["tables"]["offset_commits"]["days"].values()])
        assert all(group.startswith("order-") for group in listed["group_id"].to_pylist())
        assert none["rest"] is None
        assert none["tables"]["decode_errors"]["rows"] >= whole["tables"]["decode_errors"]["rows"]
