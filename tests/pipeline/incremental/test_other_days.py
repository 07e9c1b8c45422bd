"""What was said of a group on another day stays when tables are brought up to date; rows of records that are replaced do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.incremental.journal import Journal
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.stored.tables import folder_of

if TYPE_CHECKING:
    pass

NAMES = ("group_report", "rebalances", "offset_commits")
OLD, NEW = (Path("cluster=default") / f"date=2026-01-{day}" for day in ("01", "02"))


@pytest.mark.parametrize(
    ("fresh", "left"),
    [(False, {"group_report", "rebalances", "offset_commits"}), (True, set())],
)
def test_files_of_an_earlier_day(tmp_path: Path, fresh: bool, left: set[str]) -> None:
    journal = Journal(tmp_path)
    old = {name: folder_of(tmp_path, name) / OLD / "part-0.parquet" for name in NAMES}
    today = folder_of(tmp_path, "group_report") / NEW / "part-0.parquet"
    over = folder_of(tmp_path, "findings") / NEW / "part-0.parquet"
    for file in (*old.values(), today, over):
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"group_id": ["g"]}), file)
    with journal.open():
        view = View(journal, fresh=fresh)
        staged = view.final / "group_report" / NEW / "part-1.parquet"
        staged.parent.mkdir(parents=True)
        pq.write_table(pa.table({"group_id": ["h", "i"]}), staged)
        rows = view.rows(2)
        journal.commit(list(view.moves(2)), view.gone())
    assert {name for name, file in old.items() if file.exists()} == left
    assert not today.exists()
    assert not over.exists(), "a finding that no longer holds"
    assert rows["group_report"] == 2 + ("group_report" in left)
