"""Ownership: which partitions a consumer really lost and really gained, whatever its host reports. No I/O, no host.

An eager host reports everything as revoked and then everything as assigned. A partition in both was kept only if the
member stayed in the group and missed no generation. Otherwise another member may have processed it meanwhile, so it was
lost and gained again.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple, TypeAlias

from counterpoise.wire.consumer_protocol import Partition

__all__ = ["Membership", "Ownership", "Partitions"]

Partitions: TypeAlias = frozenset[Partition]


class Membership(NamedTuple):
    """The member as its coordinator knows it: its id, and the generation since which it has it."""

    member_id: str
    generation: int


class Ownership:
    """What is owned, what has been processed of it, and what each report of the host changes.

    Safe to use from the thread that polls and the thread that rebalances.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owned: Partitions = frozenset()
        self._suspended: Partitions = frozenset()
        self._since: Membership | None = None
        self._next: dict[Partition, int] = {}

    @property
    def owned(self) -> Partitions:
        """What may be processed now: nothing during an eager rebalance."""
        return self._owned

    def processed(self, partition: Partition, offset: int) -> None:
        """The record at this offset is done. Ignored for partitions that are not owned (any more)."""
        with self._lock:
            if partition in self._owned:
                self._next[partition] = offset + 1

    def to_commit(self, partitions: Iterable[Partition] | None = None) -> dict[Partition, int]:
        """Offset of the next record for every partition with something processed since it was assigned, sorted."""
        with self._lock:
            wanted = self._owned if partitions is None else frozenset(partitions)
            return {each: self._next[each] for each in sorted(wanted & self._next.keys())}

    def revoked(self, partitions: Iterable[Partition], *, cooperative: bool) -> Partitions:
        """The host takes these away; returns what is lost for sure (eager: nothing yet)."""
        with self._lock:
            gone = frozenset(partitions) & self._owned
            self._owned -= gone
            self._forget(gone)
            if cooperative:
                return gone
            self._suspended |= gone
            return frozenset()

    def lost(self) -> Partitions:
        """The membership is gone; returns everything that was owned."""
        with self._lock:
            gone = self._owned | self._suspended
            self._owned = self._suspended = frozenset()
            self._forget(gone)
            self._since = None
            return gone

    def assigned(
        self, partitions: Iterable[Partition], membership: Membership | None, *, held: Iterable[Partition] | None
    ) -> tuple[Partitions, Partitions]:
        """The host hands these out; returns what was really lost and really gained.

        `held` are all partitions that a cooperative host has after this assignment, because `partitions` are only the new ones.
        It is None for an eager host.
        """
        with self._lock:
            cooperative = held is not None
            continues = self._continues(membership, cooperative=cooperative)
            # A cooperative host does not report what it keeps, even if its member id or its listener is a new one.
            now = frozenset(partitions).union(held or ())
            still = self._owned & now if cooperative else frozenset()
            kept = still | self._suspended & now if continues else frozenset()
            before = self._suspended | self._owned
            self._forget(now - kept if cooperative else now)
            self._owned, self._suspended, self._since = now, frozenset(), membership
            return before - kept, now - kept

    def belongs_to_another(self, now: Membership) -> bool:
        """Whether what is owned was assigned under another member id: another member may have owned it since."""
        return self._since is not None and now.member_id != self._since.member_id

    def _continues(self, now: Membership | None, *, cooperative: bool) -> bool:
        before = self._since
        if before is None or now is None or now.member_id != before.member_id:
            return False
        return cooperative or 0 <= now.generation - before.generation <= 1

    def _forget(self, partitions: Partitions) -> None:
        # Offsets of an earlier ownership must never be committed over those of a later owner.
        for each in partitions:
            self._next.pop(each, None)
