"""The difference between two audits: groups, their figures side by side, findings and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import fsum
from typing import Any

from counterpoise.pipeline.fold.changes import certainty, verdict_of
from counterpoise.report.load import Audit

__all__ = ["difference"]

Row = Mapping[str, Any]
_DAY = 86400
_STATE = ("protocol_kind", "protocol", "libraries", "static_now", "members_now", "partitions_now")
"""Columns of `group_report` of which another value is a change."""
_SUMS = ("rebalances", "moved", "stopped_seconds", "lag")
_ALARMS = ("critical", "warning")


def difference(one: Audit, two: Audit) -> dict[str, Any]:
    """Compare two audits, the earlier one first.

    Returns
    -------
    difference : dict
        `periods`: begin, end and seconds of both. `fleet`: figures of both, `certainty` and `verdict` as in the table `changes`.
        `groups`: names of those that are `new` and `gone` (or deleted), and those in both that are `changed`: another
        configuration or size, or a better or worse verdict, with what differs and both sets of figures. `findings`: those
        that are `new` and `gone`, by group and kind. `actions`: those of both by kind and target. `worse`: whether the fleet's
        verdict is worse, or a critical or warning finding is new.

    Notes
    -----
    O(groups and findings), which are in memory. Figures are per day, so the recordings may differ in length.
    """
    sides = [_Side(audit) for audit in (one, two)]
    living = [side.living for side in sides]
    both = sorted(living[0].keys() & living[1].keys())
    changed = (_changed(name, *(side.living[name] for side in sides), *(side.figures[name] for side in sides)) for name in both)
    findings = [{(row["group_id"], row["kind"]): row for row in audit.findings()} for audit in (one, two)]
    new, gone = (
        [_finding(found[key]) for key in sorted(found.keys() - other.keys(), key=lambda key: found[key]["rank"])]
        for found, other in (findings[::-1], findings)
    )
    fleet = [_sum(side, found.values()) for side, found in zip(sides, findings, strict=True)]
    return {
        "periods": [side.period for side in sides],
        "fleet": _verdict(*fleet),
        "groups": {
            "new": sorted(living[1].keys() - living[0].keys()),
            "gone": sorted(living[0].keys() - living[1].keys()),
            "changed": sorted((row for row in changed if row), key=lambda row: (row["verdict"] != "worse", row["group_id"])),
        },
        "findings": {"new": new, "gone": gone},
        "actions": _actions(one.summary["actions"], two.summary["actions"]),
        "worse": _verdict(*fleet)["verdict"] == "worse" or any(row["severity"] in _ALARMS for row in new),
    }


class _Side:
    """The groups of an audit that are not deleted, and their figures in the fields of `changes`."""

    def __init__(self, audit: Audit) -> None:
        begin, end = (audit.summary[name] for name in ("from", "to"))
        times = [datetime.fromisoformat(at).timestamp() for at in (begin, end) if at]
        self.period = {"from": begin, "to": end, "seconds": times[-1] - times[0] if times else 0.0}
        self.living = {str(row["group_id"]): row for row in audit.groups() if row["state"] != "deleted"}
        self.figures = {name: _figures(row, times[-1] if times else 0.0) for name, row in self.living.items()}


def _figures(row: Row, end: float) -> dict[str, Any]:
    begins = [row[name] / 1e6 for name in ("first_ts", "first_commit") if row[name] is not None]
    stopped = row["stopped_partition_seconds"]
    return _per_day(
        {
            "seconds": end - min(begins) if begins else 0.0,
            "samples": 0,
            "rebalances": row["rebalances"] or 0,
            "moved": row["moved"] or 0,
            "stopped_seconds": stopped,
            "lag": row["lag_now"],
        }
    )


def _per_day(figures: dict[str, Any]) -> dict[str, Any]:
    for name in _SUMS[:-1]:
        known = figures[name] is not None and figures["seconds"]
        figures[f"{name}_per_day"] = figures[name] * _DAY / figures["seconds"] if known else None
    return figures


def _sum(side: _Side, findings: Iterable[Row]) -> dict[str, Any]:
    rows, listed = side.figures.values(), list(findings)
    known = {name: [row[name] for row in rows if row[name] is not None] for name in _SUMS}
    sums = {name: fsum(values) if values else None for name, values in known.items()}
    figures = _per_day({**sums, "rebalances": int(sums["rebalances"] or 0), "samples": 0, "seconds": side.period["seconds"]})
    members = sum(row["members_now"] or 0 for row in side.living.values())
    severities = {name: sum(row["severity"] == name for row in listed) for name in (*_ALARMS, "notice")}
    return {"groups": len(side.living), "members": members, **figures, **severities}


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
