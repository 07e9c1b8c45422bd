"""A plan for Spark queries that share a group's topics: partitions and start offsets per query; sticky from export to export.

Loops over partitions are over those of one group, because the result has texts with every partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa

from counterpoise.clients.member_side import by_topic, pairs
from counterpoise.errors import OptionError, SnapshotError
from counterpoise.pipeline.audited_lag import group_rows, newest_rows
from counterpoise.planning.assign import assign
from counterpoise.snapshot.checks import counts_of
from counterpoise.snapshot.group import Group, Member
from counterpoise.snapshot.json_text import decoded, fitted, shown, text_of
from counterpoise.snapshot.names import Offsets, partition_list
from counterpoise.snapshot.parts import Index
from counterpoise.snapshot.plan import PLAN_ADVICE
from counterpoise.snapshot.written import WrittenPlan, read_plan
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["PROCEDURE", "export_plan", "export_written", "read_offsets", "read_previous"]

MOST_QUERIES = 10_000
"""Maximal number of queries; each is a process, so more is a typing mistake."""
EARLIEST = -2
"""The first offset, for Spark's Kafka source."""
PROCEDURE = (
    "drain: stop whatever reads these partitions now (the group's members, or the queries that change) once it has committed",
    (
        "export again from a capture that ends after the stop, or give --offsets with what the stopped queries reached (the last "
        "line of the newest file in their checkpoint's folder offsets): startingOffsets must be those after the stop"
    ),
    (
        "start every changed query with its assign and startingOffsets and a new, empty checkpointLocation: in an old one Spark "
        "continues with the old partitions and ignores startingOffsets"
    ),
    "leave every unchanged query alone: its assign is the same, and its checkpoint is newer than this export",
)

Row = dict[str, Any]
Assignments = Mapping[str, Mapping[str, Sequence[int]]]
"""Streaming query name -> topic -> partitions."""


def export_plan(
    out: str | Path,
    group: str,
    strategy: str,
    queries: int,
    *,
    cluster: str | None = None,
    previous: Assignments | None = None,
    reached: Mapping[str, Mapping[int, int]] | None = None,
) -> dict[str, Any]:
    """Assign the partitions of an audited group to queries, named ``query-0`` and so on.

    `out` is an audit's output folder; `cluster` is needed only if several clusters have a group of this name. `strategy` is any
    registered one; those by lag use the lag of the last sample. `previous`: ``{query: {topic: [partitions]}}`` of the previous
    export, which a sticky strategy keeps. `reached`: ``{topic: {partition: offset}}`` at which stopped queries ended; it
    overrides the commits of the group. A partition without a commit, or with one outside the log, starts at the first record.

    Returns ``group, cluster, strategy, at, plan, queries`` (per query ``query, assign, startingOffsets, restart``), ``kept,
    moved, no_restart, notes, procedure``. `assign` and `startingOffsets` are JSON texts for the options of Spark's source.

    Raises `CaptureError` if the folder is no audit's output; `OptionError` if the group does not exist, is in several clusters or
    has no partitions, or the number of queries is out of range; and `UnknownStrategyError`.
    """
    if not 1 <= queries <= MOST_QUERIES:
        raise OptionError(f"{queries} queries: 1 to {MOST_QUERIES} are expected")
    recorded = group_rows(out, group, cluster)
    rows: list[Row] = newest_rows(recorded).to_pylist()
    sizes = counts_of([(row["topic"], row["partition"]) for row in rows])
    lag = {topic: [0] * n for topic, n in sizes.items()}
    for row in rows:
        lag[row["topic"]][row["partition"]] = row["lag"] or 0
    before = previous or {}
    names = [f"query-{number}" for number in range(queries)]
    claims = {name: _within(before.get(name, {}), sizes) for name in names}
    members = [Member(name, tuple(sizes), claims[name], 1 if claims[name] else -1) for name in names]
    plan = assign(Group(sizes, members, lag, group), strategy, protocol="eager")
    start, notes = _starts(rows, sizes, reached or {})
    notes += _unsampled(recorded, rows)
    about = {"group": group, "cluster": rows[0]["cluster"], "strategy": strategy}
    about["at"] = max(row["at"] for row in rows).astimezone(UTC).isoformat()
    return _export(about, {name: plan.target[name] for name in names}, start, before, notes)


