"""What of a capture is new, and which groups it touches: by Arrow and plain sets, the same as Spark would find."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.lag.ends_file import EndsFile, with_samples
from counterpoise.pipeline.direct.lag.new_samples import NewSamples
from counterpoise.pipeline.incremental.news import SETTLED, first_after, last_settled
from counterpoise.pipeline.incremental.seen import Seen, sampled_at, seen_by_spark, seen_in, time_of, topic_marks
from counterpoise.pipeline.incremental.touched import (
    Moments,
    States,
    find_touched,
    groups_of_topics,
    news_of,
    topic_names_in,
)
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.sources import read_capture
from tests.pipeline.conftest import SHOP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAW = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])
G, H = ("c", "g"), ("c", "h")


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


def test_spark_finds_the_same_ends(tmp_path: Path, spark: SparkSession) -> None:
    files, last = raw(tmp_path, *FILES), {0: 6, 3: 9, -1: 0}
    told = seen_by_spark(spark.read.schema("partition int, offset bigint, timestamp timestamp").parquet(*files), last)
    assert sorted(told, key=lambda one: one.partition) == sorted(seen_in(files, last), key=lambda one: one.partition)


def test_samples_and_marks_of_topics_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    capture = read_capture(spark, SHOP)
    by_spark = Capture(capture.records, capture.log_ends, capture.topics)
    assert capture.local is not None
    ends = with_samples(EndsFile.empty(), NewSamples(capture.local.ends), str(tmp_path))
    assert [time_of(one) for one in ends.instants.tolist()] == sampled_at(by_spark)
    marks = topic_marks(capture, ends.lives_of_topics())
    assert marks == topic_marks(by_spark)
    assert len({mark.rpartition(" ")[2] for mark in marks.values()}) > 1, "no topic of the example was made anew"


def test_a_sample_counts_when_it_is_settled() -> None:
    instants = [at(0), at(100), at(200)]
    assert last_settled(instants, at(200) + SETTLED, None) == at(200)
    assert last_settled(instants, at(199) + SETTLED, None) == at(100)
    assert last_settled(instants, at(10), None) is None
    assert last_settled(instants, at(10), at(50)) == at(50)
    assert last_settled([], None, None) is None
    assert [first_after(instants, moment) for moment in (at(0), at(99), at(200), None)] == [at(100), at(100), None, None]


@pytest.mark.parametrize(
    ("changes", "replayed", "redone"),
    [
        ({}, set(), set()),
        ({"generations": {G}}, {G}, set()),
        ({"settled": at(50)}, {G}, {G}),
        ({"settled": at(49)}, set(), set()),
        ({"last": {G: at(50)}}, {G}, set()),
        ({"last": {G: at(49), H: at(60)}}, set(), set()),
        ({"finished": {G: at(50)}}, {G}, {G}),
        ({"last": {H: at(60)}, "sampled": at(60)}, {H}, set()),
        ({"finished": {H: at(60)}, "sampled": at(59)}, {H}, {H}),
        ({"finished": {H: at(60)}, "sampled": at(61)}, set(), set()),
        ({"unnamed": {H: ["id", "other"]}}, {H}, {H}),
        ({"unnamed": {H: ["other"]}}, set(), set()),
        ({"anew": {H}}, {H}, {H}),
    ],
)
def test_what_comes_late_makes_a_group_again(changes: dict[str, Any], replayed: set[Any], redone: set[Any]) -> None:
    """Group g has new records from second 50 on."""
    states = States(changes.get("last", {}), changes.get("finished", {}), changes.get("unnamed", {}))
    clusters = {"c": Moments(changes.get("settled"), changes.get("sampled"))}
    found = find_touched({G: at(50)}, changes.get("generations", set()), states, clusters, {"id"}, changes.get("anew", set()))
    assert (found.since, found.replayed, found.redone) == ({G: at(50)}, replayed, redone)


def test_tables_tell_what_is_new(tmp_path: Path) -> None:
    stamp = pa.timestamp("us", tz="UTC")
    rows: dict[str, list[tuple[str, int, str, str | None]]] = {
        "one": [("g", 5, "t", "id"), ("g", 3, "t", "id"), ("h", 2, "u", None)],
        "two": [("h", 4, "u", "di")],
        "none": [],
    }
    for name, told in rows.items():
        folder = tmp_path / name / "cluster=c%3A1" / "date=2026-11-22"
        (folder if told else tmp_path / name).mkdir(parents=True)
        if told:
            group, seconds, topic, topic_id = (list(column) for column in zip(*told, strict=True))
            stamps = pa.array([at(one) for one in seconds], stamp)
            pq.write_table(
                pa.table({"group_id": group, "log_ts": stamps, "topic": topic, "topic_id": topic_id}),
                folder / "part.parquet",
            )
    tables = [tmp_path / name for name in rows]
    first, second = ("c:1", "g"), ("c:1", "h")
    assert news_of(tables) == ({first: at(3), second: at(2)}, [{first, second}, {second}, set()])
    assert topic_names_in(tables) == {"id": "t", "di": "u"}
    assert groups_of_topics(tables[0], "c:1", ["t"]) == {first}
    assert groups_of_topics(tables[0], "c", ["t"]) == set()


def test_states_are_read_back(tmp_path: Path, spark: SparkSession) -> None:
    """As Spark writes them, whatever it makes of times."""
    told = [("c", "g", at(1), at(2)), ("c", "h", None, None)]
    spark.createDataFrame(told, "cluster string, group_id string, finished_ts timestamp, last_ts timestamp").write.parquet(
        str(tmp_path / "replays")
    )
    named: list[Any] = [("c", "g", ["id"]), ("c", "h", [])]
    spark.createDataFrame(named, "cluster string, group_id string, unnamed array<string>").write.parquet(str(tmp_path / "steps"))
    assert States.read(tmp_path / "replays", tmp_path / "steps") == States({G: at(2)}, {G: at(1)}, {G: ["id"]})
