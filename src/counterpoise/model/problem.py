"""Problem: one group as integers, the only thing an assignor sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.errors import ProblemError
from counterpoise.model.arrays import CONTESTED, UNOWNED, Int32, Int64, codes, locked, read_only, starts
from counterpoise.model.claims import holders

DENSE_CELLS = 50_000_000
"""The most cells of a table of members x topics (or topic classes), a byte each, that is worth its memory: 50 MB."""

MOST_CAPACITY = 2**31 - 1
"""Largest capacity of a member: sums over all members stay exact."""

_MOST_MEMBERS = 2**31 - 1
"""Their codes are int32."""
_put = object.__setattr__

__all__ = [
    "CONTESTED",
    "DENSE_CELLS",
    "MOST_CAPACITY",
    "UNOWNED",
    "Int32",
    "Int64",
    "Problem",
    "Racks",
    "check_problem",
    "keepers",
]


@dataclass(frozen=True, eq=False)
class Racks:
    """Where replicas and members live; rack codes follow sorted rack names.

    Attributes
    ----------
    rack_of_member : int32[M]
        Rack code, -1 if the member names none.
    replica_start : int64[P+1]
        Slice of `replica_rack` per partition.
    replica_rack : int32[R]
        Rack codes, ascending and distinct within a partition.
    """

    rack_of_member: Int32
    replica_start: Int64
    replica_rack: Int32


class Problem:
    """One group as read-only arrays: M members, T topics, P partitions end to end, S subscriptions.

    Codes follow sorted ids (Java's string order, see `wire.primitives.java_order`), so equal groups give equal problems
    whatever the order of their input.

    Parameters
    ----------
    n_members : int
        M. Members are the codes 0..M-1; a member may subscribe to nothing.
    topic_start : int64[T+1]
        Topic t owns the partitions ``topic_start[t] .. topic_start[t+1]-1``; starts at 0, never falls.
    subscriber_start : int64[T+1]
        Slice of `subscriber` per topic.
    subscriber : int32[S]
        Member codes, strictly ascending within a topic.
    previous_owner : int32[P], optional
        The member that claims the partition: its code, UNOWNED, CONTESTED, or any other code for a member that has left.
        The attribute says who may keep it: a member that subscribes to the topic, else UNOWNED or CONTESTED. Default: UNOWNED.
    holder : int32[P], optional
        The member that must give the partition up before another gets it (cooperative). The attribute holds member codes,
        UNOWNED (also for members that have left) and CONTESTED. Default: what was given as `previous_owner`.
    capacity : int64[M], optional
        What each member can carry compared with others, at least 1. Default: all 1.
    lag : int64[P], optional
        Records behind, at least 0. Default: unknown (None).
    racks : Racks, optional
        Default: unknown (None).
    static_rank : int32[M], optional
        Position of each member in Kafka's order of members: static members by instance id, then dynamic ones by
        id. Only `range` and `roundrobin` look at it. Default: by code.

    Raises
    ------
    ProblemError
        An array has the wrong length, is unsorted or out of range; the message names it.

    Notes
    -----
    O(S + P) checks, vectorised. Arrays are copied when their dtype differs, or when they are writeable or
    views of other arrays; inside they are read-only.
    """

    __slots__ = (
        "capacity",
        "holder",
        "lag",
        "n_members",
        "n_partitions",
        "n_topics",
        "previous_owner",
        "racks",
        "static_rank",
        "subscriber",
        "subscriber_start",
        "topic_start",
    )

    n_members: int
    n_topics: int
    n_partitions: int
    topic_start: Int64
    subscriber_start: Int64
    subscriber: Int32
    previous_owner: Int32
    holder: Int32
    capacity: Int64
    lag: Int64 | None
    racks: Racks | None
    static_rank: Int32

    def __init__(
        self,
        n_members: int,
        topic_start: npt.ArrayLike | Sequence[int],
        subscriber_start: npt.ArrayLike | Sequence[int],
        subscriber: npt.ArrayLike | Sequence[int],
        previous_owner: npt.ArrayLike | Sequence[int] | None = None,
        *,
        holder: npt.ArrayLike | Sequence[int] | None = None,
        capacity: npt.ArrayLike | Sequence[int] | None = None,
        lag: npt.ArrayLike | Sequence[int] | None = None,
        racks: Racks | None = None,
        static_rank: npt.ArrayLike | Sequence[int] | None = None,
    ) -> None:
        if isinstance(n_members, bool) or not isinstance(n_members, int | np.integer):
            raise ProblemError(f"n_members: expected a whole number, not {n_members!r}")
        if not 0 <= n_members <= _MOST_MEMBERS:
            what = "is negative" if n_members < 0 else f"are more than the {_MOST_MEMBERS} that codes can number"
            raise ProblemError(f"n_members: {n_members} {what}")
        put = _put
        put(self, "n_members", int(n_members))
        put(self, "topic_start", starts("topic_start", topic_start))
        put(self, "n_topics", len(self.topic_start) - 1)
        put(self, "n_partitions", int(self.topic_start[-1]))
        put(self, "subscriber_start", starts("subscriber_start", subscriber_start, self.n_topics + 1))
        put(self, "subscriber", read_only("subscriber", subscriber, np.int32, int(self.subscriber_start[-1])))
        self._check_subscribers()
        if previous_owner is None:
            previous_owner = np.full(self.n_partitions, UNOWNED, np.int32)
        claims = codes("previous_owner", previous_owner, self.n_partitions)
        self._settle(claims, claims if holder is None or holder is previous_owner else codes("holder", holder, self.n_partitions))
        n = self.n_members
        put(self, "capacity", locked(np.ones(n, np.int64)) if capacity is None else read_only("capacity", capacity, np.int64, n))
        if capacity is not None and n and not 1 <= int(self.capacity.min()) <= int(self.capacity.max()) <= MOST_CAPACITY:
            raise ProblemError(f"capacity: every member needs at least 1 and at most {MOST_CAPACITY}")
        put(self, "lag", None if lag is None else read_only("lag", lag, np.int64, self.n_partitions))
        if self.lag is not None:
            _check_lag(self.lag)
        put(self, "racks", None if racks is None else _racks(racks, n, self.n_partitions))
        rank = locked(np.arange(n, dtype=np.int32)) if static_rank is None else read_only("static_rank", static_rank, np.int32, n)
        put(self, "static_rank", rank)
        if static_rank is not None and not np.array_equal(np.sort(rank), np.arange(n)):
            raise ProblemError("static_rank: expected each of 0..n_members-1 once")

    def _settle(self, claims: Int32, held: Int32) -> None:
        """Drop invalid claims; this is done nowhere else."""
        known = holders(claims, self.n_members)
        _put(self, "previous_owner", keepers(known, self))
        _put(self, "holder", known if held is claims else holders(held, self.n_members))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Problem is read-only: {name} cannot be set")

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return partial(Problem, **self._fields()), ()

    def _fields(self) -> dict[str, Any]:
        """What the constructor takes, by name."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in ("n_topics", "n_partitions")}

    def __repr__(self) -> str:
        return f"Problem({self.n_members} members, {self.n_topics} topics, {self.n_partitions} partitions)"

    def _check_subscribers(self) -> None:
        members = self.subscriber
        if not len(members):
            return
        if int(members.min()) < 0 or int(members.max()) >= self.n_members:
            raise ProblemError(f"subscriber: codes must lie in 0..{self.n_members - 1}")
        _check_rising("subscriber", members, self.subscriber_start, "a topic")

    def subscribers(self, topic: int) -> Int32:
        """Codes of the members that subscribe to a topic, ascending."""
        return self.subscriber[self.subscriber_start[topic] : self.subscriber_start[topic + 1]]

    def topic_of_partition(self) -> Int32:
        """Topic code of every partition, int32[P]; O(P)."""
        return np.repeat(np.arange(self.n_topics, dtype=np.int32), np.diff(self.topic_start))

    def replace(self, **changes: object) -> Problem:
        """The same problem with some arrays changed (keyword names of the constructor)."""
        if changes.keys() == {"previous_owner"}:
            return self._claiming(changes["previous_owner"])
        fields = self._fields() | changes
        if "previous_owner" in changes and "holder" not in changes:
            fields.pop("holder")
        return Problem(**fields)

    def _claiming(self, previous_owner: object) -> Problem:
        """Other claims on the same arrays, which are not checked again."""
        other = object.__new__(Problem)
        claims = codes("previous_owner", previous_owner, self.n_partitions)
        for get, put in _KEPT:
            put(other, get(self))
        other._settle(claims, claims)
        return other


_SLOTS = tuple(getattr(Problem, name) for name in Problem.__slots__ if name not in ("previous_owner", "holder"))
_KEPT = tuple((slot.__get__, slot.__set__) for slot in _SLOTS)
"""What other claims leave as it is: how each is read and written."""


def keepers(held: Int32, problem: Problem) -> Int32:
    """Who may keep each partition, int32[P], read-only: its holder, or UNOWNED if that no longer subscribes to the topic.

    `held` is what `holders` returns, and is returned itself if nothing changes. CONTESTED stays. Of the problem only its
    subscriptions count. O(P), with different subscriptions O(P + S).
    """
    if len(problem.subscriber) == problem.n_topics * problem.n_members or int(held.max(initial=UNOWNED)) < 0:
        return held
    at = np.flatnonzero(held >= 0)
    lost = at[~_subscribes(problem.topic_of_partition()[at], held[at], problem)]
    if not len(lost):
        return held
    kept = held.copy()
    kept[lost] = UNOWNED
    return locked(kept)


def _subscribes(topic: Int32, member: Int32, problem: Problem) -> npt.NDArray[np.bool_]:
    """For pairs of topic and member codes: does the member subscribe to the topic?

    Returns bool of the pairs' length. O(pairs + S) with a dense table; beyond 50 million cells O(pairs log S).
    """
    n_topics, n_members = problem.n_topics, problem.n_members
    start = problem.subscriber_start
    keys = np.repeat(np.arange(n_topics), start[1:] - start[:-1]) * n_members + problem.subscriber
    wanted = np.asarray(topic, np.int64) * n_members + member
    if n_topics * n_members <= DENSE_CELLS:
        table = np.zeros(n_topics * n_members, np.bool_)
        table[keys] = True
        found: npt.NDArray[np.bool_] = table[wanted]
        return found
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[at] == wanted)


