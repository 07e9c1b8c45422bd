"""Where Spark reads, records that are there twice are refused as far as they are looked at; tasks look at all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.records.place import POLLED
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.repeats import EVERY, refuse_repeats
from counterpoise.pipeline.source.sources import read_capture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, int, int]


def table(spark: SparkSession, *places: Place) -> DataFrame:
    return spark.createDataFrame(list(places), "cluster string, log_partition int, log_offset bigint")


@pytest.mark.parametrize(
    ("commits", "others", "told"),
    [
        (
            [("c", 3, EVERY), ("c", 3, EVERY)],
            [("c", 3, 7)],
            f"cluster c: .*1 of those .* first at offset {EVERY} of log partition 3",
        ),
        (
            [("c", 3, 8)],
            [("c", 3, 7), ("d", 2, 9), ("c", 3, 7), ("d", 2, 9)],
            r"cluster c: .*\(2 of .* offset 7 of log partition 3",
        ),
        ([("c", 3, 9), ("c", 3, 9)], [], None),
        ([("c", 3, EVERY), ("d", 3, EVERY)], [("c", POLLED, 1), ("c", POLLED, 1), ("c", 4, 1)], None),
    ],
    ids=["a commit", "others", "a commit that is not looked at", "other clusters, and polls"],
)
def test_a_record_that_is_there_twice_is_refused(
    spark: SparkSession, commits: list[Place], others: list[Place], told: str | None
) -> None:
    given = table(spark, *commits), [table(spark, *others[:2]), table(spark, *others[2:])]
    if told is None:
        refuse_repeats(*given)
        return
    with pytest.raises(CaptureError, match=told):
        refuse_repeats(*given)


def test_two_recordings_of_one_time_are_refused_where_spark_reads_them(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    whole = read_capture(spark, shop)
    part = whole.records.where("partition = 0")
    twice = replace(whole, records=part.unionByName(part.where("offset between 100 and 400")).coalesce(1), local=None)
    with configured(spark, {"spark.sql.shuffle.partitions": "1"}), pytest.raises(CaptureError, match="log partition 0") as told:
        audit(spark, {"only": twice}, tmp_path / "out")
    assert "\n" not in str(told.value)
    assert str(told.value).startswith("cluster only: records are there more than once (")
    assert not (tmp_path / "out" / "summary.json").exists()
