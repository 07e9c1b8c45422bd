"""What is kept by buckets, or by several of them together, is read back by as many as are wanted: every row once."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.incremental.kept.kept_file import Kept, KeptFile, StatesFile, kept_rows, kept_states

SCHEMA = pa.schema([("group_id", pa.string()), ("n", pa.int64())])
GROUPS = [f"group-{at}" for at in range(90)]


def bucket_of(group: str) -> int:
    return crc32(group.encode()) % BUCKETS


@pytest.mark.parametrize("was", [1, 2, 8, 64])
@pytest.mark.parametrize("now", [1, 4, 8])
def test_rows_come_back_by_as_many_buckets_as_are_wanted(tmp_path: Path, was: int, now: int) -> None:
    marks = {bucket_of(group) // was for group in GROUPS}
    with KeptFile(str(tmp_path), "kept", SCHEMA) as rows, StatesFile(str(tmp_path), "states", SCHEMA) as states:
        for mark in sorted(marks, reverse=True):
            mine = [{"group_id": group, "n": at} for at, group in enumerate(GROUPS) if bucket_of(group) // was == mark]
            for out in (rows, states):
                out.write(pa.Table.from_pylist(mine[:1], SCHEMA), mark)
                out.write(pa.Table.from_pylist(mine[1:], SCHEMA), mark)
    files = {"rows": [(file, marks) for file, marks in rows.told], "states": [(file, marks) for file, marks in states.told]}
    kept = Kept(files, was, now)  # type: ignore[arg-type]
    filled = {bucket_of(group) // now for group in GROUPS}
    assert kept.marks >= filled
    assert was > now or kept.marks == filled
    for read, kind in ((kept_rows, "rows"), (kept_states, "states")):
        found = {mark: read(kept, kind, SCHEMA, mark).to_pylist() for mark in kept.marks}
        assert {mark: {row["group_id"] for row in mine} for mark, mine in found.items() if mine} == {
            mark: {group for group in GROUPS if bucket_of(group) // now == mark} for mark in filled
        }
        assert sorted(row["n"] for mine in found.values() for row in mine) == list(range(len(GROUPS)))
    assert kept_rows(kept, "others", SCHEMA, 0).num_rows == 0
