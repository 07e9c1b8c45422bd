"""A cache of plans by strategy and input: a strategy runs once per distinct input, in any generation or mode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import EVERYTHING, Assignor, Strategy
from counterpoise.metrics import Batch
from counterpoise.model.problem import Int32, Problem

__all__ = ["PlanCache", "PlanLookup"]

Content = tuple[Hashable, ...]
_READ = tuple(sorted(EVERYTHING))
"""What a plan may depend on besides members, topics and subscriptions; no record has racks of partitions."""


class PlanCache:
    """An LRU cache of plans, for all groups of a worker. `unmeasured` is a batch of plans that are measured together.

    A key has all input that the strategy reads (see `Strategy.reads`), so a cached plan equals the one that it would compute.
    Keys and plans have at most `most_bytes`; the least recently used plan is evicted. A plan that takes more than `most_bytes` /
    16 bytes with its key is not cached.
    """

    def __init__(self, most_bytes: int = 4 << 20) -> None:
        self.computed = self.size = 0  # plans that a strategy computed; bytes of keys and plans
        self._most = most_bytes
        self._plans: OrderedDict[Content, tuple[Int32, int]] = OrderedDict()
        self.unmeasured = Batch()

    def get(self, key: Content) -> Int32 | None:
        """The plan of a key; None: it is not in the cache."""
        if key not in self._plans:
            return None
        self._plans.move_to_end(key)
        return self._plans[key][0]

    def put(self, key: Content, owner: Int32) -> None:
        """Add a plan."""
        size = owner.nbytes + 500 + sum(len(part) for part in key if isinstance(part, bytes))
        if size * 16 > self._most:
            return
        self._plans[key] = owner, size
        self.size += size
        while self.size > self._most:
            self.size -= self._plans.popitem(last=False)[1][1]


class PlanLookup:
    """Plans of one generation, cached or computed, with its own claims or with others; `problem` is the input of the leader."""

    def __init__(self, problem: Problem, plans: PlanCache) -> None:
        self._problem, self._plans = problem, plans
        everybody = len(problem.subscriber) == problem.n_members * problem.n_topics
        arrays = (problem.topic_start,) if everybody else (problem.topic_start, problem.subscriber_start, problem.subscriber)
        self._content: Content = (problem.n_members, *(array.tobytes() for array in arrays))
        self._prepared: dict[str, Assignor] = {}
        self._made: dict[tuple[Assignor, int], Int32] = {}
        self._owners: dict[bytes, Int32] = {}
        same = problem.holder is problem.previous_owner or np.array_equal(problem.holder, problem.previous_owner)
        self._problems: dict[bytes, Problem] = {problem.previous_owner.tobytes(): problem} if same else {}

    def with_claims(self, claims: Int32) -> Problem:
        """The generation with other claims; the same object for equal claims."""
        key = claims.tobytes()
        if key not in self._problems:
            self._problems[key] = self._problem.replace(previous_owner=claims)
        return self._problems[key]

    def plan(self, name: str, problem: Problem) -> Int32:
        """The plan of a strategy for one of this generation's problems; equal plans are the same object."""
        known = strategy(name)
        by_claims = "previous_owner" in known.reads or "holder" in known.reads
        here = (known.kernel, id(problem) if by_claims else 0)  # all problems live as long as this object
        if here not in self._made:
            self._made[here] = self.intern(self._cached(known, problem))
        return self._made[here]

    def intern(self, owner: Int32) -> Int32:
        """The same object for equal plans."""
        return self._owners.setdefault(owner.tobytes(), owner)

    def _cached(self, known: Strategy, problem: Problem) -> Int32:
        read = (getattr(problem, name) for name in _READ if name in known.reads)
        key = (known.kernel, *self._content, *(b"" if array is None else array.tobytes() for array in read))
        owner = self._plans.get(key)
        if owner is None:
            if known.name not in self._prepared:
                self._prepared[known.name] = known.kernel if known.prepare is None else known.prepare(self._problem)
            owner = np.asarray(self._prepared[known.name](problem), np.int32)
            self._plans.computed += 1
            self._plans.put(key, owner)
        return owner
