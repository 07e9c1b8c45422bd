"""Commits and deletions of each group of a bucket, counted from sums."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["counts_of", "slim_counts"]

_FIGURES = [
    ("live", "sum"),
    ("dead", "sum"),
    ("live_ts", "min"),
    ("live_until", "max"),
    ("max_ts", "max"),
    ("deleted", "last"),
    ("offset", "last"),
]


def slim_counts(told: pa.Table) -> pa.Table:
    """A row per group for all of its rows, of which `counts_of` makes the same."""
    sums = _of_groups(told)
    return pa.table([sums["group_id"], *(sums[f"{name}_{how}"] for name, how in _FIGURES)], ["group_id", *dict(_FIGURES)])


def _of_groups(told: pa.Table) -> pa.Table:
    return (
        told.select(["group_id", *dict(_FIGURES)]).sort_by("offset").group_by("group_id", use_threads=False).aggregate(_FIGURES)
    )


def counts_of(told: pa.Table) -> pa.Table:
    """Per group: commits, deletions, first and last time; whether the last of all deletes."""
    sums = _of_groups(told)
    some = pc.greater(sums["live_sum"], 0)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "group_id": sums["group_id"],
            "commits": sums["live_sum"],
            "commit_tombstones": sums["dead_sum"],
            "first_commit": pc.if_else(some, sums["live_ts_min"], None).cast(stamp),
            "last_commit": pc.if_else(some, sums["live_until_max"], None).cast(stamp),
            "commits_gone": sums["deleted_last"],
            "log_ts": sums["max_ts_max"].cast(stamp),
        }
    )