def export_written(
    path: Path, *, previous: Assignments | None = None, reached: Mapping[str, Mapping[int, int]] | None = None
) -> dict[str, Any]:
    """Export a plan from a file (``counterpoise plan --json``, or ``{member: {topic: [partitions]}}``), a query per member.

    Parameters and result are those of `export_plan`. `cluster` and `at` are null, and `group` if the file names none. Partitions
    that are not in `reached` start at their first record; a note counts them. Raises `OptionError` if the file has no plan, gives
    a partition to two members, or has a negative partition.
    """
    text = text_of(path.read_bytes, path, OptionError)
    try:
        value = decoded(text, PLAN_ADVICE)
        _no_export(path, value)
        plan = read_plan(text)
    except SnapshotError as error:
        raise OptionError(f"{path}: no plan ({error}); `counterpoise plan --json` writes one") from None
    target, strategy = (plan.target, plan.strategy) if isinstance(plan, WrittenPlan) else (plan, None)
    queries = {name: {topic: sorted(listed) for topic, listed in held.items() if listed} for name, held in sorted(target.items())}
    owners: dict[Partition, str] = {}
    for name, held in queries.items():
        for topic, partition in pairs(held.items()):
            if partition < 0:
                raise OptionError(f"{path}: {name} has partition {partition} of {topic}; give partitions from 0 on")
            other = owners.setdefault((topic, partition), name)
            if other != name:
                raise OptionError(f"{path}: {topic}-{partition} is given to {other} and to {name}; each partition goes to one")
    start = dict.fromkeys(owners, EARLIEST)
    notes = _reach(start, reached or {})
    group = value.get("group") if isinstance(plan, WrittenPlan) and isinstance(value, dict) else None
    about = {"group": group, "cluster": None, "strategy": strategy, "at": None}
    return _export(about, queries, start, previous or {}, notes)


def _no_export(path: Path, value: object) -> None:
    """Raise an error for an export: used as a plan it would lose the offsets of its queries."""
    if isinstance(value, dict) and {"queries", "procedure"} <= value.keys():
        again = f"counterpoise export OUT_DIR --group {shown(value.get('group') or '<group>', str)} --queries N --previous {path}"
        raise OptionError(f"{path}: an export, not a plan; export again: {again}")


def _export(about: Row, queries: Assignments, start: Mapping[Partition, int], before: Assignments, notes: list[str]) -> Row:
    listed = [_query(name, share, start, before.get(name)) for name, share in queries.items()]
    read = {one for share in before.values() for one in pairs(share.items())}
    if dropped := read - start.keys():
        gone = partition_list(dict(by_topic(dropped)))
        notes.append(f"{len(dropped)} partitions of the previous export are not in the plan, so no query reads them: {gone}")
    if stopped := sorted(set(before) - set(queries)):
        notes.append(f"no longer needed: {', '.join(stopped)}")
    if idle := [name for name, share in queries.items() if not share]:
        notes.append(f"no partition is left for {', '.join(idle)}: do not start them (more queries than partitions)")
    had = {one: name for name, held in before.items() for one in pairs(held.items())}
    stays = [had[one] == name for name, held in queries.items() for one in pairs(held.items()) if one in had]
    return {
        **about,
        "plan": queries,
        "queries": listed,
        "kept": sum(stays),
        "moved": len(stays) - sum(stays),
        "no_restart": sum(not query["restart"] for query in listed),
        "notes": notes,
        "procedure": list(PROCEDURE),
    }


def read_previous(path: Path) -> Assignments:
    """The plan in an earlier export (its JSON form). Raises `OptionError` if the file has none."""
    expected = "an export in JSON is expected (`counterpoise export ... --format json`)"
    text = text_of(path.read_bytes, path, OptionError)
    try:
        value = decoded(text, expected)
        return fitted(value.get("plan") if isinstance(value, dict) else None, dict[str, dict[str, list[Index]]], "plan", expected)
    except SnapshotError as error:
        raise OptionError(f"{path}: {error}") from None


