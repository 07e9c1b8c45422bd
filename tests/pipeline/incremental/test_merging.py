"""Small files of a day become one: which are chosen, that rows stay, and that it is part of one commit with the new rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.incremental import view as view_module
from counterpoise.pipeline.incremental.journal import Journal
from counterpoise.pipeline.incremental.merging import MOST_FILES, files_to_merge, merge_files
from counterpoise.pipeline.incremental.view import View
from tests.pipeline.conftest import rows_of

WHEN = datetime(2026, 11, 22, tzinfo=UTC)
DAY = Path("cluster=c") / "date=2026-11-22"


def sized(folder: Path, sizes: list[int]) -> list[Path]:
    for at, size in enumerate(sizes):
        (folder / f"{at:03d}").write_bytes(b"x" * size)
    return sorted(folder.iterdir())


def steps(file: Path, first: int, n: int = 2) -> None:
    """Rows of `rebalances` by offset; enough columns to be read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    offsets, stamps = pa.array(range(first, first + n), pa.int64()), pa.array([WHEN] * n, pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"log_offset": offsets, "log_ts": stamps}), file, store_schema=False)


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
def test_the_smallest_are_chosen_until_one_is_twice_as_large_as_all_before_it(
    sizes: list[int], most: int, chosen: int, tmp_path: Path
) -> None:
    files = sized(tmp_path, sizes)
    assert files_to_merge(reversed(files), most) == files[:chosen]


def test_a_thousand_updates_rewrite_each_row_a_few_times_and_leave_few_files(tmp_path: Path) -> None:
    written = 0
    for at in range(1000):
        (tmp_path / f"new-{at:04d}").write_bytes(b"x" * 10)
        chosen = files_to_merge(tmp_path.iterdir(), 10**6)
        if chosen:
            size = sum(file.stat().st_size for file in chosen)
            for file in chosen:
                file.unlink()
            (tmp_path / f"merged-{at:04d}").write_bytes(b"x" * size)
            written += size
    assert len(list(tmp_path.iterdir())) <= MOST_FILES + 1
    assert written < 10 * 1000 * 10


def test_rows_of_many_files_are_written_in_some_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpoise.pipeline.incremental.merging._ROW_GROUP", 100)
    for at in range(9):
        steps(tmp_path / f"{at}.parquet", 2 * at)
    files = sorted(tmp_path.iterdir())
    merge_files(files, tmp_path / "all.parquet")
    assert pq.ParquetFile(tmp_path / "all.parquet").read()["log_offset"].to_pylist() == list(range(18))
    assert 1 < pq.read_metadata(tmp_path / "all.parquet").num_row_groups < 9
    assert pq.read_schema(tmp_path / "all.parquet") == pq.read_schema(files[0])


def test_an_update_merges_in_its_own_commit_even_when_that_is_finished_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tables" / "rebalances" / DAY
    for at in range(MOST_FILES + 1):
        steps(place / f"part-{at:08d}-old.parquet", 2 * at)
    steps(place / "open-00000001-old.parquet", 1000)
    journal = Journal(tmp_path)
    with journal.open():
        view = View(journal, fresh=False)
        steps(view.final / "rebalances" / DAY / "part-new.parquet", 500)
        view.merge()
        assert view.rows(2)["rebalances"] == 2 * (MOST_FILES + 1) + 2
        monkeypatch.setattr(Path, "replace", _killed_at_the_second(Path.replace))
        with pytest.raises(KeyboardInterrupt):
            journal.commit(list(view.moves(2)), view.gone())
        monkeypatch.undo()
    with journal.open():
        found = sorted(row["log_offset"] for row in rows_of(tmp_path, "rebalances", "log_offset"))
    assert found == sorted([*range(2 * (MOST_FILES + 1)), 500, 501])
    assert len(list(place.iterdir())) == 2


def test_a_fresh_audit_and_days_without_new_rows_merge_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(MOST_FILES + 1):
        steps(tmp_path / "tables" / "rebalances" / DAY / f"part-{at:08d}-old.parquet", at)
    monkeypatch.setattr(view_module, "merge_files", pytest.fail)
    for fresh, day in ((True, DAY), (False, DAY.with_name("date=2026-11-23"))):
        with Journal(tmp_path).open():
            view = View(Journal(tmp_path), fresh=fresh)
            steps(view.final / "rebalances" / day / "part-new.parquet", 500)
            view.merge()
            assert len(list(view.moves(2))) == 1


def _killed_at_the_second(real):
    calls = []

    def replace(self, target):
        calls.append(target)
        if len(calls) == 3:  # the journal itself is the first
            raise KeyboardInterrupt
        return real(self, target)

    return replace
