"""How many buckets are done together: what they hold is bounded, and no task is without work."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.pipeline.direct.files.buckets import BUCKETS, bucket_of, buckets_at_once, together


@pytest.mark.parametrize(
    ("size", "tasks", "expected"),
    [(0, 2, 32), (100, 4, 32), (100, 64, 2), (100, 1_000, 1), (BUCKETS * 10, 2, 8), (BUCKETS * 40, 2, 2), (BUCKETS * 99, 2, 1)],
)
def test_as_many_as_hold_so_much_and_leave_work_for_all(tmp_path: Path, size: int, tasks: int, expected: int) -> None:
    files = [tmp_path / name for name in ("one", "other")]
    for file in files:
        file.write_bytes(bytes(size // 2))
    found = buckets_at_once(map(str, files), 80, tasks)
    assert found == expected
    assert found == 1 or (found * size / BUCKETS <= 80 and BUCKETS // found >= min(2 * tasks, BUCKETS))


def test_neighbours_are_done_together_and_keep_their_place() -> None:
    assert bucket_of(b"g") < BUCKETS
    assert together([("f", [0, 3, 4, 255, 3])], 4) == [("f", (0, 0, 1, 63, 0))]
    assert together([("f", [0, 3])], 1) == [("f", (0, 3))]
