"""The tutorial for a Spark session of one's own: its blocks of Python run, and print what the page says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.tutorials.reader import blocks, matches
from tests.tutorials.test_tutorials import DOCS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_the_audit_in_your_spark(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its blocks of Python run one after the other in a session, which was started in another folder."""
    names = {"spark": spark}
    printed, other = "", []
    page = (DOCS / "tutorial-spark.md").read_text(encoding="utf-8")
    for block in blocks(page.replace('"examples/', f'"{ROOT}/examples/').replace('"out/', f'"{tmp_path}/out/')):
        if block.language == "python":
            exec(compile(block.text, "tutorial-spark.md", "exec"), names)
            printed = capsys.readouterr().out
        elif not matches(block.text, printed):
            other += [f"expected:\n{block.text}\nprinted:\n{printed}"]
    assert other == []
