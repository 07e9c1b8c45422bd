"""Rows of the table `findings`: the rules are applied group by group, then findings are ranked over all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.findings import Finding, findings_of
from counterpoise.pipeline.findings.life import merge_dead_groups
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.schemas import FINDINGS
from counterpoise.pipeline.storage.files import parquet_file
from counterpoise.pipeline.stored.transaction import NewFiles
from counterpoise.pipeline.summary import MOST_FINDINGS
from counterpoise.pipeline.tables.day_rows import DayRows

__all__ = ["PER_CLUSTER", "dead_batches", "finding_rows", "rank_findings"]

PER_CLUSTER = "dead_groups"
"""The kind of finding of which a cluster has at most one."""
_SCHEMA = FINDINGS.remove(0)
_ORDER = [("score", "descending"), ("group_id", "ascending"), ("kind", "ascending"), ("cluster", "ascending")]


def finding_rows(report: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `GROUP_REPORT` -> rows of `FINDINGS`, rank 0."""
    return _batch(finding for row in report.to_pylist() for finding in findings_of(row))


def dead_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of `FINDINGS` of kind `PER_CLUSTER`, sorted by cluster and score -> one row per cluster.

    The finding of a single group is unchanged. All rows of a cluster are in memory.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, of_cluster in groupby(rows, key=lambda row: row["cluster"]):
        listed = list(of_cluster)
        if len(listed) == 1:
            yield pa.RecordBatch.from_pylist(listed, schema=FINDINGS)
        else:
            yield _batch([merge_dead_groups(listed)])


def _batch(findings: Iterable[Finding]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for one in findings:
        numbers = [(name, float(value)) for name, value in one.numbers.items()]
        rows.append({**{name: getattr(one, name) for name in FINDINGS.names}, "numbers": numbers})
    return pa.RecordBatch.from_pylist(rows, schema=FINDINGS)


def rank_findings(files: Sequence[str], names: NewFiles, ends: Mapping[str, int]) -> dict[str, Any]:
    """Write the table, ranked by score; returns its files by cluster, the number of findings by kind, and the first findings.

    Parameters
    ----------
    files : sequence of str
        Rows of `FINDINGS`, rank 0.
    names : NewFiles
        Names of the files that are written.
    ends : mapping
        Cluster -> time of its last record, in microseconds, which gives the day of its findings.

    Notes
    -----
    Some fifty bytes per finding are in memory, and the rows of one file.
    """
    dead = _dead_groups(files)
    slim = pa.concat_tables(table.select([name for name, _ in _ORDER]) for table in _tables(files, dead))
    order = pc.sort_indices(slim, sort_keys=_ORDER).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(1, len(order) + 1)
    kinds: Counter[tuple[str, str]] = Counter()
    top: list[dict[str, Any]] = []
    start = 0
    with ExitStack() as stack:
        out = {name: stack.enter_context(DayRows(names.of("findings", name), _SCHEMA, end)) for name, end in ends.items()}
        for rows in _tables(files, dead):
            mine = pa.array(rank[start : start + len(rows)])
            start += len(rows)
            rows = rows.set_column(rows.schema.get_field_index("rank"), "rank", mine)
            kinds.update(zip(rows["severity"].to_pylist(), rows["kind"].to_pylist(), strict=True))
            top += rows.filter(pc.less_equal(mine, MOST_FINDINGS)).to_pylist()
            for name, table in out.items():
                for batch in rows.filter(pc.equal(rows["cluster"], name)).select(_SCHEMA.names).to_batches():
                    table.write(batch)
    return {
        "tables": {name: table.manifest for name, table in out.items()},
        "kinds": [[*key, n] for key, n in sorted(kinds.items())],
        "top": [_plain(row) for row in sorted(top, key=lambda row: int(row["rank"]))],
    }


def _dead_groups(files: Sequence[str]) -> pa.Table:
    """One finding per cluster on its groups without members."""
    dead = pa.concat_tables(_rows(file, pc.field("kind") == PER_CLUSTER) for file in files)
    ordered = dead.sort_by([("cluster", "ascending"), ("score", "descending"), ("group_id", "ascending")])
    return pa.Table.from_batches(dead_batches(ordered.to_batches()), schema=FINDINGS)


def _tables(files: Sequence[str], dead: pa.Table) -> Iterator[pa.Table]:
    """Yield the findings of each file, then those of whole clusters."""
    for file in files:
        yield _rows(file, pc.field("kind") != PER_CLUSTER)
    yield dead


def _rows(file: str, condition: pc.Expression) -> pa.Table:
    with parquet_file(file) as opened:
        return opened.read().filter(condition).cast(FINDINGS)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "numbers": dict(row["numbers"]), "at": None if row["at"] is None else micros(row["at"])}
