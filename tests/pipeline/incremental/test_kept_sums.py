"""Commits as an audit leaves them for the next one: no more rows than anybody can tell apart later, and the same figures."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.pipeline.direct.groups.bucket import whole_bucket
from counterpoise.pipeline.direct.groups.commit_counts import counts_of
from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.direct.groups.held import STEP_COLUMNS
from counterpoise.pipeline.incremental.kept.kept_file import Kept, kept_rows
from counterpoise.pipeline.incremental.kept.kept_sums import SUMS, compacted, single_sums, tail_of
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import OFFSET_COMMITS, REBALANCES

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
STEPS = pa.schema([arrow_schema(REBALANCES).field(name) for name in STEP_COLUMNS])
COMMITS = arrow_schema(OFFSET_COMMITS)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def commits(*told: tuple[str, int, int | None]) -> pa.Table:
    """Commits of group, second and offset (None: a deletion), at rising places of log partition 3."""
    rows = [
        {
            "group_id": group,
            "topic": "t",
            "partition": 0,
            "log_partition": 3,
            "log_offset": place,
            "log_ts": at(second),
            "committed_offset": offset,
            "deleted": offset is None,
        }
        for place, (group, second, offset) in enumerate(told)
    ]
    return pa.Table.from_pylist(rows, COMMITS)


def step(group: str, second: int, place: int) -> pa.Table:
    row = {
        "group_id": group,
        "log_partition": 3,
        "log_offset": place,
        "log_ts": at(second),
        "kind": "rebalance",
        "assignment": [],
    }
    return pa.Table.from_pylist([row], STEPS)


def kept(
    told: pa.Table, steps: pa.Table, until: int | None, left: set[str] | None = None, cuts: tuple[int, ...] = ()
) -> list[dict[str, Any]]:
    """What is kept of commits when nobody looks up to `until` again, in the order of time; `cuts` are further samples."""
    moment = None if until is None else micros(at(until))
    bucket = whole_bucket(
        told, steps, np.array([*(micros(at(one)) for one in cuts), *([] if moment is None else [moment])], np.int64), 1e9
    )
    rows = compacted(bucket, told, moment, left or set())
    assert counts_of(rows).sort_by("group_id") == counts_of(told).sort_by("group_id")
    return sorted(rows.to_pylist(), key=lambda row: (row["group_id"], row["max_ts"], row["offset"]))


TOLD = (("g", 1, 10), ("g", 2, 11), ("g", 4, 12), ("g", 5, 13), ("g", 8, 14), ("g", 9, 15))


@pytest.mark.parametrize(("until", "offsets"), [(None, [10, 11, 12, 13, 14, 15]), (6, [11, 13, 14, 15]), (20, [11, 15])])
def test_one_row_stays_between_two_steps(until: int | None, offsets: list[int]) -> None:
    rows = kept(single_sums(commits(*TOLD), None), step("g", 3, 100), until)
    assert [row["committed"] for row in rows] == offsets
    assert sum(row["live"] for row in rows) == 6
    assert micros(at(1)) == rows[0]["live_ts"]


def test_groups_whose_steps_may_change_stay_as_they_are() -> None:
    rows = kept(single_sums(commits(*TOLD, ("h", 1, 1), ("h", 2, 2)), None), step("g", 3, 100), 20, {"g"})
    assert [(row["group_id"], row["committed"]) for row in rows] == [*(("g", 10 + n) for n in range(6)), ("h", 2)]


@pytest.mark.parametrize("cuts", [(), (4,)])
def test_times_that_fall_stay_as_they_are(cuts: tuple[int, ...]) -> None:
    """Up to second 4 the newest commit is 11, later it is 10: by time, whatever their places are."""
    rows = kept(single_sums(commits(("g", 5, 10), ("g", 4, 11)), None), step("g", 3, 0), 20, None, cuts)
    assert [row["committed"] for row in rows] == [11, 10]


def test_deletions_count_and_have_no_offset() -> None:
    (row,) = kept(single_sums(commits(("g", 1, 10), ("g", 2, None)), None), STEPS.empty_table(), 20)
    assert (row["committed"], row["deleted"], row["live"], row["dead"], row["live_until"]) == (-1, True, 1, 1, micros(at(1)))


def test_what_was_aborted_is_in_no_sum(tmp_path: Path) -> None:
    (tmp_path / "aborted.json").write_text(json.dumps([[3, 1], [2, 2]]))
    rows = single_sums(commits(*TOLD), str(tmp_path / "aborted.json"))
    assert rows["committed"].to_pylist() == [10, 12, 13, 14, 15]
    assert rows.schema == SUMS


@pytest.mark.parametrize(("after", "offsets"), [(None, [10, 11, 12, 13, 14, 15]), (5, [14, 15]), (9, [])])
def test_the_tail_is_what_is_not_settled(tmp_path: Path, after: int | None, offsets: list[int]) -> None:
    import pyarrow.parquet as pq

    pq.write_table(commits(*TOLD), tmp_path / "commits.parquet")
    moment = None if after is None else micros(at(after))
    told = tail_of(str(tmp_path / "commits.parquet"), moment, None, str(tmp_path))["tail"]
    rows = [kept_rows(Kept({"tail": told}), "tail", SUMS, mark) for _, marks in told for mark in marks]
    assert [one for table in rows for one in table["committed"].to_pylist()] == offsets
