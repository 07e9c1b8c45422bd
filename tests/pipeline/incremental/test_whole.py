"""`audit --since last` of a small capture: all of it is made anew, and stored as by any update."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.incremental import whole
from counterpoise.pipeline.incremental.saved import load
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.sources import read_capture
from counterpoise.pipeline.tables import folder_of
from tests.pipeline.conftest import SHOP, Audited
from tests.pipeline.incremental.conftest import ONE_PARTITION, KilledError, killed_while_storing
from tests.pipeline.incremental.pieces import comparable_rows, cut, plain, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRANGER = Path("cluster=default") / "date=2026-01-01"


@pytest.fixture(scope="module")
def twice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the shop capture; then all of it, killed while its files are moved, and begun again with nothing new to read."""
    base = tmp_path_factory.mktemp("twice")
    with configured(spark, ONE_PARTITION):
        cut(base / "capture", until(0.5, "timestamp"), until(0.5, "sampled_at"))
        update(spark, {"default": base / "capture"}, base / "out")
        strangers = [folder_of(base / "out", name) / STRANGER / "part-0.parquet" for name in ("group_report", "rebalances")]
        for file in strangers:
            file.parent.mkdir()
            pq.write_table(pa.table({"group_id": pa.array([], pa.string())}), file)
        cut(base / "capture", until(2.0, "timestamp"), until(2.0, "sampled_at"))
        with pytest.MonkeyPatch.context() as patch:
            killed_while_storing(patch, 9)
            with pytest.raises(KilledError):
                update(spark, {"default": base / "capture"}, base / "out")
        assert update(spark, {"default": base / "capture"}, base / "out").nothing_new
    # Of another day: what was said then stays, rows of tables that are made anew do not.
    assert [file.exists() for file in strangers] == [True, False]
    strangers[0].unlink()
    return base


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_one_audit(twice: Path, audited: Audited, name: str) -> None:
    assert comparable_rows(twice / "out", name) == comparable_rows(audited.result.out, name)


def test_the_summary_is_that_of_one_audit_with_its_number(twice: Path, audited: Audited) -> None:
    found = json.loads((twice / "out" / "summary.json").read_text(encoding="utf-8"))
    assert found.pop("since_last") == 2
    assert plain({**found, "source": ""}) == plain({**audited.result.summary, "source": ""})


def test_a_stream_can_begin_with_the_states_of_all_groups(twice: Path, audited: Audited) -> None:
    saved = load(twice / "out" / ".since" / "state.json")
    assert saved is not None
    assert (saved.number, saved.whole) == (2, True)
    held = pq.read_table(twice / "out" / ".since" / "steps-00000002", columns=["group_id", "state"]).to_pylist()
    assert {row["group_id"] for row in held} == {row["group_id"] for row in audited.table("rebalances", "group_id")}
    assert all(json.loads(row["state"]) for row in held)
    ends = pq.read_table(SHOP / "consumer_offsets.parquet", columns=["partition", "offset"]).group_by("partition")
    rows = ends.aggregate([("offset", "max")]).to_pylist()
    assert saved.clusters["default"].positions == {str(row["partition"]): row["offset_max"] + 1 for row in rows}


def test_only_what_is_small_and_wanted_whole_is_made_anew(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = {"default": read_capture(spark, SHOP)}
    assert whole.is_small(captures, Choice())
    assert not whole.is_small(captures, Choice(("orders*",)))
    monkeypatch.setattr(whole, "WHOLE", 24_173)
    assert not whole.is_small(captures, Choice())
