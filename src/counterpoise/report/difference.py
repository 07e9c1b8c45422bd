"""The difference between two audits: groups, their figures side by side, findings and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from counterpoise.pipeline.fold.changes import Era, certainty, verdict_of
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.wording import SEVERITIES, iso
from counterpoise.report.audit_output import Audit
from counterpoise.report.overview import period_of

__all__ = ["changed_findings", "difference", "is_open"]

Row = Mapping[str, Any]
_STATE = ("protocol_kind", "protocol", "libraries", "static_now", "members_now", "partitions_now")
"""Columns of `group_report` of which another value is a change."""
_FIGURES = ("group_id", "state", "rebalances", "moved", "stopped_partition_seconds", "lag_now", "first_ts", "first_commit")
"""The other columns that are read."""
_ALARMS = SEVERITIES[:2]


def difference(one: Audit, two: Audit) -> dict[str, Any]:
    """Compare two audits, the earlier one first.

    Returns `periods`: begin, end and seconds of both. `fleet`: figures of both, `certainty` and `verdict` as in the table
    `changes`. `groups`: names of those that are `new` and `gone` (or deleted), and those in both that are `changed`: another
    configuration or size, or a better or worse verdict, with what differs and both sets of figures. `findings`: those that are
    `new` and `gone` (`changed_findings`). `actions`: those of both by kind and target. `worse`: whether the fleet's verdict is
    worse, or a critical or warning finding is new. If one of the audits has several clusters, groups are named cluster/group.

    O(groups and findings), which are in memory. Figures are per day, so the recordings may differ in length.
    """
    if max(len(one.clusters), len(two.clusters)) > 1:
        one, two = one.named_by_cluster(), two.named_by_cluster()
    sides = [_Side(one), _Side(two)]
    living = [side.living for side in sides]
    both = sorted(living[0].keys() & living[1].keys())
    changed = (_changed(name, *(side.living[name] for side in sides), *(side.figures[name] for side in sides)) for name in both)
    changes = changed_findings(*(side.findings for side in sides))
    fleet = _verdict(*(side.fleet for side in sides))
    return {
        "periods": [side.period for side in sides],
        "fleet": fleet,
        "groups": {
            "new": sorted(living[1].keys() - living[0].keys()),
            "gone": sorted(living[0].keys() - living[1].keys()),
            "changed": sorted((row for row in changed if row), key=lambda row: (row["verdict"] != "worse", row["group_id"])),
        },
        "findings": changes,
        "actions": _actions(one.summary["actions"], two.summary["actions"]),
        "worse": fleet["verdict"] == "worse" or any(row["severity"] in _ALARMS for row in changes["new"]),
    }


def is_open(finding: Row) -> bool:
    """Whether a finding is not accepted."""
    return finding["accepted_until"] is None


def changed_findings(before: Iterable[Row], after: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    """The findings of two audits that are `new` and `gone`, by group and kind, in the order of their ranks.

    A finding that was accepted before counts as absent then, so it is new when its acceptance ends; one that is accepted now is
    not gone. A finding whose severity is worse than before is new, too.
    """
    was, now = ({(row["group_id"], row["kind"]): row for row in rows} for rows in (filter(is_open, before), after))
    new = [row for key, row in now.items() if is_open(row) and (key not in was or _rank(row) < _rank(was[key]))]
    gone = [row for key, row in was.items() if key not in now]
    return {name: list(map(_finding, sorted(rows, key=itemgetter("rank")))) for name, rows in (("new", new), ("gone", gone))}


def _rank(row: Row) -> int:
    return SEVERITIES.index(row["severity"])


class _Side:
    """The groups of an audit that are not deleted, their figures in the fields of `changes`, and those of all together."""

    def __init__(self, audit: Audit) -> None:
        first, last = period_of(audit.summary)
        begin, end = (iso(moment_of(at)) if at else None for at in (first, last))
        self.period = {"from": begin, "to": end, "seconds": (last - first) / 1e6}
        self.living = {str(row["group_id"]): row for row in audit.groups([*_STATE, *_FIGURES]) if row["state"] != "deleted"}
        self.findings = audit.findings()
        eras = {name: _era(row, first, last) for name, row in self.living.items()}
        whole = Era({}, first)
        for era in eras.values():
            whole.absorb(era)
        self.figures = {name: _figures(era, last) for name, era in eras.items()}
        severities = [row["severity"] for row in self.findings if is_open(row)]
        members = sum(row["members_now"] or 0 for row in self.living.values())
        self.fleet = {"groups": len(self.living), "members": members, **_figures(whole, last)}
        self.fleet |= {name: severities.count(name) for name in (*_ALARMS, "notice")}


def _era(row: Row, first: int, end: int) -> Era:
    begin = max(first, next((row[name] for name in ("first_ts", "first_commit") if row[name] is not None), end))
    stopped, lag = row["stopped_partition_seconds"], row["lag_now"]
    counts = {name: row[name] or 0 for name in ("rebalances", "moved")}
    stops = {"stops": int(stopped is not None), "stopped": round((stopped or 0) * 1e6)}
    return Era({}, begin, **counts, **stops, samples=int(lag is not None), lag=lag or 0)


def _figures(era: Era, end: int) -> dict[str, Any]:
    return {**era.figures(end), "lag": era.lag if era.samples else None}


def _verdict(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    sure = certainty(*((one["rebalances"], one["seconds"]) for one in (before, after)))
    verdict = verdict_of("stopped_seconds_per_day", before, after, sure)
    return {"before": before, "after": after, "certainty": sure, "verdict": verdict}


def _changed(name: str, was: Row, now: Row, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
    """A group in both audits; None: nothing has changed."""
    state = {column: [was[column], now[column]] for column in _STATE if was[column] != now[column]}
    found = {"group_id": name, "state": state, **_verdict(before, after)}
    return found if state or found["verdict"] in ("better", "worse") else None


def _finding(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("group_id", "kind", "severity", "title")}


def _actions(one: Iterable[Row], two: Iterable[Row]) -> list[dict[str, Any]]:
    """Actions by kind and target: title, number of groups and saved partition-seconds in both audits; 0 groups: not there."""
    sides = [{(row["kind"], row["target"]): row for row in rows} for rows in (one, two)]
    keys = sorted(sides[0].keys() | sides[1].keys(), key=lambda key: (key not in sides[1], *key))
    return [
        {
            "kind": key[0],
            "target": key[1],
            "title": (sides[1].get(key) or sides[0][key])["title"],
            **{name: [side[key][name] if key in side else 0 for side in sides] for name in ("n_groups", "saved_seconds")},
        }
        for key in keys
    ]
