"""Findings and actions as tables: ranked over all clusters, and stored by cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.findings.ranking import finding_rows, rank_all
from counterpoise.pipeline.schemas import ACTION_PARTS, TABLES
from counterpoise.pipeline.tables.transaction import NewFiles
from tests.pipeline.findings.test_findings import CASES, healthy

ROWS = [
    healthy(group_id="slow", **CASES["slow_leader"]),
    *(healthy(group_id=f"empty-{at}", state="empty", lag_now=900 * at) for at in range(3)),
    healthy(group_id="gone", **CASES["storm"] | {"state": "deleted"}),
    healthy(group_id="alone", cluster="west", state="empty", lag_now=5),
]
RANKED = [
    ("default", "slow_leader", "slow"),
    ("default", "dead_groups", "empty-2"),
    ("default", "dead_groups", "empty-1"),
    ("west", "dead_groups", "alone"),
    ("default", "dead_groups", "empty-0"),
]


def stored(ranked: dict[str, Any], table: str, cluster: str) -> list[dict[str, Any]]:
    return [row for file in ranked["tables"][table][cluster]["days"].values() for row in pq.read_table(file).to_pylist()]


def test_findings_and_actions_are_ranked_over_all_clusters_and_stored_by_cluster(tmp_path: Path) -> None:
    report = pa.Table.from_pylist(ROWS, schema=TABLES["group_report"])
    folded: list[dict[str, Any]] = []
    for at, part in enumerate((report[:3], report[3:])):
        (batches,) = map(finding_rows, part.combine_chunks().to_batches())
        files = [str(tmp_path / f"{name}-{at}.parquet") for name in ("findings", "actions")]
        for file, batch, schema in zip(files, batches, (TABLES["findings"], ACTION_PARTS), strict=True):
            pq.write_table(pa.Table.from_batches([batch], schema=schema), file)
        folded.append({"cluster": "default", "findings": files[0], "actions": files[1], "stopped_ms": 500})
    ranked = rank_all(folded, NewFiles(str(tmp_path), 1), {"default": 0, "west": 0})
    assert [(row["cluster"], row["kind"], row["group_id"]) for row in ranked["top"]] == RANKED
    assert [row["rank"] for row in ranked["top"]] == [1, 2, 3, 4, 5]
    assert ranked["kinds"] == {("warning", "slow_leader"): 1, ("warning", "dead_groups"): 1, ("notice", "dead_groups"): 3}
    assert [(one["kind"], one["n_groups"]) for one in ranked["actions"]] == [("dead_groups", 4), ("look_at_members", 1)]
    assert [(row["rank"], row["group_id"]) for row in stored(ranked, "findings", "west")] == [(4, "alone")]
    by_cluster = {
        name: [(row["rank"], row["n_groups"]) for row in stored(ranked, "actions", name)] for name in ("default", "west")
    }
    assert by_cluster == {"default": [(1, 3), (2, 1)], "west": [(1, 1)]}


def test_without_findings_nothing_is_written(tmp_path: Path) -> None:
    folded: list[dict[str, Any]] = [{"cluster": "c", "findings": None, "actions": None, "stopped_ms": 0}]
    ranked = rank_all(folded, NewFiles(str(tmp_path), 1), {"c": 0})
    assert ranked == {"tables": {}, "kinds": {}, "accepted": 0, "top": [], "actions": []}
