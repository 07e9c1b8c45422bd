"""A history that tasks begin and Spark goes on with, and the other way round: the tables are those of one audit of everything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import OptionError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.incremental.saved import load
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.choice import Choice
from tests.pipeline.conftest import SHOP, rows_of
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import ENDS, RECORDS, comparable_rows, moment_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_PARTITIONS = (0, 4)
STRATEGIES = ("sticky",)


def grown(folder: Path, share: float, way: str) -> dict[str, Path]:
    """A small part of the shop so far, some samples twice; with a file that only Spark passes over, where it is to go on."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / RECORDS).mkdir(parents=True)
    records, ends = pq.read_table(SHOP / RECORDS), pq.read_table(SHOP / ENDS)
    some = ends.slice(100, 20)
    less = some.set_column(some.schema.get_field_index("log_end"), "log_end", pc.subtract(some["log_end"], 1))
    ends = pa.concat_tables([ends, some, less])
    mine = pc.is_in(records["partition"], pa.array(LOG_PARTITIONS, pa.int32()))
    for table, column, file in ((records.filter(mine), "timestamp", f"{RECORDS}/part-0.parquet"), (ends, "sampled_at", ENDS)):
        pq.write_table(table.filter(pc.less(table[column], pa.scalar(moment_at(share), table[column].type))), folder / file)
    for name in ("topics.json", "aborted_offsets.json"):
        shutil.copy(SHOP / name, folder / name)
    if way == "spark":
        (folder / RECORDS / "_SUCCESS").touch()
    return {"default": folder}


@pytest.mark.parametrize("ways", [("tasks", "spark", "tasks"), ("spark", "tasks")], ids=" ".join)
def test_who_goes_on_makes_no_difference(spark: SparkSession, tmp_path: Path, ways: tuple[str, ...]) -> None:
    out = tmp_path / "out"
    with configured(spark, ONE_PARTITION):
        for at, way in enumerate(ways):
            source = grown(tmp_path / "capture", 2.0 if at == len(ways) - 1 else (0.4, 0.7)[at], way)
            update(spark, source, out, strategies=STRATEGIES)
            saved = load(out / ".since" / "state.json")
            assert saved is not None
            assert (saved.number, saved.tasks) == (at + 1, way == "tasks")
            left = {place.name.partition("-")[0] for place in (out / ".since").iterdir() if place.is_dir()} - {"staged"}
            assert left == ({"steps", "kept", "ends"} if way == "tasks" else {"steps", "replays", "parts"})
        made = audit(spark, source, tmp_path / "whole", strategies=STRATEGIES)
    whole, told = made.out, json.loads((out / "summary.json").read_text())
    assert told["notes"] == made.summary["notes"]
    assert "log_offsets.parquet: 20 samples are there more than once and differ; the largest log end counts" in told["notes"]
    assert [name for name in TABLES if comparable_rows(out, name) != comparable_rows(whole, name)] == []
    assert len(rows_of(out, "partition_lag")) > 100


def test_a_history_of_all_groups_is_not_gone_on_with_for_some(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with configured(spark, ONE_PARTITION):
        source = grown(tmp_path / "capture", 0.2, "tasks")
        update(spark, source, out, strategies=STRATEGIES)
    for words, choice in (("not given and is now orders*", Choice(("orders*",))),):
        with pytest.raises(OptionError) as told:
            update(spark, source, out, strategies=STRATEGIES, choice=choice)
        assert str(told.value).startswith(f"--since last: --group was {words}; give the same; to audit anew, delete .since")
        assert "\n" not in str(told.value)
