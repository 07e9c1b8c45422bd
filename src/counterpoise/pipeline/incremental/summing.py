"""The summary of an update: what is new added to what the last one said, in the form of that of any audit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counterpoise.pipeline.incremental.saved import ClusterState, Saved
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.stored.keyed import stored
from counterpoise.pipeline.summary import (
    Counted,
    Found,
    Kinds,
    Sums,
    iso,
    lag_note,
    nothing_note,
    samples_note,
    summarize,
    transaction_note,
)

__all__ = ["in_full", "write_summary"]


def in_full(
    captures: Mapping[str, Capture],
    saved: Saved | None,
    counted: Counted,
    kinds: Kinds,
    sums: Sums,
    found: Found,
    disagreeing: Mapping[str, int],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the summary says of records, groups and findings, with its notes; and the sums to be kept for the next one.

    Parameters
    ----------
    captures : mapping
    saved : Saved, optional
        What the last audit left.
    counted, kinds
        Of new records.
    sums, found
        Of all tables, as they will be.
    disagreeing : mapping
        Cluster name -> of how many logs and instants there are samples that differ.
    """
    about = summarize(counted, sums, found, kinds)
    before: Mapping[str, Any] = {} if saved is None else saved.sums
    if before:
        about["records"] = _added(before["records"], about["records"])
        for name, pick in (("from", min), ("to", max)):
            # All of one form (UTC, milliseconds): texts are ordered as times are.
            about[name] = pick((one for one in (before[name], about[name]) if one is not None), default=None)
    notes = [note if len(captures) == 1 else f"{name}: {note}" for name, one in captures.items() for note in one.notes]
    like = counted.transactional + (before["transactional"] if before else 0)
    known = all(capture.tells_aborted for capture in captures.values())
    notes += samples_note(disagreeing)
    about["notes"] = [*notes, *nothing_note(about), *transaction_note(like, known), *lag_note(sums.with_lag)]
    return about, {"transactional": like, **{name: about[name] for name in ("records", "from", "to")}}


def write_summary(
    file: Path,
    source: str,
    now: Mapping[str, ClusterState],
    number: int,
    sampled: Sequence[datetime | None],
    rows: Mapping[str, int],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole summary, in the order of that of any audit."""
    ends = {name: None if one.end is None else moment_of(one.end) for name, one in now.items()}
    days = {name: None if end is None else end.astimezone(UTC).date().isoformat() for name, end in ends.items()}
    found: dict[str, Any] = {"format": 2, "source": source, "cluster": ", ".join(now), "clusters": list(now)}
    found |= {"days": days, "hashed": None, "since_last": number}
    found |= {"sampled_from": iso(sampled[0]), "sampled_to": iso(sampled[1])}
    found |= {name: value for name, value in about.items() if name != "notes"}
    found["tables"] = {
        name: {"path": f"tables/{name}", "rows": n, "stored": n, "columns": stored(name).names} for name, n in rows.items()
    }
    found["notes"] = about["notes"]
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in [*one, *(name for name in other if name not in one)]:
        left, right = one.get(name, 0), other.get(name, 0)
        found[name] = _added(left or {}, right or {}) if isinstance(left or right, Mapping) else left + right
    return found
