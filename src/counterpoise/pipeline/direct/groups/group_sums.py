"""What `group_report` says of each group of a bucket about commits, stops and lag: sums of rows, one dict per group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.groups.held import coded

__all__ = ["GroupStops", "LagNow"]

Figures = dict[str, Any]
_LAG_NAMED, _UNOWNED_NAMED = 5, 5
"""So many partitions are named of the member with most lag, and so many with commits by nobody: those with most of it."""
_WITH_COMMIT = ("exact", "interpolated")
"""The qualities of a row of `partition_lag` that has a commit."""


class GroupStops:
    """Per group: seconds stopped, the longest stop, and commits by nobody; from rows of `stop_rows.stop_rows`."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}
        self._unowned: dict[str, _Unowned] = {}

    def add(self, stops: pa.RecordBatch) -> None:
        """Rows of some partitions, all there are of each."""
        group, names = coded(stops.column("group_id"))
        known = stops.column("stop_s").is_valid().to_numpy(zero_copy_only=False)
        stop = stops.column("stop_s").fill_null(0.0).to_numpy()
        generation = stops.column("generation").fill_null(-1).to_numpy()
        commits, by_nobody = (stops.column(name).to_numpy() for name in ("commits", "commits_by_nobody"))
        at = stops.column("log_ts").cast(pa.int64()).fill_null(0).to_numpy()
        longest = _firsts(np.lexsort((at, generation, -stop, group)), group, known)
        partitions = _different_partitions(stops, group, commits > 0, len(names)).tolist()
        nobody = _sums(group, by_nobody, len(names)).tolist()
        # Whole microseconds: a sum of fractions would depend on the order in which rows come.
        stopped = _sums(group[known], np.floor(stop[known] * 1_000_000 + 0.5).astype(np.int64), len(names)).tolist()
        for number, name in enumerate(names):
            row = longest.get(number)
            found = self._found.setdefault(name, [None, 0, 0, 0])
            if row is not None:
                worst = (-float(stop[row]), int(generation[row]), int(at[row]))
                found[0] = worst if found[0] is None else min(found[0], worst)
            for place, more in enumerate((stopped[number], nobody[number], partitions[number]), 1):
                found[place] += more
        self._add_unowned(stops)

    def _add_unowned(self, stops: pa.RecordBatch) -> None:
        """Partitions with commits by nobody: few, if any."""
        some = pc.greater(stops.column("commits_by_nobody"), 0)
        rows = pa.table(stops.filter(some)).select(["group_id", "topic", "partition", "generation", "commits_by_nobody"])
        for row in rows.sort_by([(name, "ascending") for name in rows.column_names[:3]]).to_pylist():
            self._unowned.setdefault(row["group_id"], _Unowned()).add(row)

    def groups(self) -> Iterator[tuple[str, Figures]]:
        """What is known of each group."""
        for name, (worst, stopped, nobody, partitions) in self._found.items():
            yield (
                name,
                {
                    "stopped_partition_seconds": None if worst is None else stopped / 1_000_000,
                    "longest_stop_seconds": None if worst is None else -worst[0],
                    "longest_stop_generation": None if worst is None or worst[1] < 0 else worst[1],
                    "longest_stop_ts": None if worst is None else worst[2],
                    "commits_without_owner": nobody,
                    "committed_partitions": partitions,
                    **self._unowned.get(name, _NONE_UNOWNED).figures,
                },
            )


