"""Generations that are handed on come back as they were decoded, by bucket and in order, in parts of some megabytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.files.reading import RAW_SCHEMA
from counterpoise.pipeline.direct.groups import handed_on
from counterpoise.pipeline.records.generations import generation_row
from counterpoise.wire.offsets_topic import decode_record


@pytest.mark.parametrize("held", [2 << 20, 3_000])
def test_generations_come_back_as_they_were_decoded(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(handed_on, "_HELD", held)
    raw = pq.read_table(shop / "consumer_offsets.parquet").select(RAW_SCHEMA.names).cast(RAW_SCHEMA).to_pylist()
    found = (generation_row(one, decode_record(one["key"], one["value"])) for one in raw if one["key"][:2] == b"\x00\x02")
    rows = [row for row in found if row is not None]
    assert any(row["deleted"] for row in rows)
    assert any(member["user_data"] for row in rows for member in row["members"])
    half = len(rows) // 2
    with handed_on.HandedOn(str(tmp_path)) as out:
        for bucket, mine in ((7, rows[:half]), (9, []), (3, rows[half:])):
            take = out.of_bucket(bucket)
            for row in mine:
                take(row)
            out.settle(bucket)
    file, marks = out.told
    assert file is not None
    assert (set(marks), len(marks) > 2) == ({3, 7}, held == 3_000)
    read = {bucket: list(handed_on.handed_on([(file, marks)], bucket)) for bucket in (3, 7, 9)}
    assert read == {3: rows[half:], 7: rows[:half], 9: []}
