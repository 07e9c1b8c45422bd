"""Current figures of groups, read from the tables after the last update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.parquet_rows import time_spans
from counterpoise.pipeline.storage.files import read_columns
from counterpoise.pipeline.tables.manifest import Manifest
from counterpoise.pipeline.tables.paths import NO_DAY, cluster_folder, day_folder

__all__ = ["COUNTS", "Gauges", "GroupGauges", "MemberLag"]

COUNTS = ("rebalances", "moved", "failed_generations", "stopped_partition_seconds", "members_now", "idle_now", "spread_now")
"""Columns of `group_report` with figures of a group."""
_AT_END = {
    "group_report": ["group_id", "state", "generations", "last_ts", "health_states", *COUNTS],
    "actions": ["kind", "n_groups"],
    "findings": ["kind", "severity", "accepted_until"],
}
"""Columns of the tables of which each update replaces the newest day."""
_LAG = ["group_id", "owner", "lag", "at", "time_lag_ms"]
_MEMBERS = ["group_id", "assignment.list.element.member_id", "assignment.list.element.client_id"]
_Member: TypeAlias = tuple[str, str]
"""Group and member id."""


@dataclass(frozen=True)
class MemberLag:
    """The lag of one member: the sum over its partitions with known lag."""

    member_id: str
    client_id: str
    lag: int


@dataclass(frozen=True)
class GroupGauges:
    """The figures of one group."""

    cluster: str
    group: str
    counts: Mapping[str, float]  # The known figures of `COUNTS`; empty for a group that is deleted, or has only commits
    lag: tuple[int, int] | None = None  # Sum and maximum over the partitions with known lag
    members: tuple[MemberLag, ...] = ()  # Sorted by id
    lag_seconds: float | None = None  # Maximum of the time lag over the partitions for which it is known
    # State of the table `health` -> the partitions that are in it, if there are any
    states: Mapping[str, int] = field(default_factory=dict)


class Gauges:
    """The figures of all groups after the last `refresh`; other threads may read them at any time."""

    def __init__(self, clusters: Iterable[str]) -> None:
        self._clusters = tuple(sorted(clusters))
        self._clients: dict[str, dict[_Member, str]] = {name: {} for name in self._clusters}
        self.groups: tuple[GroupGauges, ...] = ()  # groups that exist, or have lag; sorted by cluster and name
        self.actions: Mapping[tuple[str, str], int] = {}  # cluster and kind of an action -> the number of groups that it concerns
        # cluster, kind and severity -> the number of findings that are not accepted
        self.findings: Mapping[tuple[str, str, str], int] = {}
        self.newest: datetime | None = None  # time of the newest group record

    def refresh(self, manifest: Manifest) -> None:
        """Read the tables of an output folder. O(groups + partitions with lag + new members), independent of the history."""
        groups: list[GroupGauges] = []
        times: list[datetime] = []
        actions, findings = Counter[tuple[str, str]](), Counter[tuple[str, str, str]]()
        for cluster in self._clusters:
            day = next(iter(_days(manifest, "group_report", cluster)), NO_DAY)
            rows = {
                table: [row for file in _files(manifest, table, cluster, day) for row in read_columns(file, columns).to_pylist()]
                for table, columns in _AT_END.items()
            }
            times += [row["last_ts"] for row in rows["group_report"] if row["last_ts"] is not None]
            groups += self._groups(manifest, cluster, rows["group_report"])
            for action in rows["actions"]:
                actions[cluster, action["kind"]] += action["n_groups"]
            for one in rows["findings"]:
                findings[cluster, one["kind"], one["severity"]] += one["accepted_until"] is None
        self.groups, self.actions, self.findings, self.newest = tuple(groups), actions, findings, max(times, default=None)

    def _groups(self, manifest: Manifest, cluster: str, report: list[dict[str, Any]]) -> Iterator[GroupGauges]:
        lag = _newest_lag(manifest, cluster)
        sums = lag.group_by("group_id").aggregate([("lag", "sum"), ("lag", "max"), ("time_lag_ms", "max")]).to_pylist()
        of_group = {row["group_id"]: (row["lag_sum"], row["lag_max"]) for row in sums}
        late = {row["group_id"]: row["time_lag_ms_max"] / 1000 for row in sums if row["time_lag_ms_max"] is not None}
        owned = lag.filter(pc.is_valid(lag["owner"])).group_by(["group_id", "owner"]).aggregate([("lag", "sum")]).to_pylist()
        clients = self._client_ids(manifest, cluster, {(row["group_id"], row["owner"]) for row in owned})
        members: dict[str, list[MemberLag]] = {}
        for row in sorted(owned, key=lambda row: str(row["owner"])):
            one = MemberLag(row["owner"], clients[row["group_id"], row["owner"]], row["lag_sum"])
            members.setdefault(row["group_id"], []).append(one)
        present = {row["group_id"]: row for row in report if row["state"] != "deleted"}
        living = {name for name, row in present.items() if row["generations"] is not None}
        for name in sorted({*living, *of_group}):
            about = present.get(name, {})
            counts = _counts(about) if name in living else {}
            states = {one["state"]: one["partitions"] for one in about.get("health_states") or () if one["partitions"]}
            yield GroupGauges(cluster, name, counts, of_group.get(name), tuple(members.get(name, ())), late.get(name), states)

    def _client_ids(self, manifest: Manifest, cluster: str, members: set[_Member]) -> dict[_Member, str]:
        """The client ids of members; for new members they are read from `rebalances`, the newest day first."""
        known = {one: client for one, client in self._clients[cluster].items() if one in members}
        for day in _days(manifest, "rebalances", cluster):
            missing = members - known.keys()
            if not missing:
                break
            for file in _files(manifest, "rebalances", cluster, day):
                known |= _clients(file, missing)
        self._clients[cluster] = {one: known.get(one, "") for one in members}
        return self._clients[cluster]


def _counts(row: Mapping[str, Any]) -> dict[str, float]:
    """The known figures of `COUNTS`; `spread_now` of an empty group is 0, because the column has that of its last plan."""
    known = {name: row[name] for name in COUNTS if row[name] is not None}
    return known if known.get("members_now") else {**known, "spread_now": 0}


def _newest_lag(manifest: Manifest, cluster: str) -> pa.Table:
    """The rows of `partition_lag` at the newest sample of a cluster, with a known lag: ``group_id, owner, lag, at``."""
    for day in _days(manifest, "partition_lag", cluster):
        tables = [read_columns(file, _LAG) for file in _last_files(_files(manifest, "partition_lag", cluster, day))]
        if rows := [table for table in tables if len(table)]:
            whole = pa.concat_tables(rows)
            at_end = pc.equal(whole["at"], pc.max(whole["at"]))
            return whole.filter(pc.and_(at_end, pc.is_valid(whole["lag"])))
    return TABLES["partition_lag"].empty_table().select(_LAG)


def _last_files(files: Sequence[str]) -> list[str]:
    """The files of a day that have its last time, by their footers."""
    spans = zip(files, time_spans(files, "at"), strict=True)
    ends = {file: max(one[1] for one in known if one is not None) for file, known in spans if known}
    return [file for file, end in ends.items() if end == max(ends.values())]


def _days(manifest: Manifest, table: str, cluster: str) -> list[str]:
    """The days of which a table has files, the newest first."""
    days = {file.split("/")[-2].removeprefix("date=") for file in manifest.below("tables", table, cluster_folder(cluster))}
    return sorted(days - {NO_DAY}, reverse=True)


def _files(manifest: Manifest, table: str, cluster: str, day: str) -> list[str]:
    return manifest.below("tables", table, day_folder(cluster, day))


def _clients(file: str, members: set[_Member]) -> dict[_Member, str]:
    steps = read_columns(file, _MEMBERS)
    if not len(steps):
        return {}
    lists = steps["assignment"].combine_chunks()
    ids, clients = lists.flatten().flatten()
    groups = steps["group_id"].take(pc.list_parent_indices(lists))
    chosen = pc.is_in(ids, pa.array(sorted({member for _, member in members}), pa.string()))
    rows = zip(*(column.filter(chosen).to_pylist() for column in (groups, ids, clients)), strict=True)
    return {(group, member): client or "" for group, member, client in rows if (group, member) in members}
