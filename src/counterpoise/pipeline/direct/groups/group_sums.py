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


class GroupStops:
    """As `stops.stops_by_group`, for rows of `stop_rows.stop_rows`."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def add(self, stops: pa.RecordBatch) -> None:
        """Rows of some partitions, all there are of each."""
        group, names = coded(stops.column("group_id"))
        known = stops.column("stop_s").is_valid().to_numpy(zero_copy_only=False)
        stop = stops.column("stop_s").fill_null(0.0).to_numpy()
        generation = stops.column("generation").fill_null(-1).to_numpy()
        commits, by_nobody = (stops.column(name).to_numpy() for name in ("commits", "commits_by_nobody"))
        longest = _firsts(np.lexsort((generation, -stop, group)), group, known)
        partitions = _different_partitions(stops, group, commits > 0, len(names)).tolist()
        nobody = _sums(group, by_nobody, len(names)).tolist()
        # Whole microseconds: a sum of fractions would depend on the order in which rows come.
        stopped = _sums(group[known], np.floor(stop[known] * 1_000_000 + 0.5).astype(np.int64), len(names)).tolist()
        for at, name in enumerate(names):
            row = longest.get(at)
            found = self._found.setdefault(name, [None, 0, 0, 0])
            if row is not None:
                worst = (-float(stop[row]), int(generation[row]))
                found[0] = worst if found[0] is None else min(found[0], worst)
            for place, more in enumerate((stopped[at], nobody[at], partitions[at]), 1):
                found[place] += more

    def groups(self) -> Iterator[tuple[str, Figures]]:
        """What is known of each group."""
        for name, (worst, stopped, nobody, partitions) in self._found.items():
            yield (
                name,
                {
                    "stopped_partition_seconds": None if worst is None else stopped / 1_000_000,
                    "longest_stop_seconds": None if worst is None else -worst[0],
                    "longest_stop_generation": None if worst is None or worst[1] < 0 else worst[1],
                    "commits_without_owner": nobody,
                    "committed_partitions": partitions,
                },
            )


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
    """The newest row of every partition in `partition_lag`, summed up per group as `group_report.lag_by_group` does."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str | None], list[Any]] = {}

    def add(self, newest: pa.RecordBatch) -> None:
        """Newest rows of some partitions, each partition once."""
        exact = pc.cast(pc.equal(newest.column("quality"), "exact"), pa.int8())
        rows = pa.table(
            [newest.column("group_id"), newest.column("owner"), newest.column("lag"), exact], ["g", "o", "lag", "exact"]
        )
        sums = rows.group_by(["g", "o"], use_threads=False).aggregate([("lag", "sum"), ("exact", "min")])
        for row in sums.to_pylist():
            known = self._owners.setdefault((row["g"], row["o"]), [None, 1])
            known[0] = row["lag_sum"] if known[0] is None else known[0] + (row["lag_sum"] or 0)
            known[1] = min(known[1], row["exact_min"])

    def groups(self) -> Iterator[tuple[str, Figures]]:
        """What is known of each group."""
        of: dict[str, dict[str | None, tuple[int | None, int]]] = {}
        for (group, owner), (lag, exact) in self._owners.items():
            of.setdefault(group, {})[owner] = (lag, exact)
        for group, owners in of.items():
            yield group, _lag_of_group(owners)


def _lag_of_group(owners: Mapping[str | None, tuple[int | None, int]]) -> Figures:
    known = [lag for lag, _ in owners.values() if lag is not None]
    total = sum(known) if known else None
    held = sorted((-lag, owner) for owner, (lag, _) in owners.items() if owner is not None and lag is not None)
    return {
        "lag_now": total,
        "lag_quality": "exact" if all(exact for _, exact in owners.values()) else "unknown",
        "lag_owner": held[0][1] if held else None,
        "lag_owner_share": -held[0][0] / total if held and total else None,
    }
