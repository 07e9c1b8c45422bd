"""The notebooks of examples/notebooks run from the first cell to the last, and what they show is HTML that no name can break."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import counterpoise as cp
from counterpoise.errors import MissingExtraError, OptionError
from counterpoise.extras import pip_install
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.paths import dataset
from counterpoise.snapshot.html import html_table
from tests.pipeline.conftest import Audited

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


def shown(notebook: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values of the cells' last expressions, run in a copy of the folder beside the recorded shop."""
    shutil.copytree(NOTEBOOKS, folder / "notebooks")
    (folder / "shop").symlink_to(NOTEBOOKS.parent / "shop")
    monkeypatch.chdir(folder / "notebooks")
    names: dict[str, Any] = {}
    values = []
    for cell in json.loads((NOTEBOOKS / notebook).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            *lines, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(lines, []), notebook, "exec"), names)
            assert isinstance(last, ast.Expr)
            values.append(eval(compile(ast.Expression(last.value), notebook, "eval"), names))
    return values


def cells(html: str) -> list[str]:
    """The texts of a table's cells; the only elements are those of one table."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            assert tag in ("table", "caption", "tr", "th", "td", "br")
            assert {name for name, _ in attrs} <= {"colspan"}
            if tag in ("th", "td"):
                found.append("")

        def handle_data(self, data: str) -> None:
            if found:
                found[-1] += data

    Reader().feed(html)
    return found


def test_a_plan_of_a_pasted_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group, comparison, plan, proven = shown("plan_a_group.ipynb", tmp_path, monkeypatch)
    assert cells(group._repr_html_())[:4] == ["member", "topics", "owned", "generation"]
    assert len(cells(group._repr_html_())) == 4 * (1 + len(group.members))
    assert repr(comparison) == f"Comparison({', '.join(cp.strategies())})"
    columns, _ = comparison.rows_as_text()
    assert {"strategy", "spread", "moved", "max_member_lag"} <= set(columns)
    assert cells(comparison._repr_html_())[:: len(columns)] == ["strategy", *cp.strategies()]
    assert cells(plan._repr_html_())[3:6] == [plan.member_ids[0], "2", "orders 0, returns 0"]
    assert "cooperative-sticky" in plan._repr_html_()
    assert proven is True


def test_an_audit_with_its_tables_and_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Audited) -> None:
    result, finding, causes, report = shown("audit_a_cluster.ipynb", tmp_path, monkeypatch)
    assert (
        repr(result)
        == f"AuditResult('{tmp_path}/notebooks/out', 30 groups, 125 rebalances, {len(audited.result.findings)} findings)"
    )
    assert repr(finding) == f"Finding({finding.severity}, {finding.kind}, default/{finding.group_id}: {finding.title})"
    assert [finding, *result.findings[1:]] == list(audited.result.findings)
    assert cells(finding._repr_html_())[2:4] == ["severity", finding.severity]
    assert cells(result._repr_html_())[5:8] == ["1", finding.severity, finding.group_id]
    with pytest.raises(TypeError, match="read-only"):
        result.summary["findings"]["total"] = 0
    assert isinstance(causes, pd.Series)
    assert causes.sum() > 50
    assert Path(report).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_audit_without_jinja2_ends_before_the_source_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=re.escape(f"an audit needs jinja2: {pip_install('spark,report')}")):
        cp.audit(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_table_is_an_arrow_table_and_another_name_is_refused(audited: Audited) -> None:
    table = audited.result.table("rebalances")
    assert isinstance(table, pa.Table)
    assert table.num_rows == len(audited.table("rebalances"))
    with pytest.raises(OptionError, match=r"table 'steps' is unknown; there are: .*rebalances"):
        audited.result.table("steps")


def test_names_in_html_are_text_and_long_tables_are_cut() -> None:
    html = html_table("<b>", ["name"], [["<script>\x1b[2J"], [None], ["a\nb"], *(["x"] for _ in range(60))])
    assert cells(html)[:4] == ["name", "<script>\\u001b[2J", "", "ab"]
    assert "a<br>b" in html
    assert len(cells(html)) == 1 + 50 + 1
    assert cells(html)[-1] == "13 more"


def test_a_table_without_files_has_its_columns(tmp_path: Path) -> None:
    (tmp_path / "tables" / "findings").mkdir(parents=True)
    (tmp_path / "tables" / "findings" / "_SUCCESS").touch()
    assert dataset(str(tmp_path / "tables" / "findings")).schema.names == [*TABLES["findings"].names, "date"]


def test_claims_in_arrays_are_shown() -> None:
    group = cp.Group({"t": 2}, [cp.Member("a", ["t"], {"t": np.array([0, 1])}, 1)])  # type: ignore[dict-item]
    assert "t 0-1" in cells(group._repr_html_())


def test_a_group_and_a_plan_are_measured_like_their_arrays() -> None:
    group = cp.Group({"t": 3}, [cp.Member("a", ["t"], {"t": [0, 1, 2]}, 1), cp.Member("b", ["t"])])
    for name in ("sticky", "cooperative-sticky"):
        plan = cp.assign(group, name)
        by_arrays = cp.measure(group.problem(), plan.target_owner, cooperative=name == "cooperative-sticky")
        assert cp.measure(group, plan) == by_arrays
    assert by_arrays.revoked == 1
