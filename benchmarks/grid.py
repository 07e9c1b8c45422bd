"""The cases and scenarios of the benchmark. A new case is one entry in CASES, a new scenario one in SCENARIOS."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["CASES", "SCENARIOS", "SWEEP", "Case", "Shape", "scenario_problem"]

SEED = 20240229
Solve = Callable[[Problem], Int32]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shape:
    """A group without history.

    Attributes
    ----------
    partitions : int64[T]
        Partitions of each topic.
    takes : bool[M, T]
        Who subscribes to what.
    """

    partitions: Int64
    takes: npt.NDArray[np.bool_]

    @property
    def n_members(self) -> int:
        """M."""
        return len(self.takes)

    def problem(self, members: Codes, previous_owner: Int32 | None = None) -> Problem:
        """The problem of these members (ascending codes), who are 0, 1, .. in it."""
        topic, member = np.nonzero(self.takes[members].T)
        starts = np.searchsorted(topic, np.arange(len(self.partitions) + 1))
        return Problem(len(members), np.append(0, np.cumsum(self.partitions)), starts, member.astype(np.int32), previous_owner)


@dataclass(frozen=True)
class Case:
    """One line of the grid.

    Attributes
    ----------
    key : str
        Its name on the command line.
    title : str
        Topics x partitions x members, subscriptions.
    build : callable
        A seeded generator to its shape.
    java_factor : int
        How many times faster than Java's sticky assignor the kernel must be.
    leader_factor : int
        The same from bytes to bytes; 0 where nothing is promised.
    ahead : bool
        The kernel must be faster than the broker's uniform assignor and than franz-go.
    most_ms : int
        Milliseconds the kernel may take at most; 0 where nothing is promised.
    small : bool
        Small enough for ``--quick``.
    slow_peers : bool
        Small enough for kafka-python and aiokafka.
    """

    key: str
    title: str
    build: Callable[[np.random.Generator], Shape]
    java_factor: int = 10
    leader_factor: int = 0
    ahead: bool = True
    most_ms: int = 0
    small: bool = False
    slow_peers: bool = False

    def shape(self) -> Shape:
        """The group of this case; the same on every call."""
        return self.build(_random(self.key))


def _random(key: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(key.encode())])


def _equal(topics: int, partitions: int, members: int) -> Callable[[np.random.Generator], Shape]:
    return lambda _: Shape(np.full(topics, partitions), np.ones((members, topics), np.bool_))


def _each_random(topics: int, partitions: int, members: int) -> Callable[[np.random.Generator], Shape]:
    def build(random: np.random.Generator) -> Shape:
        takes = random.random((members, topics)) < 0.5
        takes[np.arange(members), random.integers(topics, size=members)] = True
        return Shape(np.full(topics, partitions), takes)

    return build


def _random_sets(topics: int, partitions: int, members: int, sets: int) -> Callable[[np.random.Generator], Shape]:
    def build(random: np.random.Generator) -> Shape:
        of_set = random.random((sets, topics)) < 0.5
        of_set[:, 0] = True
        return Shape(np.full(topics, partitions), of_set[np.arange(members) % sets])

    return build


def _four_sets(_: np.random.Generator) -> Shape:
    takes = np.arange(500)[:, None] % 4 == np.arange(100) % 4
    takes[:, 0] = True
    return Shape(np.full(100, 200), takes)


def _one_odd(_: np.random.Generator) -> Shape:
    takes = np.ones((2000, 500), np.bool_)
    takes[-1, 1:] = False
    return Shape(np.full(500, 2000), takes)


def _nested(_: np.random.Generator) -> Shape:
    return Shape(np.ones(1000, np.int64), np.tri(1000, dtype=np.bool_))


def _chain(random: np.random.Generator) -> Shape:
    """Member i shares one topic with member i-1 and one with member i+1; topics differ in size."""
    takes = np.eye(1000, 999, dtype=np.bool_) | np.eye(1000, 999, -1, dtype=np.bool_)
    return Shape(random.integers(5, 16, size=999), takes)


CASES: dict[str, Case] = {
    case.key: case
    for case in (
        Case("one-topic", "1 x 2100 x 2100, equal", _equal(1, 2100, 2100), 30, most_ms=2, small=True, slow_peers=True),
        Case("random-40", "40 x 25 x 200, every member random", _each_random(40, 25, 200), small=True, slow_peers=True),
        Case("four-sets", "100 x 200 x 500, four sets", _four_sets, 30, small=True),
        Case("ten-sets", "100 x 100 x 300, ten random sets", _random_sets(100, 100, 300, 10), small=True),
        Case("random-200", "200 x 50 x 200, every member random", _each_random(200, 50, 200), small=True),
        Case("nested", "1000 x 1 x 1000, nested sets", _nested, most_ms=1000, small=True),
        Case("chain", "999 x 5-15 x 1000, a chain", _chain, ahead=False, most_ms=1000, small=True),
        Case("random-100k", "500 x 200 x 2000, every member random", _each_random(500, 200, 2000)),
        Case("million-equal", "500 x 2000 x 2000, equal", _equal(500, 2000, 2000), 30, 2),
        Case("million-odd", "500 x 2000 x 2000, one member on one topic", _one_odd, 30, 2),
        Case("million-random", "500 x 2000 x 2000, every member random", _each_random(500, 2000, 2000), 30, 2),
        Case("ten-million", "500 x 20000 x 20000, equal", _equal(500, 20_000, 20_000)),
    )
}

SWEEP: dict[str, Case] = {
    case.key: case
    for case in (
        Case("sweep-10k", "500 x 20 x 20, equal", _equal(500, 20, 20)),
        Case("sweep-100k", "500 x 200 x 200, equal", _equal(500, 200, 200)),
        Case("sweep-1m", "500 x 2000 x 2000, equal", _equal(500, 2000, 2000)),
        Case("sweep-10m", "500 x 20000 x 20000, equal", _equal(500, 20_000, 20_000)),
    )
}


def _fresh(everybody: Codes, _: np.random.Generator) -> tuple[Codes, Codes]:
    return everybody[:0], everybody


def _leaves(everybody: Codes, _: np.random.Generator) -> tuple[Codes, Codes]:
    return everybody, np.delete(everybody, len(everybody) // 2)


def _joins(everybody: Codes, _: np.random.Generator) -> tuple[Codes, Codes]:
    return np.delete(everybody, len(everybody) // 2), everybody


def _churn(everybody: Codes, random: np.random.Generator) -> tuple[Codes, Codes]:
    tenth = max(1, len(everybody) // 10)
    shuffled = random.permutation(everybody)
    return np.sort(shuffled[tenth:]), np.sort(np.append(shuffled[:tenth], shuffled[2 * tenth :]))


SCENARIOS: dict[str, Callable[[Codes, np.random.Generator], tuple[Codes, Codes]]] = {
    "fresh": _fresh,
    "leaves": _leaves,
    "joins": _joins,
    "churn": _churn,
}
"""Who was there before, and who is there now. Churn: a tenth has left and another tenth has come."""


def scenario_problem(case: Case, scenario: str, solve: Solve) -> Problem:
    """The problem of one line; its history is what `solve` planned for the members who were there before."""
    shape = case.shape()
    before, now = SCENARIOS[scenario](np.arange(shape.n_members), _random(f"{case.key}/{scenario}"))
    if not len(before):
        return shape.problem(now)
    old_owner = solve(shape.problem(before))
    code_now = np.full(shape.n_members + 1, UNOWNED, np.int32)
    code_now[now] = np.arange(len(now), dtype=np.int32)
    return shape.problem(now, code_now[np.append(before, UNOWNED)[old_owner]])
