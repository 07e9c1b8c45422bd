"""Rows of the table `group_report`: the figures of a group, with advice."""

from __future__ import annotations

import pyarrow as pa

from counterpoise.pipeline.findings.advice import advice, fidelity_note
from counterpoise.pipeline.schemas import GROUP_REPORT
from counterpoise.pipeline.standstill import with_standstill

__all__ = ["GROUP_FIGURES", "with_advice"]

_COUNTS = ("matched", "ties", "worse", "lives")
GROUP_FIGURES = pa.schema([*GROUP_REPORT, *(pa.field(name, pa.int32()) for name in _COUNTS)])
"""`GROUP_REPORT`, and how replays that do not match differ from the record, and the number of protocols of the group."""


def with_advice(groups: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `GROUP_FIGURES` as rows of `GROUP_REPORT`, with advice and the reason for a low fidelity."""
    rows = []
    for row in groups.to_pylist():
        matched, ties, worse, lives = (row.pop(name) or 0 for name in _COUNTS)
        note = fidelity_note(row["compared_generations"] or 0, matched, ties, worse, row["leader_libraries"] or [])
        row["strategies"] = with_standstill(row, lives)
        rows.append({**row, "fidelity_note": note, **advice(row)})
    return pa.RecordBatch.from_pylist(rows, schema=GROUP_REPORT)
