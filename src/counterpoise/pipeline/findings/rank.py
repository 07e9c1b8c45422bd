"""Table `findings` from what the rules found group by group: ranked over all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from counterpoise.pipeline.findings.ranking import PER_CLUSTER, dead_batches
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.schemas import FINDINGS
from counterpoise.pipeline.storage.files import parquet_file
from counterpoise.pipeline.stored.transaction import NewFiles
from counterpoise.pipeline.summary import MOST_FINDINGS
from counterpoise.pipeline.tables.day_rows import DayRows

__all__ = ["rank_findings"]

_SCHEMA = arrow_schema(StructType(FINDINGS.fields[1:]))
_ALL = arrow_schema(FINDINGS)
_ORDER = [("score", "descending"), ("group_id", "ascending"), ("kind", "ascending"), ("cluster", "ascending")]


def rank_findings(files: Sequence[str], names: NewFiles, ends: Mapping[str, int]) -> dict[str, Any]:
    """Write files of the table, with the ranks that `ranking.findings` gives; tell them by cluster, and the first ones.

    Parameters
    ----------
    files : sequence of str
        Rows of `FINDINGS`, rank 0.
    names : NewFiles
        For what is written.
    ends : mapping
        Cluster -> time of its last record, in microseconds: its findings are of that day.

    Notes
    -----
    Some fifty bytes per finding are held, and the rows of one file.
    """
    together = _dead_together(files)
    slim = pa.concat_tables(table.select([name for name, _ in _ORDER]) for table in _tables(files, together))
    order = pc.sort_indices(slim, sort_keys=_ORDER).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(1, len(order) + 1)
    kinds: Counter[tuple[str, str]] = Counter()
    top: list[dict[str, Any]] = []
    start = 0
    with ExitStack() as stack:
        out = {name: stack.enter_context(DayRows(names.of("findings", name), _SCHEMA, end)) for name, end in ends.items()}
        for rows in _tables(files, together):
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


def _dead_together(files: Sequence[str]) -> pa.Table:
    """One finding per cluster of its groups without members."""
    dead = pa.concat_tables(_rows(file, pc.field("kind") == PER_CLUSTER) for file in files)
    ordered = dead.sort_by([("cluster", "ascending"), ("score", "descending"), ("group_id", "ascending")])
    return pa.Table.from_batches(dead_batches(ordered.to_batches()), schema=_ALL)


def _tables(files: Sequence[str], together: pa.Table) -> Iterator[pa.Table]:
    """The findings of one file after the other, then those of whole clusters."""
    for file in files:
        yield _rows(file, pc.field("kind") != PER_CLUSTER)
    yield together


def _rows(file: str, wanted: pc.Expression) -> pa.Table:
    with parquet_file(file) as opened:
        return opened.read().filter(wanted).cast(_ALL)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "numbers": dict(row["numbers"]), "at": None if row["at"] is None else micros(row["at"])}
