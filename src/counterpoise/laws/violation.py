"""Violation: one broken law in plain words, with the better move or exchange if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int32, Problem

__all__ = ["Move", "NamedMove", "Violation", "Words", "of_partitions"]

_SHOWN = 5
"""So many examples, or moves of an exchange, are written out in a message; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a better plan, by codes: `partition` (0..P-1) goes from member `giver` to member `taker`."""

    partition: int
    giver: int
    taker: int


@dataclass(frozen=True, slots=True)
class NamedMove:
    """The same by names; `partition` is the index within `topic`."""

    topic: str
    partition: int
    giver: str
    taker: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One law that a plan breaks."""

    law: str  # Its name, see `laws.LAWS`
    message: str  # What is wrong, in plain words
    count: int = 1  # How many partitions (or, for exchanges, 1) the message speaks of
    # Balance and stickiness: moves which, all made together, give a better plan. No partition occurs twice.
    moves: tuple[Move, ...] | tuple[NamedMove, ...] = ()
    # What they gain: for balance the fall of the sum of load²/capacity, for stickiness how many more partitions stay
    gain: int | Fraction = 0


class Words:
    """How messages call members and partitions: by code, or by name if names are given (in code order)."""

    def __init__(self, problem: Problem, member_ids: Sequence[str] | None = None, topic_names: Sequence[str] | None = None):
        self._start = problem.topic_start
        self._members = member_ids
        self._topics = topic_names

    def member(self, code: int) -> str:
        """A member's name."""
        return f"member {code}" if self._members is None else self._members[code]

    def split(self, partition: int) -> tuple[str, int]:
        """Topic name and index within the topic of a partition code."""
        topic = int(np.searchsorted(self._start, partition, side="right")) - 1
        name = f"topic {topic}" if self._topics is None else self._topics[topic]
        return name, partition - int(self._start[topic])

    def partition(self, code: int) -> str:
        """A partition's name, as Kafka writes it."""
        topic, index = self.split(code)
        return f"{topic}-{index}"

    def partitions(self, codes: npt.NDArray[np.int64], owner: Int32 | None = None) -> str:
        """A few partitions of a list (with their owners), and how many more there are."""
        shown = [
            self.partition(code) + ("" if owner is None else f" (given to {self._owner(int(owner[code]))})")
            for code in codes[:_SHOWN].tolist()
        ]
        return ", ".join(shown) + _more(len(codes))

    def moves(self, moves: Sequence[Move]) -> str:
        """The moves of an exchange in words."""
        shown = [f"{self.partition(m.partition)} from {self.member(m.giver)} to {self.member(m.taker)}" for m in moves[:_SHOWN]]
        return ", ".join(shown) + _more(len(moves))

    def named(self, moves: Sequence[Move]) -> tuple[Move, ...] | tuple[NamedMove, ...]:
        """The moves by names if names are known, unchanged otherwise."""
        if self._members is None or self._topics is None:
            return tuple(moves)
        return tuple(NamedMove(*self.split(m.partition), self._members[m.giver], self._members[m.taker]) for m in moves)

    def _owner(self, code: int) -> str:
        known = self._members is None or 0 <= code < len(self._members)
        return self.member(code) if known else f"code {code}, which is no member"


def of_partitions(law: str, wrong: npt.NDArray[np.bool_], what: str, words: Words, owner: Int32 | None = None) -> list[Violation]:
    """At most one violation for the partitions of a bool[P] mask: "3 partitions are <what>: a-0, a-1, b-7"."""
    at = np.flatnonzero(wrong)
    if not len(at):
        return []
    number = "1 partition is" if len(at) == 1 else f"{len(at)} partitions are"
    return [Violation(law, f"{number} {what}: {words.partitions(at, owner)}", len(at))]


def _more(total: int) -> str:
    return f" and {total - _SHOWN} more" if total > _SHOWN else ""