def _check_rising(name: str, values: Int32, start: Int64, what: str) -> None:
    first = np.zeros(len(values) + 1, np.bool_)
    first[start] = True
    falls = np.flatnonzero((values[1:] <= values[:-1]) & ~first[1:-1])
    if len(falls):
        raise ProblemError(f"{name}[{int(falls[0]) + 1}]: codes must rise strictly within {what}")


def _check_lag(lag: Int64) -> None:
    if int(lag.min(initial=0)) < 0:
        raise ProblemError("lag: a lag is never negative; clamp it first (counterpoise.partition_lag does)")
    if float(lag.sum(dtype=np.float64)) >= 2.0**62:
        raise ProblemError("lag: the lags sum up to 2**62 or more, which no cluster holds")


def check_problem(given: object) -> Problem:
    """`given`, if it is a Problem.

    Raises `ProblemError` if it is something else, such as a Group.
    """
    if isinstance(given, Problem):
        return given
    hint = "; a Group has one: group.problem()" if hasattr(given, "problem") else ""
    raise ProblemError(f"problem: expected a Problem, not {type(given).__name__}{hint}")


def _racks(racks: object, n_members: int, n_partitions: int) -> Racks:
    if not isinstance(racks, Racks):
        raise ProblemError(f"racks: expected a Racks, not {type(racks).__name__}")
    start = starts("racks.replica_start", racks.replica_start, n_partitions + 1)
    of_member = read_only("racks.rack_of_member", racks.rack_of_member, np.int32, n_members)
    of_replica = read_only("racks.replica_rack", racks.replica_rack, np.int32, int(start[-1]))
    if len(of_replica) and int(of_replica.min()) < 0:
        raise ProblemError("racks.replica_rack: a rack code is at least 0")
    if int(of_member.min(initial=-1)) < -1:
        raise ProblemError("racks.rack_of_member: a rack code is at least 0, or -1 for none")
    _check_rising("racks.replica_rack", of_replica, start, "a partition")
    return Racks(of_member, start, of_replica)
