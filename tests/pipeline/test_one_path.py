"""One path for every audit: one module writes each table, one makes the engine, and Spark is used by its DataFrames alone."""

from __future__ import annotations

import re
from pathlib import Path

import counterpoise.pipeline
from counterpoise.pipeline.schemas import TABLES

ROOT = Path(counterpoise.pipeline.__file__).parent
TEXTS = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in sorted(ROOT.rglob("*.py"))}


def modules_with(pattern: str) -> list[str]:
    return [name for name, text in TEXTS.items() if re.search(pattern, text)]


def test_each_table_is_written_by_one_module() -> None:
    found = {table: modules_with(rf'\bwriter\("{table}"') for table in TABLES}
    # A commit that cannot be read is found by the scan, another record by the fold: both through `error_rows`.
    assert found.pop("decode_errors") == ["fold/table_rows.py", "scan/scan.py"]
    assert found.pop("offset_commits") == ["scan/scan.py"]
    assert (found.pop("findings"), found.pop("actions")) == ([], [])
    assert modules_with(r"TableWriter\(names, name, table") == ["findings/ranking.py"]
    assert set(map(tuple, found.values())) == {("fold/table_rows.py",)}


def test_one_place_makes_the_engine_and_one_the_transaction_of_an_audit() -> None:
    assert modules_with(r"= Engine\(") == ["run.py"]
    assert modules_with(r"\bRun\(session") == ["audit.py"]
    assert modules_with(r"\.publish\(") == ["run.py"]


def test_spark_is_used_by_data_frames_alone() -> None:
    assert modules_with(r"\.rdd\b|parallelize|mapPartitions|foreachPartition|sparkContext\.run") == []
    assert modules_with(r"os\.fork|multiprocessing") == []
    assert modules_with(r"mapInArrow\(partial\(fold_blocks") == ["engine.py"]
    # `gateway.py` starts the JVM, and asks whether it runs. Spark Connect has no context.
    assert modules_with(r"sparkContext|SparkContext\(|_gateway\b") == ["gateway.py"]
    assert modules_with(r"\b_jvm\b|\b_jsc\b|^(import|from) subprocess") == []
