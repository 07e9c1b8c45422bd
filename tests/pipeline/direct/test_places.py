"""A record that is in a capture twice is refused by name; in whatever order they stand, records that are there once are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.direct.files import places
from counterpoise.pipeline.direct.files.places import Spans, refuse_twice
from counterpoise.pipeline.direct.files.reading import RAW_SCHEMA, raw_batches
from counterpoise.pipeline.direct.tasks import Piece

Places = list[tuple[int | None, int | None]]
RISING: Places = [(number, offset) for offset in range(40) for number in (0, 7, 40_000, -1)] + [(None, 3), (None, 3), (2, None)]


def refuse(folder: Path, *pieces: Places, clusters: tuple[str, ...] = ("c",) * 9) -> None:
    made, told = [], []
    for at, (listed, cluster) in enumerate(zip(pieces, clusters, strict=False)):
        rows = [{"partition": one, "offset": other} for one, other in listed]
        pq.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA), folder / f"{at}.parquet", row_group_size=30)
        groups = tuple(range(pq.read_metadata(folder / f"{at}.parquet").num_row_groups))
        made.append(Piece(cluster, ((str(folder / f"{at}.parquet"), groups),)))
        spans = Spans()
        for batch in raw_batches(made[-1], ("partition", "offset")):
            spans.add(batch)
        told.append(spans.told)
    refuse_twice(made, told)


def test_what_rises_from_piece_to_piece_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records without a place, and those made from polls, stand nowhere."""
    monkeypatch.delattr(places, "raw_batches")
    polled: Places = [(-1, 5), (-1, 5)]
    refuse(tmp_path, RISING[:80], RISING[80:], [*polled, (0, 41)], polled)


def test_another_order_is_no_fault(tmp_path: Path) -> None:
    mixed = [RISING[at] for at in np.random.default_rng(1).permutation(len(RISING))]
    refuse(tmp_path, mixed[:50], mixed[50:])
    refuse(tmp_path, RISING[80:], RISING[:80])
    refuse(tmp_path, RISING, RISING, clusters=("one", "two"))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (([(0, 1), (3, 5), (3, 5)],), "0.parquet: 1 records of log partition 3 are there more than once, the first at offset 5"),
        ((RISING, [(7, 39), (7, 40)]), "0.parquet and .*1.parquet: 1 records of log partition 7 .* offset 39"),
        (([(1, 9), (1, 8)], [(1, 7), (1, 8)], [(1, 9)]), "0.parquet and .*1.parquet: 2 records of log partition 1 .* offset 8"),
        (
            ([(1, 4), (1, 20)], [(1, 3), (1, 30)], [(1, 20)]),
            "0.parquet and .*2.parquet: 1 records .* offset 20",
        ),
    ],
    ids=["side by side", "files that overlap", "falling", "a span within another"],
)
def test_what_is_there_twice_is_named(tmp_path: Path, pieces: tuple[Places, ...], words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        refuse(tmp_path, *pieces)
