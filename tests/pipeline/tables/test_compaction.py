"""Small files of a day become one: which are chosen, that rows stay, and that it is part of the transaction with the new rows."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.pipeline.storage.files import join, parquet_file, parquet_writer
from counterpoise.pipeline.tables import compaction
from counterpoise.pipeline.tables.compaction import MOST_FILES, compacted, files_to_merge, merge_files
from counterpoise.pipeline.tables.paths import dataset, day_folder
from counterpoise.pipeline.tables.transaction import TableTransaction

WHEN = datetime(2026, 11, 22, tzinfo=UTC)
TABLE, DAY, OTHER = "rebalances", "2026-11-22", "2026-11-23"


@pytest.fixture(params=["local", "s3"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return join(str(tmp_path) if request.param == "local" else request.getfixturevalue("s3"), "out")


def steps(file: str, first: int, n: int = 2) -> str:
    """Rows of `rebalances` by offset; enough columns to be read."""
    offsets, stamps = pa.array(range(first, first + n), pa.int64()), pa.array([WHEN] * n, pa.timestamp("us", tz="UTC"))
    rows = pa.table({"log_offset": offsets, "log_ts": stamps})
    with parquet_writer(file, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
    return file


def offsets_in(out: str) -> list[int]:
    found: list[int] = dataset(join(out, "tables", TABLE)).to_table(columns=["log_offset"])["log_offset"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize(
    ("sizes", "most", "chosen"),
    [
        ([5] * MOST_FILES, 10**6, 0),
        ([5] * (MOST_FILES + 1), 10**6, MOST_FILES + 1),
        ([5] * (MOST_FILES + 1), 22, 4),
        ([5] * (MOST_FILES + 1), 4, 0),
        ([5] * MOST_FILES + [320], 10**6, MOST_FILES + 1),
        ([5] * MOST_FILES + [321], 10**6, MOST_FILES),
        ([1, 100, *[1000] * MOST_FILES], 10**6, 2),
    ],
)
def test_the_smallest_are_chosen_until_one_is_twice_as_large_as_all_before_it(sizes: list[int], most: int, chosen: int) -> None:
    files = {f"{at:03d}": size for at, size in enumerate(sizes)}
    assert files_to_merge(dict(reversed(files.items())), most) == list(files)[:chosen]


def test_a_thousand_updates_rewrite_each_row_a_few_times_and_leave_few_files() -> None:
    written, files = 0, dict[str, int]()
    for at in range(1000):
        files[f"new-{at:04d}"] = 10
        if chosen := files_to_merge(files, 10**6):
            size = sum(files.pop(file) for file in chosen)
            files[f"merged-{at:04d}"] = size
            written += size
    assert len(files) <= MOST_FILES + 1
    assert written < 10 * 1000 * 10


def test_rows_of_many_files_are_written_in_some_row_groups(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_ROW_GROUP", 100)
    files = [steps(join(out, f"{at}.parquet"), 2 * at) for at in range(9)]
    merge_files(files, join(out, "all.parquet"))
    with parquet_file(join(out, "all.parquet")) as merged, parquet_file(files[0]) as one:
        assert merged.read()["log_offset"].to_pylist() == list(range(18))
        assert 1 < merged.metadata.num_row_groups < 9
        assert merged.schema_arrow == one.schema_arrow


def test_the_days_that_get_rows_are_merged_in_the_transaction_that_brings_them(out: str) -> None:
    work = TableTransaction(out)
    with work.open():
        names = partial(work.new_files.table_file, TABLE, "c")
        files = [steps(names(day), 1000 * (day == OTHER) + 2 * at) for day in (DAY, OTHER) for at in range(MOST_FILES + 1)]
        provisional = steps(names(DAY), 500)
        work.publish([*files, provisional], (), {})
        there = work.manifest.below("tables", TABLE, day_folder("c", DAY))
        other = work.manifest.below("tables", TABLE, day_folder("c", OTHER))
        gone = [file for file in there if file.endswith(work.name_of(provisional).rpartition("/")[2])]
        added, removed = compacted(work, TABLE, {day_folder("c", DAY)}, gone)
        assert sorted(removed) == sorted(set(there) - set(gone))
        before = offsets_in(out)
        work.publish([*added, steps(work.new_files.table_file(TABLE, "c", DAY), 700)], [*removed, *gone], {})
    assert len(added) == 1
    assert work.manifest.below("tables", TABLE, day_folder("c", OTHER)) == other
    assert offsets_in(out) == sorted({*before, 700, 701} - {500, 501})
    assert len(work.manifest.below("tables", TABLE, day_folder("c", DAY))) == 2
