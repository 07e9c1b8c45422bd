"""What a member sends when it joins, by strategy: its subscription, its claims, its rack, its host and its capacity.

Three ways of claiming, and who may use which:

- cooperative host: what it owns at this moment, in the owned partitions, with the generation it got them in;
- eager host under `sticky` (and the strategies only counterpoise has): in the user data, as everything is revoked;
- eager host under `cooperative-sticky`: nothing. A leader withholds what is claimed until its holder revokes it and
  joins again, which a host that has revoked everything never does: the partition would stay without an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.clients.own_fields import with_capacity, with_host
from counterpoise.wire.consumer_protocol import Subscription, TopicPartitions, encode_subscription, grouped
from counterpoise.wire.user_data import encode_cooperative, encode_sticky

__all__ = ["WITHOUT_HISTORY", "MemberSide", "by_topic", "pairs"]

_FOREIGN_COOPERATIVE = "cooperative-sticky"
WITHOUT_HISTORY = ("range", "roundrobin", "lag")
"""Strategies whose members send no claims."""


@dataclass
class MemberSide:
    """One member's memory between rebalances, and how it is written."""

    strategy: str
    host: str  # One of `own_fields.HOSTS`
    rack: str | None = None
    capacity: int = 1
    assigned: tuple[TopicPartitions, ...] = field(default=())  # What the last assignment gave, sorted
    generation: int = -1  # The generation of that assignment, -1 when unknown

    def received(self, partitions: Iterable[tuple[str, int]], generation: int) -> None:
        """Remember an assignment."""
        self.assigned = by_topic(partitions)
        self.generation = generation

    def subscription(
        self,
        topics: Iterable[str],
        # What the member holds while it joins, or None when its host has revoked everything (eager)
        held: tuple[TopicPartitions, ...] | None,
        held_since: int | None = None,  # The generation that gave it; default: that of the last assignment remembered here
    ) -> bytes:
        """The JoinGroup metadata, version 3."""
        owned: tuple[TopicPartitions, ...] = ()
        user_data: bytes | None = None
        generation = -1
        if held is not None:
            # With its generation even if it holds nothing: a coordinator answers an unchanged subscription of a follower with
            # the present generation, and a member that joins again for the second round must begin that round.
            owned, generation = held, self.generation if held_since is None else held_since
            user_data = encode_cooperative(generation) if self.strategy == _FOREIGN_COOPERATIVE else encode_sticky((), generation)
        elif self.strategy == _FOREIGN_COOPERATIVE:
            user_data = encode_cooperative(-1)
        elif self.strategy not in WITHOUT_HISTORY:
            user_data = encode_sticky(self.assigned, self.generation)
        data = with_capacity(with_host(user_data, self.host), self.capacity)
        return encode_subscription(Subscription(tuple(topics), data, owned, generation, self.rack))

    @property
    def cooperates(self) -> bool:
        """Whether the strategy can run cooperatively, on a host that can."""
        return COOPERATIVE in strategy(self.strategy).protocols


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartitions, ...]:
    """(topic, partition) pairs grouped by topic, both sorted: equal sets give equal bytes."""
    return tuple(grouped((topic, (partition,)) for topic, partition in sorted(set(partitions))))


def pairs(listed: Iterable[tuple[str, Iterable[int]]]) -> Iterator[tuple[str, int]]:
    """The (topic, partition) pairs that `by_topic` grouped."""
    return ((topic, index) for topic, indices in listed for index in indices)