def read_offsets(paths: Sequence[Path]) -> Offsets:
    """``{topic: {partition: offset}}`` in the last line of each file (Spark checkpoints).

    Raises `OptionError` if a file has another form, or two files have different offsets of a partition.
    """
    reached: Offsets = {}
    expected = 'offsets like {"topic": {"0": 42}} are expected on the last line'
    for path in paths:
        last = text_of(path.read_bytes, path, OptionError).strip().rpartition("\n")[2]
        try:
            offsets = fitted(decoded(last, expected), Offsets, "offsets", expected)
        except SnapshotError as error:
            raise OptionError(f"{path}: {error}") from None
        for topic, held in offsets.items():
            known = reached.setdefault(topic, {})
            for partition, offset in held.items():
                other = known.setdefault(partition, offset)
                if other != offset:
                    raise OptionError(
                        f"{path}: {topic}-{partition} ends at {offset}, in another file at {other}; give the newest file of each "
                        "query only"
                    )
    return reached


def _unsampled(recorded: pa.Table, rows: Sequence[Row]) -> list[str]:
    """Notes on partitions that the last sample lacks: one on those in `rows`, which are planned, one on all others.

    `recorded`: all rows of `partition_lag` of the group.
    """
    last = max((row["at"] for row in rows if row["log_end"] is not None), default=None)
    earlier = [(row["topic"], row["partition"]) for row in rows if row["log_end"] is not None and row["at"] < last]
    every = set(zip(*(recorded.column(name).to_pylist() for name in ("topic", "partition")), strict=True))
    left_out = every - {(row["topic"], row["partition"]) for row in rows}
    words = {
        "not in the last sample (no leader, or no commit any more), so as in an earlier one": earlier,
        "left out, because the last sample lacks them (topic deleted or recreated, or no leader)": left_out,
    }
    return [f"{text}: {partition_list(dict(by_topic(some)))}" for text, some in words.items() if some]


def _starts(
    rows: Sequence[Row], sizes: Mapping[str, int], reached: Mapping[str, Mapping[int, int]]
) -> tuple[dict[Partition, int], list[str]]:
    start = dict.fromkeys(pairs((topic, range(n)) for topic, n in sizes.items()), EARLIEST)
    start |= {
        (row["topic"], row["partition"]): row["committed"] for row in rows if row["committed"] is not None and not row["clamped"]
    }
    notes = _reach(start, reached)
    outside = sum(bool(row["clamped"]) for row in rows)
    notes += [f"{outside} commits lie outside the log and are not used"] if outside else []
    return start, notes


def _reach(start: dict[Partition, int], reached: Mapping[str, Mapping[int, int]]) -> list[str]:
    """Set the offsets in `start` to those that queries reached, where known.

    Returns notes on partitions with an unknown offset, and on offsets of partitions that are not in `start`.
    """
    offsets = {(topic, partition): offset for topic, held in reached.items() for partition, offset in held.items()}
    start.update({one: offset for one, offset in offsets.items() if one in start})
    unknown = sum(offset == EARLIEST for offset in start.values())
    notes = [f"{unknown} partitions start at their first record (-2): nothing usable is committed"] if unknown else []
    unused = offsets.keys() - start
    listed = partition_list(dict(by_topic(unused)))
    return notes + ([f"offsets of {len(unused)} partitions that are not in the plan are not used: {listed}"] if unused else [])


def _query(
    name: str, share: Mapping[str, Sequence[int]], start: Mapping[Partition, int], before: Mapping[str, Sequence[int]] | None
) -> Row:
    offsets = {topic: {str(p): start[topic, p] for p in listed} for topic, listed in share.items()}
    same = before is not None and set(pairs(before.items())) == set(pairs(share.items()))
    assigned = {topic: list(listed) for topic, listed in share.items()}
    return {"query": name, "assign": json.dumps(assigned), "startingOffsets": json.dumps(offsets), "restart": not same}


def _within(held: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Claims on partitions that still exist."""
    return {topic: [p for p in listed if p < sizes[topic]] for topic, listed in held.items() if topic in sizes}
