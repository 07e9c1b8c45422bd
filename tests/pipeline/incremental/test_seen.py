"""What of a capture is new: where its log partitions begin and end, and up to which sample its lag is final."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.direct.lag.ends_file import EndsFile, with_samples
from counterpoise.pipeline.direct.lag.new_samples import NewSamples
from counterpoise.pipeline.incremental.news import SETTLED, last_settled
from counterpoise.pipeline.incremental.seen import Seen, seen_in, topic_marks
from counterpoise.pipeline.source.layout import local_files
from tests.pipeline.conftest import SHOP

RAW = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])


def at(second: int) -> datetime:
    return datetime(2026, 11, 22, 12, tzinfo=UTC) + timedelta(seconds=second)


def raw(folder: Path, *files: list[tuple[int | None, int | None, int | None]]) -> list[str]:
    """Files of records: partition, offset, microseconds."""
    names = []
    for number, rows in enumerate(files):
        names.append(str(folder / f"{number}.parquet"))
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
        pq.write_table(
            pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, RAW, strict=True)], schema=RAW), names[-1]
        )
    return names


FILES: list[list[tuple[int | None, int | None, int | None]]] = [
    [(0, 5, 50), (0, 6, 40), (3, 1, 7), (None, 9, 9), (-1, 0, 3)],
    [],
    [(0, 8, 60), (0, 7, 30), (4, None, 8), (3, 2, None), (-1, 1, 4)],
]


def test_the_ends_of_log_partitions_are_found(tmp_path: Path) -> None:
    found = {one.partition: one for one in seen_in(raw(tmp_path, *FILES), {0: 6, 3: 9, -1: 0})}
    assert found == {
        0: Seen(0, 8, 60, 40, 5, 30),
        3: Seen(3, 2, None, None, 1, 7),
        4: Seen(4, None, None, None, None, 8),
        -1: Seen(-1, 1, 4, 3, 0, 3),
    }


def test_a_mark_of_a_topic_is_its_id_and_how_often_it_was_made_anew(tmp_path: Path) -> None:
    local = local_files(SHOP / "consumer_offsets.parquet", SHOP)
    ends = with_samples(EndsFile.empty(), NewSamples(local.ends), str(tmp_path))
    marks = topic_marks(local, ends.lives_of_topics())
    assert {topic: mark.partition(" ")[0] for topic, mark in marks.items()}.items() <= topic_marks(local).items()
    assert {mark.rpartition(" ")[2] for mark in marks.values()} == {"0", "1"}


def test_a_sample_counts_when_it_is_settled() -> None:
    instants = [at(0), at(100), at(200)]
    assert last_settled(instants, at(200) + SETTLED, None) == at(200)
    assert last_settled(instants, at(199) + SETTLED, None) == at(100)
    assert last_settled(instants, at(10), None) is None
    assert last_settled(instants, at(10), at(50)) == at(50)
    assert last_settled([], None, None) is None
