"""Lag as a leader could have known it: by generation, of the last instant at or before it at which log ends were sampled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from counterpoise.pipeline.fold.lag import QUALITIES, LagRows
from counterpoise.pipeline.fold.lag_lookup import LagLookup
from counterpoise.pipeline.fold.partitions import Keys, PartitionStates

Row = tuple[str, str, int, int, int]
"""Group, topic, partition, time and lag (-1: unknown)."""


def partitions(rows: list[Row]) -> PartitionStates:
    """The keys of some rows."""
    parts = PartitionStates()
    for group, topic, *_ in rows:
        parts.names.groups.setdefault(group, len(parts.names.groups))
        parts.names.topics.setdefault(topic, len(parts.names.topics))
    keys = sorted({(parts.names.groups[group], parts.names.topics[topic], number) for group, topic, number, *_ in rows})
    parts.keys = Keys.new(*np.array(keys, np.int64).T)
    return parts


def lag_rows(parts: PartitionStates, rows: list[Row]) -> LagRows:
    """Rows of exact lag without an owner."""
    keys = list(zip(*(column.tolist() for column in (parts.keys.group, parts.keys.topic, parts.keys.partition)), strict=True))
    names = parts.names
    key = [keys.index((names.groups[group], names.topics[topic], number)) for group, topic, number, *_ in rows]
    time, lag = (np.array([row[at] for row in rows], np.int64) for at in (3, 4))
    none = np.full(len(rows), -1)
    exact = np.full(len(rows), QUALITIES.index("exact"))
    return LagRows(np.array(key), time, none, lag, none, none, none, none, exact, none, none > 0)


def entries(known: LagLookup, group: str, at: int) -> Any:
    """What is known of a group at a time, as lists."""
    found = known.at(group, at)
    return None if found is None else [(one["topic"], one["partitions"].tolist(), one["lags"].tolist()) for one in found]


def test_a_generation_has_the_lag_of_the_last_instant_at_or_before_it_whoever_has_rows_of_that() -> None:
    rows: list[Row] = [("g", "t", 0, at, lag) for at, lag in ((10, 7), (15, 8), (20, 9))]
    rows += [("h", "t", 0, 10, -1), ("x", "t", 0, 10, 3)]
    parts = partitions(rows)
    generations = [("g", 12), ("g", 20), ("g", 25), ("g", 35), ("h", 12), ("g", 5), ("nobody", 12)]
    known = LagLookup(generations, np.array([10, 20, 30]), parts)
    known.add(lag_rows(parts, rows))
    assert [entries(known, group, at) for group, at in generations] == [
        [("t", [0], [7])],
        [("t", [0], [9])],
        [("t", [0], [9])],
        [],
        [],
        None,
        [],
    ]
    assert entries(known, "x", 12) == [], "nobody asked for it"
    none = LagLookup([("g", 35)], np.zeros(0, np.int64), parts)
    none.add(lag_rows(parts, rows))
    assert none.at("g", 35) is None


def test_lag_that_comes_in_parts_in_any_order_is_all_there() -> None:
    """Groups asked for one after the other, in another order than the rows have; instants without a row, too."""
    chance, instants = np.random.default_rng(11), list(range(10, 400, 10))
    rows: list[Row] = [
        (group, topic, number, at, int(chance.integers(1 << 40)))
        for group in ("b", "a", "empty at times")
        for at in instants
        if group in "ab" or at % 50 == 0
        for topic in ("t", "s")
        for number in range(7)
    ]
    rows = [rows[at] for at in chance.permutation(len(rows)).tolist()]
    parts, generations = partitions(rows), list(product(("empty at times", "a", "b"), (3, *range(10, 420, 5))))
    known = LagLookup(generations, np.array(instants), parts)
    for first in range(0, len(rows), 100):
        known.add(lag_rows(parts, rows[first : first + 100]))
    for group, at in generations:
        last = max((one for one in instants if one <= at), default=None)
        mine = sorted(row[1:3] + row[4:] for row in rows if row[0] == group and row[3] == last)
        found = entries(known, group, at)
        assert last is None or sorted((topic, *one) for topic, *lists in found for one in zip(*lists, strict=True)) == mine
        assert (found is None) == (last is None)


class _Listed(list[str]):
    """A list that nobody reads as a whole."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names are read")


def test_names_of_members_that_are_not_in_a_batch_are_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = PartitionStates()
    parts.names.groups, parts.names.topics, parts.names.members = {"g": 0}, {"t": 0}, {f"m-{at}": at for at in range(9)}
    parts.keys = Keys.new(*(np.zeros(1, np.int64) for _ in range(3)))
    monkeypatch.setattr(PartitionStates, "members", property(lambda self: _Listed(self.names.members)))
    none, owner = np.zeros(3, np.int64), np.array([7, -1, 2])
    rows = LagRows(none, none, owner, none, none, none, none, none, none, none, none > 0)
    assert rows.batch(parts).column("owner").to_pylist() == ["m-7", None, "m-2"]
