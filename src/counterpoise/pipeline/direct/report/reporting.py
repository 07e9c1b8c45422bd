"""Rows of `group_report`, and what the rules find in them, for the groups of one bucket: from sums made on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType

from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.findings.ranking import finding_batches
from counterpoise.pipeline.group_report import JUDGED, advised
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.source.anonymous import anonymous

__all__ = ["PARTS", "GroupKinds", "StoppedTimes", "found_in", "reported"]

_JUDGED = arrow_schema(JUDGED)
PARTS = arrow_schema(StructType([*JUDGED.fields[1:], StructField("commits_gone", BooleanType())]))
"""What is known of a group before strategies are asked; their columns are null."""
_HOUR = 3600
_DAY = 86400


def reported(
    parts: Iterable[Mapping[str, Any]],
    strategies: Mapping[str, Mapping[str, Any]],
    cluster: str,
    until: int,
    salt: str | None = None,
) -> pa.RecordBatch:
    """Rows of `GROUP_REPORT`.

    Parameters
    ----------
    parts : iterable of mapping
        Rows of `PARTS`.
    strategies : mapping
        Group -> what `strategy_sums.strategies_of_groups` gives.
    cluster : str
    until : int
        When the recording of the cluster ends, in microseconds.
    salt : str, optional
        Names are hashed with it, before there are sentences with them.
    """
    rows = []
    for part in parts:
        row = {**part, **strategies.get(part["group_id"], {}), "cluster": cluster}
        if not part["group_type"]:
            row |= _without_type(part)
        row["rebalances_per_day"] = _per_day(part["rebalances"], (part["first_ts"], part["first_commit"]), until)
        rows.append(row)
    return advised(anonymous(pa.RecordBatch.from_pylist(rows, schema=_JUDGED), salt))


def _without_type(part: Mapping[str, Any]) -> dict[str, Any]:
    """Type and state of a group that shows no member: commits tell, of one that left only a tombstone, that it never had any."""
    if part["first_ts"] is not None and not part["commits"]:
        return {"group_type": "classic"}
    return {"group_type": "simple", "state": "deleted" if part["commits_gone"] else "commits_only", "complete": None}


def _per_day(rebalances: int | None, first: Iterable[datetime | None], until: int) -> float | None:
    begins = [micros(one) for one in first if one is not None]
    if rebalances is None or not begins:
        return None
    seconds = until / 1e6 - min(begins) / 1e6
    return rebalances * _DAY / seconds if seconds >= _HOUR else None


def found_in(report: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `FINDINGS`, not ranked yet."""
    (batch,) = finding_batches([report])
    return batch


class StoppedTimes:
    """How long partitions would have stood still under each strategy, over all groups of which that is known."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def add(self, report: pa.RecordBatch) -> None:
        """Rows of `GROUP_REPORT`."""
        for run in report.column("strategies").flatten().to_pylist():
            if run["stopped_seconds"] is not None:
                key = run["strategy"], run["mode"]
                self._known[key] = self._known.get(key, 0) + int(run["stopped_seconds"] * 1000 + 0.5)

    @property
    def told(self) -> list[list[Any]]:
        """Strategy, mode and milliseconds, as JSON takes it."""
        return [[*key, ms] for key, ms in self._known.items()]


class GroupKinds:
    """How many groups there are of each type, protocol and state, with the figures that the summary adds up."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str | None, str], list[int]] = {}

    def add(self, report: pa.RecordBatch) -> None:
        """Rows of `GROUP_REPORT`."""
        names = ["group_type", "protocol", "state", "distinct_members", "judged_generations", "replay_fidelity"]
        for kind, protocol, state, members, judged, share in zip(
            *(report.column(name).to_pylist() for name in names), strict=True
        ):
            matched = 0 if share is None or judged is None else int(share * judged + 0.5)
            found = self._kinds.setdefault((kind, protocol, state), [0] * 5)
            below = share is not None and share < 1
            for at, figure in enumerate((1, members or 0, judged or 0, matched, int(below))):
                found[at] += figure

    @property
    def told(self) -> list[list[Any]]:
        """As JSON takes it."""
        return [[*key, *figures] for key, figures in self._kinds.items()]
