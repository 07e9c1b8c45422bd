"""Findings as a table: ranked over all clusters, with one finding per cluster of its groups without members."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.findings.ranking import finding_rows, rank_findings
from counterpoise.pipeline.schemas import FINDINGS, GROUP_REPORT
from counterpoise.pipeline.stored.transaction import NewFiles
from tests.pipeline.findings.test_findings import CASES, healthy

ROWS = [
    healthy(group_id="slow", **CASES["slow_leader"]),
    *(healthy(group_id=f"empty-{at}", state="empty", lag_now=900 * at) for at in range(4)),
    healthy(group_id="gone", **CASES["storm"] | {"state": "deleted"}),
    healthy(group_id="alone", cluster="west", state="empty", lag_now=5),
]
RANKED = [
    ("default", "slow_leader", "slow", "the leader took 1,500 ms to assign"),
    ("default", "dead_groups", "empty-3", "4 groups have no members"),
    ("west", "dead_groups", "alone", "no members since 2026-01-01 12:30:00 UTC"),
]


def test_findings_are_ranked_over_all_clusters_and_groups_without_members_are_one_per_cluster(tmp_path: Path) -> None:
    columns = ["cluster", "kind", "group_id", "title"]
    report = pa.Table.from_pylist(ROWS, schema=GROUP_REPORT)
    files = []
    for at, part in enumerate((report[:3], report[3:])):
        (batch,) = map(finding_rows, part.combine_chunks().to_batches())
        files.append(str(tmp_path / f"found-{at}.parquet"))
        pq.write_table(pa.Table.from_batches([batch], schema=FINDINGS), files[-1])
    ranked = rank_findings(files, NewFiles(str(tmp_path), 1), {"default": 0, "west": 0})
    assert [tuple(row[name] for name in columns) for row in ranked["top"]] == RANKED
    assert [row["rank"] for row in ranked["top"]] == [1, 2, 3]
    assert ranked["kinds"] == [["notice", "dead_groups", 1], ["warning", "dead_groups", 1], ["warning", "slow_leader", 1]]
