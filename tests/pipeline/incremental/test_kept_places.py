"""Of the files that an audit has seen the next one asks no record, and finds the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counterpoise.pipeline.incremental.kept import kept_places
from counterpoise.pipeline.incremental.kept.kept_places import load_places, places_in, save_places
from counterpoise.pipeline.incremental.seen import Seen, seen_in
from tests.pipeline.incremental.test_seen import raw

Rows = list[tuple[int | None, int | None, int | None]]
EARLY: list[Rows] = [[(0, 5, 50), (0, 6, 40), (3, 1, 7)], [(0, 8, 60), (0, 7, 30), (4, None, 8), (3, 2, None)]]
LATE: Rows = [(0, 9, 70), (3, 3, 9), (5, 0, 80)]


def in_order(found: list[Seen]) -> list[Seen]:
    return sorted(found, key=lambda one: one.partition)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files of which records were read."""
    names: list[str] = []

    def watched(files: list[str], last: dict[int, int]) -> list[Seen]:
        names.extend(Path(file).name for file in files)
        return seen_in(files, last)

    monkeypatch.setattr(kept_places, "seen_in", watched)
    return names


def test_only_new_files_are_read(tmp_path: Path, read: list[str]) -> None:
    files = raw(tmp_path, *EARLY)
    found, places = places_in(files, {}, {})
    assert in_order(found) == in_order(seen_in(files, {}))
    save_places(places, tmp_path / "places.json")
    assert load_places(tmp_path / "places.json") == places
    read.clear()
    files, last = [*files, *_named(tmp_path, LATE)], {0: 8, 3: 2}
    found, places = places_in(files, last, load_places(tmp_path / "places.json"))
    assert read == ["late.parquet"]
    assert in_order(found) == in_order(seen_in(files, last))
    assert {one.partition: one.was for one in found if one.was is not None} == {0: 60}
    assert sorted(places) == ["0.parquet", "1.parquet", "late.parquet"]


def _named(folder: Path, rows: Rows) -> list[str]:
    (folder / "new").mkdir()
    (file,) = raw(folder / "new", rows)
    return [str(Path(file).rename(folder / "late.parquet"))]


def test_a_file_that_was_written_anew_is_read_and_one_that_is_gone_is_forgotten(tmp_path: Path, read: list[str]) -> None:
    one, other = raw(tmp_path, *EARLY)
    _, places = places_in([one, other], {}, {})
    linked = tmp_path / "generation-2"
    linked.mkdir()
    os.link(one, linked / Path(one).name)
    read.clear()
    assert list(places_in([str(linked / Path(one).name)], {}, places)[1]) == ["0.parquet"]
    assert read == []
    raw(tmp_path, LATE)
    found, _ = places_in([one], {0: 8}, places)
    assert read == ["0.parquet"]
    assert in_order(found) == in_order(seen_in([one], {0: 8}))
