"""Rows of `group_report` and `findings` for the groups of one bucket, from their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.findings.ranking import finding_batches
from counterpoise.pipeline.group_report import JUDGED, advised
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.source.anonymous import anonymous

__all__ = ["GroupKinds", "StoppedTimes", "found_in", "reported"]

_JUDGED = arrow_schema(JUDGED)
_HOUR = 3600
_DAY = 86400


def reported(groups: Iterable[Mapping[str, Any]], cluster: str, end: int, salt: str | None = None) -> pa.RecordBatch:
    """Rows of `GROUP_REPORT`.

    Parameters
    ----------
    groups : iterable of mapping
        What `Bucket.finish` gives.
    cluster : str
    end : int
        When the recording of the cluster ends, in microseconds.
    salt : str, optional
        Names are hashed with it, before there are sentences with them.
    """
    rows = []
    for group in groups:
        row = {**group, "cluster": cluster}
        if not group.get("group_type"):
            row |= _without_type(group)
        row["rebalances_per_day"] = _per_day(group.get("rebalances"), (group.get("first_ts"), group.get("first_commit")), end)
        rows.append(row)
    return advised(anonymous(pa.RecordBatch.from_pylist(rows, schema=_JUDGED), salt))


def _without_type(part: Mapping[str, Any]) -> dict[str, Any]:
    """Type and state of a group without members: if it has commits and only a tombstone, it never had any."""
    if part.get("first_ts") is not None and not part.get("commits"):
        return {"group_type": "classic"}
    return {"group_type": "simple", "state": "deleted" if part.get("commits_gone") else "commits_only", "complete": None}


def _per_day(rebalances: int | None, first: Iterable[datetime | int | None], until: int) -> float | None:
    begins = [one if isinstance(one, int) else micros(one) for one in first if one is not None]
    if rebalances is None or not begins:
        return None
    seconds = until / 1e6 - min(begins) / 1e6
    return rebalances * _DAY / seconds if seconds >= _HOUR else None


def found_in(report: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `FINDINGS`, not ranked yet."""
    (batch,) = finding_batches([report])
    return batch


class StoppedTimes:
    """Milliseconds of stopped partitions by strategy and mode, over all groups that have an estimate."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def add(self, report: pa.RecordBatch) -> None:
        """Rows of `GROUP_REPORT`."""
        for run in report.column("strategies").flatten().to_pylist():
            if run["stopped_seconds"] is not None:
                key = run["strategy"], run["mode"]
                self._known[key] = self._known.get(key, 0) + int(run["stopped_seconds"] * 1000 + 0.5)

    @property
    def listed(self) -> list[list[Any]]:
        """Strategy, mode and milliseconds, as JSON takes it."""
        return [[*key, ms] for key, ms in self._known.items()]


class GroupKinds:
    """Groups by type, protocol and state, with the figures that the summary adds up."""

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
    def listed(self) -> list[list[Any]]:
        """As JSON takes it."""
        return [[*key, *figures] for key, figures in self._kinds.items()]
