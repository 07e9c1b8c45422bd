"""A cache of plans by what they depend on: a strategy runs once per distinct input, in any generation or mode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import EVERYTHING, Assignor, Strategy
from counterpoise.metrics import Batch
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["PlanLookup", "Plans"]

Content = tuple[Hashable, ...]
_READ = tuple(sorted(EVERYTHING))


class Plans:
    """An LRU cache of plans by strategy and the integers that they depend on, for all groups of a worker.

    And the plans of several generations that wait to be measured together.

    A key holds what the plan depends on in full (see `Strategy.reads`), so a plan that is found is the one that would be made.

    Parameters
    ----------
    most_bytes : int
        Of keys and plans together; the least recently used plan is evicted. A plan larger than a sixteenth of it is not kept.

    Attributes
    ----------
    made : int
        Plans that a strategy computed.
    held : int
        Bytes.
    waiting : Batch
    """

    def __init__(self, most_bytes: int = 16 << 20) -> None:
        self.made = self.held = 0
        self._most = most_bytes
        self._known: OrderedDict[Content, tuple[Int32, int]] = OrderedDict()
        self.waiting = Batch()

    def find(self, key: Content) -> Int32 | None:
        """The plan kept under a key."""
        found = self._known.get(key)
        if found is None:
            return None
        self._known.move_to_end(key)
        return found[0]

    def keep(self, key: Content, size: int, owner: Int32) -> None:
        """Keep a plan whose key takes `size` bytes."""
        size += owner.nbytes + 500
        if size * 16 > self._most:
            return
        self._known[key] = owner, size
        self.held += size
        while self.held > self._most:
            self.held -= self._known.popitem(last=False)[1][1]


class PlanLookup:
    """Plans of one generation, from the cache or computed, with its own claims or with others.

    Parameters
    ----------
    problem : Problem
        The generation as its leader saw it.
    plans : Plans
    """

    def __init__(self, problem: Problem, plans: Plans) -> None:
        self._problem, self._plans = problem, plans
        everybody = len(problem.subscriber) == problem.n_members * problem.n_topics
        arrays = (problem.topic_start,) if everybody else (problem.topic_start, problem.subscriber_start, problem.subscriber)
        self._content: Content = (problem.n_members, *(array.tobytes() for array in arrays))
        self._size = sum(array.nbytes for array in arrays)
        self._parts: dict[str, bytes] = {}
        self._made: dict[tuple[Assignor, int], Int32] = {}
        self._owners: dict[bytes, Int32] = {}
        claims = problem.previous_owner.tobytes()
        self._claims: dict[int, bytes] = {id(problem): claims}
        self._problems: dict[bytes, Problem] = {}
        if problem.holder is problem.previous_owner or problem.holder.tobytes() == claims:
            self._problems[claims] = problem

    def claiming(self, claims: Int32) -> Problem:
        """The generation with other claims; the same object for the same claims."""
        key = claims.tobytes()
        known = self._problems.get(key)
        if known is None:
            known = self._problems[key] = self._problem.replace(previous_owner=claims)
            self._claims[id(known)] = key
        return known

    def plan(self, name: str, problem: Problem) -> Int32:
        """The plan of a strategy for one of this generation's problems; equal plans are the same object."""
        known = strategy(name)
        by_claims = "previous_owner" in known.reads or "holder" in known.reads
        here = (known.kernel, id(problem) if by_claims else 0)  # all of them live as long as this one
        owner = self._made.get(here)
        if owner is None:
            owner = self._made[here] = self._found(known, problem)
        return owner

    def known(self, owner: Int32) -> Int32:
        """The plan that is equal to `owner`, if there is one: the very object."""
        return self._owners.setdefault(owner.tobytes(), owner)

    def _found(self, known: Strategy, problem: Problem) -> Int32:
        parts, size = self._key(known.reads, problem)
        key = (known.kernel, *self._content, *parts)
        owner = self._plans.find(key)
        if owner is None:
            owner = np.asarray(known.kernel(problem), np.int32)
            self._plans.made += 1
            self._plans.keep(key, size, owner)
        return self.known(owner)

    def _key(self, reads: frozenset[str], problem: Problem) -> tuple[list[bytes], int]:
        """What a plan depends on besides members, topics and subscriptions, and the bytes of the whole key."""
        parts, size = [], self._size
        for name in _READ:
            if name not in reads:
                continue
            if name == "previous_owner":
                part = self._claims[id(problem)]
            elif name == "holder":
                part = problem.holder.tobytes()
            else:
                known = self._parts.get(name)
                part = self._parts[name] = _part(problem, name) if known is None else known
            parts.append(part)
            size += len(part)
        return parts, size


def _part(problem: Problem, name: str) -> bytes:
    """A part of a key that does not depend on claims; empty if the problem does not have it."""
    if name == "racks":
        racks = problem.racks
        parts = () if racks is None else (racks.rack_of_member, racks.replica_start, racks.replica_rack)
        return b"".join(len(part).to_bytes(8, "big") + part.tobytes() for part in parts)
    array: Int64 | None = getattr(problem, name)
    return b"" if array is None else array.tobytes()