class _Unowned:
    """One group's partitions with commits by nobody, those with most of them first."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], int] = {}
        self._worst: tuple[int, int] | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        """One partition between two steps."""
        place, n = (row["topic"], row["partition"]), row["commits_by_nobody"]
        self._partitions[place] = self._partitions.get(place, 0) + n
        here = (-n, row["generation"])
        self._worst = here if self._worst is None else min(self._worst, here)

    @property
    def figures(self) -> Figures:
        """In columns of `group_report`."""
        most = sorted(self._partitions.items(), key=lambda one: (-one[1], one[0]))[:_UNOWNED_NAMED]
        return {
            "partitions_without_owner": len(self._partitions),
            "unowned_commits": [{"topic": topic, "partition": at, "commits": n} for (topic, at), n in most],
            "unowned_generation": None if self._worst is None else self._worst[1],
        }


_NONE_UNOWNED = _Unowned()


def _different_partitions(stops: pa.RecordBatch, group: Int64, some: npt.NDArray[np.bool_], n: int) -> Int64:
    topic, partition = coded(stops.column("topic"))[0][some], stops.column("partition").to_numpy()[some]
    mine = group[some]
    order = np.lexsort((partition, topic, mine))
    new = np.ones(len(order), np.bool_)
    columns = [column[order] for column in (mine, topic, partition)]
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.bincount(mine[order][new], minlength=n).astype(np.int64)


def _firsts(order: Int64, group: Int64, known: npt.NDArray[np.bool_]) -> dict[int, int]:
    """Of each group the first row of an order that is known."""
    found: dict[int, int] = {}
    rows = order[known[order]]
    new = np.ones(len(rows), np.bool_)
    new[1:] = group[rows][1:] != group[rows][:-1]
    for row in rows[new].tolist():
        found[int(group[row])] = row
    return found


def _sums(group: Int64, values: Int64, n: int) -> Int64:
    found = np.zeros(n, np.int64)
    np.add.at(found, group, values)
    return found


class LagNow:
    """The newest row of every partition in `partition_lag`, summed up per group: lag, its quality, the owner of most of it."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str | None], list[Any]] = {}
        self._committed: dict[str, int] = {}

    def add(self, newest: pa.RecordBatch) -> None:
        """Newest rows of some partitions, each partition once."""
        known = newest.filter(pc.is_in(newest.column("quality"), pa.array(_WITH_COMMIT)))
        for one in known.column("group_id").value_counts().to_pylist():
            self._committed[one["values"]] = self._committed.get(one["values"], 0) + one["counts"]
        exact = pc.cast(pc.equal(newest.column("quality"), "exact"), pa.int8())
        rows = pa.table(
            [newest.column("group_id"), newest.column("owner"), newest.column("lag"), exact], ["g", "o", "lag", "exact"]
        )
        sums = rows.group_by(["g", "o"], use_threads=False).aggregate([("lag", "sum"), ("exact", "min")])
        for row in sums.to_pylist():
            known = self._owners.setdefault((row["g"], row["o"]), [None, 1, []])
            known[0] = row["lag_sum"] if known[0] is None else known[0] + (row["lag_sum"] or 0)
            known[1] = min(known[1], row["exact_min"])
        for whose, worst in _most_behind(newest):
            known = self._owners[whose]
            known[2] = sorted([*known[2], *worst])[:_LAG_NAMED] if known[2] else worst

    def committed(self, group: str) -> int | None:
        """How many partitions of a group have a commit, as far as their logs were sampled; None: nothing is known of it."""
        return self._committed.get(group)

    def groups(self) -> Iterator[tuple[str, Figures]]:
        """What is known of each group."""
        of: dict[str, dict[str | None, list[Any]]] = {}
        for (group, owner), figures in self._owners.items():
            of.setdefault(group, {})[owner] = figures
        for group, owners in of.items():
            yield group, _lag_of_group(owners)


def _most_behind(newest: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], list[tuple[int, str, int]]]]:
    """By group and owner: lag (as a negative number), topic and partition of those with most of it."""
    rows = pa.table([newest.column(name) for name in _BEHIND], _BEHIND)
    rows = rows.filter(pc.and_(pc.greater(rows["lag"], 0), rows["owner"].is_valid()))
    (group, groups), (owner, owners), (topic, topics) = (coded(rows[name]) for name in _BEHIND[:3])
    place = np.argsort(np.argsort(np.array(topics, object))) if topics else np.zeros(0, np.int64)
    lag, partition = rows["lag"].to_numpy(), rows["partition"].to_numpy()
    order = np.lexsort((partition, place[topic], -lag, owner, group))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (group[order][1:] != group[order][:-1]) | (owner[order][1:] != owner[order][:-1])
    starts = np.flatnonzero(begins)
    ends = np.minimum(starts + _LAG_NAMED, np.append(starts[1:], len(order)))
    group, owner, topic, lag, partition = (column[order].tolist() for column in (group, owner, topic, -lag, partition))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of = range(start, end)
        yield (groups[group[start]], owners[owner[start]]), [(lag[at], topics[topic[at]], partition[at]) for at in of]


_BEHIND = ["group_id", "owner", "topic", "partition", "lag"]


def _lag_of_group(owners: Mapping[str | None, list[Any]]) -> Figures:
    known = [lag for lag, *_ in owners.values() if lag is not None]
    total = sum(known) if known else None
    held = sorted((-lag, owner) for owner, (lag, *_) in owners.items() if owner is not None and lag is not None)
    worst = owners[held[0][1]][2] if held else ()
    return {
        "lag_now": total,
        "lag_quality": "exact" if all(exact for _, exact, _ in owners.values()) else "unknown",
        "lag_owner": held[0][1] if held else None,
        "lag_partitions": [{"topic": topic, "partition": at, "lag": -lag} for lag, topic, at in worst] if held else None,
        "lag_owner_share": -held[0][0] / total if held and total else None,
    }
