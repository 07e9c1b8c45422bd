"""However a history with troubles is cut into chunks, updates or slices, the rows of `health` and the report are the same."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest

from counterpoise.pipeline.fold.health_state import STATES
from counterpoise.pipeline.tables.keyed import KEYS
from tests.pipeline.fold.histories import GROUPS, PLACES, Commit, Event, Folded, History, Sample, Step, folded

SECOND = 1_000_000
SAMPLES, SEEDS = 90, 4


class Troubled:
    """Two groups that read four logs; each partition of each does something else every few minutes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._ends, self._starts = [0] * len(PLACES), [0] * len(PLACES)
        self._made = [self._chance.choice((0, 3, 30)) for _ in PLACES]
        self._read = {(group, at): 0 for group in GROUPS for at in range(len(PLACES))}
        self._does = dict.fromkeys(self._read, "reads")
        self._owned = dict.fromkeys(GROUPS, True)

    def history(self) -> History:
        """A sample every ten seconds, a few missing; commits in between; a rebalance now and then."""
        events = list[Event]()
        for number in range(SAMPLES):
            at = number * 10 * SECOND
            for place in range(len(PLACES)):
                self._ends[place] += self._chance.randint(0, 2 * self._made[place])
            for group in GROUPS:
                events += self._of_group(group, at, number)
            if self._chance.random() < 0.95:
                sampled = [None if self._chance.random() < 0.05 else end for end in self._ends]
                events.append(Sample(at + 9 * SECOND, tuple(sampled), tuple(self._starts)))
            if self._chance.random() < 0.1:
                place = self._chance.randrange(len(PLACES))
                self._starts[place] = max(self._starts[place], self._ends[place] - self._chance.choice((50, 400)))
        return History(tuple(events), None, self._chance.choice((None, None, "earliest")))

    def _of_group(self, group: str, at: int, number: int) -> list[Event]:
        events = list[Event]()
        if number == 0 or self._chance.random() < 0.06:
            owners = tuple(self._chance.choice((None, 0, 1, 2)) if number % 3 else self._chance.randrange(3) for _ in PLACES)
            kind = "emptied" if number and self._chance.random() < 0.3 else "rebalance"
            events.append(Step(at, group, kind, "eager", owners, (), withheld=False, recreated=False))
        for place in range(len(PLACES)):
            key = group, place
            if self._chance.random() < 0.05:
                self._does[key] = self._chance.choice(("reads", "reads", "slow", "stuck", "silent", "gone", "back"))
            offset, end = self._read[key], self._ends[place]
            does = self._does[key]
            if does == "reads":
                offset = min(end, offset + 100)
            elif does == "slow":
                offset = min(end, max(offset, self._starts[place]) + 10)
            elif does == "back":
                offset, self._does[key] = max(offset - 300, 0), "reads"
            self._read[key] = offset
            if does == "gone" and number:
                events.append(Commit(at + (place + 1) * SECOND, group, place, None, None))
                self._does[key] = "silent"
            elif does != "silent":
                events.append(Commit(at + (place + 1) * SECOND, group, place, offset, None))
        return events


def states_of(found: Folded) -> Counter[str]:
    return Counter(row["state"] for row in found.health.values() if row["scope"] == "partition")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_cut_gives_the_same_health(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = Troubled(seed).history()
    chance, n = random.Random(seed), len(history.events)
    cuts = sorted(chance.sample(range(1, n), 25))
    whole = folded(history)
    assert folded(history, cuts, saved=True) == whole
    assert folded(history, cuts, updates=True, aggregate=False) == whole
    monkeypatch.setattr("counterpoise.pipeline.fold.lag._ROWS", chance.randint(1, 60))
    assert folded(history) == whole


def test_the_generated_histories_have_troubles_of_every_kind() -> None:
    found = Counter[str]()
    for seed in range(SEEDS):
        found += states_of(folded(Troubled(seed).history()))
    assert min(found[state] for state in STATES[1:]) >= 1


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_states_of_a_partition_follow_each_other(seed: int) -> None:
    """None begins before the one before it ends; all but the last have ended; the sample that shows one is not before it."""
    of: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in sorted(folded(Troubled(seed).history()).health.values(), key=itemgetter("since")):
        of.setdefault(tuple(str(row[name]) for name in KEYS["health"][:-1]), []).append(row)
    for rows in of.values():
        assert all(one["since"] < one["until"] <= other["since"] for one, other in pairwise(rows))
        assert all(row["since"] <= row["detected"] for row in rows)
        assert not any(row["open"] for row in rows[:-1])
