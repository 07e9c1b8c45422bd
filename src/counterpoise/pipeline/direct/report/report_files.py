"""Files of `group_report` and of what the rules find, written some hundreds of groups at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql.types import StructType

from counterpoise.pipeline.direct.files.day_rows import DayRows
from counterpoise.pipeline.direct.files.one_file import OneFile
from counterpoise.pipeline.direct.report.reporting import GroupKinds, StoppedTimes, found_in, reported
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import FINDINGS, GROUP_REPORT

__all__ = ["GROUPS_AT_ONCE", "ReportFiles"]

GROUPS_AT_ONCE = 500
"""So many groups are worth a call of `add`."""
_REPORT = arrow_schema(StructType(GROUP_REPORT.fields[1:]))


class ReportFiles:
    """What is reported of one cluster's groups.

    Parameters
    ----------
    folder, cluster : str
    until, end : int
        When the last step or commit of the cluster was, and its last record of any kind, in microseconds.
    salt : str, optional
        Names are hashed with it.
    """

    def __init__(self, folder: str, cluster: str, until: int, end: int, salt: str | None = None) -> None:
        self._cluster, self._until, self._salt = cluster, until, salt
        self._report = DayRows(folder, "report", _REPORT, end)
        self._findings = OneFile(folder, "findings", arrow_schema(FINDINGS))
        self._kinds, self._stopped = GroupKinds(), StoppedTimes()
        self._open = ExitStack()

    def __enter__(self) -> ReportFiles:
        self._open.enter_context(self._report)
        self._open.enter_context(self._findings)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, parts: Sequence[Mapping[str, Any]], strategies: Mapping[str, Mapping[str, Any]]) -> None:
        """Groups, as `reported` takes them."""
        if parts:
            groups = reported(parts, strategies, self._cluster, self._until, self._salt)
            self._kinds.add(groups)
            self._stopped.add(groups)
            self._report.write(groups.select(_REPORT.names))
            self._findings.write(found_in(groups))

    @property
    def table(self) -> dict[str, Any]:
        """Files and rows of `group_report`, complete when this is closed."""
        return self._report.told

    @property
    def told(self) -> dict[str, Any]:
        """All else that a task tells, likewise."""
        return {"findings": self._findings.file, "groups": self._kinds.told, "stopped": self._stopped.told}
