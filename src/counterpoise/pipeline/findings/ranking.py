"""Rows of the tables `findings` and `actions`: rules are applied group by group, then both are ranked over all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.findings import Finding, findings_of
from counterpoise.pipeline.findings.actions import parts_of, ranked
from counterpoise.pipeline.findings.policy import NO_POLICY, Policy
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.schemas import ACTION_PARTS, TABLES
from counterpoise.pipeline.storage.files import read_columns
from counterpoise.pipeline.summary import MOST_FINDINGS, MOST_GROUPS
from counterpoise.pipeline.tables.transaction import NewFiles
from counterpoise.pipeline.tables.writers import TableWriter
from counterpoise.pipeline.wording import iso

__all__ = ["finding_rows", "rank_all"]

_ORDER = [("accepted", "ascending"), ("score", "descending"), *((name, "ascending") for name in ("group_id", "kind", "cluster"))]


def finding_rows(
    report: pa.RecordBatch, policy: Policy = NO_POLICY, end: int = 0, plain: Sequence[str] | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows of table `group_report` -> (rows of table `findings`, all with rank 0; rows of `ACTION_PARTS`).

    `end` is the end of the recording, in microseconds: the day to which `policy` is applied. `plain`: the plain names of the
    groups, if those of `report` are hashed. Accepted findings ask for no action.
    """
    day, found = moment_of(end).date(), []
    for row, name in zip(report.to_pylist(), plain or report["group_id"].to_pylist(), strict=True):
        mine = [policy.applied(one, name, day, hashed=plain is not None) for one in findings_of(row)]
        found.append((row, mine))
    parts = [part for row, mine in found for part in parts_of(row, (one for one in mine if one.accepted_until is None))]
    return _batch(finding for _, mine in found for finding in mine), pa.RecordBatch.from_pylist(parts, schema=ACTION_PARTS)


def _batch(findings: Iterable[Finding]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for one in findings:
        numbers = [(name, float(value)) for name, value in one.numbers.items()]
        rows.append({**{name: getattr(one, name) for name in TABLES["findings"].names}, "numbers": numbers})
    return pa.RecordBatch.from_pylist(rows, schema=TABLES["findings"])


def rank_all(folded: Iterable[Mapping[str, Any]], names: NewFiles, last_times: Mapping[str, int]) -> dict[str, Any]:
    """Write the tables `findings` and `actions`, to files with names from `names`.

    `folded` are manifests of fold tasks; `last_times`: cluster -> time of its last record, in microseconds, which gives the day
    of its rows. Memory: some fifty bytes per finding, some 15 kilobytes per group with findings, and the rows of one file.

    Returns `tables`: table -> cluster -> manifest of its files; `kinds`: (severity, kind) -> number of findings to decide on;
    `accepted`: number of the others, ranked last; `top`: the first `MOST_FINDINGS` of all; `actions`: those over all clusters
    with their first `MOST_GROUPS` groups.
    """
    kinds: Counter[tuple[str, str]] = Counter()
    top: list[dict[str, Any]] = []
    stopped, files, parts, accepted = Counter[str](), list[str](), list[str](), 0
    for one in folded:
        stopped[one["cluster"]] += one["stopped_ms"]
        files += [one["findings"]] if one["findings"] else []
        parts += [one["actions"]] if one["actions"] else []
    with ExitStack() as stack:
        tables = {
            table: {name: stack.enter_context(TableWriter(names, name, table, end)) for name, end in last_times.items()}
            for table in ("findings", "actions")
            if files
        }
        for rows in _with_ranks(files):
            still = rows.filter(pc.is_null(rows["accepted_until"]))
            kinds.update(zip(still["severity"].to_pylist(), still["kind"].to_pylist(), strict=True))
            accepted += rows.num_rows - still.num_rows
            top += rows.filter(pc.less_equal(rows["rank"], MOST_FINDINGS)).to_pylist()
            for name, table in tables["findings"].items():
                for batch in rows.filter(pc.equal(rows["cluster"], name)).to_batches():
                    table.write(batch)
        seconds = {name: ms / 1000 for name, ms in stopped.items()}
        actions = ranked((part for file in parts for part in read_columns(file).to_pylist()), seconds)
        for row in (row for _, mine in actions for row in mine):
            tables["actions"][row["cluster"]].add(row, 200 * len(row["groups"]))
    return {
        "tables": {table: {name: rows.manifest for name, rows in of.items()} for table, of in tables.items()},
        "kinds": kinds,
        "accepted": accepted,
        "top": [_as_json(row) for row in sorted(top, key=itemgetter("rank"))],
        "actions": [_first_groups(action) | {"config": [*map(_first_groups, action["config"])]} for action, _ in actions],
    }


def _first_groups(row: Mapping[str, Any]) -> dict[str, Any]:
    """An action or a block of its configuration as it is in the summary."""
    return {**row, "groups": row["groups"][:MOST_GROUPS]}


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    until = row["accepted_until"]
    known = {"numbers": dict(row["numbers"]), "at": iso(row["at"]), "accepted_until": until and until.isoformat()}
    return {**row, **known}


def _with_ranks(files: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the findings of each file with their ranks over all files."""
    if not files:
        return
    slim = pa.concat_tables(read_columns(file, [*(name for name, _ in _ORDER[1:]), "accepted_until"]) for file in files)
    slim = slim.append_column("accepted", pc.is_valid(slim["accepted_until"]).cast(pa.int8()))
    order = pc.sort_indices(slim, sort_keys=_ORDER).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(1, len(order) + 1)
    start = 0
    for file in files:
        rows = read_columns(file).cast(TABLES["findings"])
        yield rows.set_column(rows.schema.get_field_index("rank"), "rank", pa.array(rank[start : start + len(rows)]))
        start += len(rows)
