"""Client: one simulated member, from its start to its end, as a consumer of its library behaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from counterpoise.assignors.protocols import client_protocol
from counterpoise.assignors.strategy import EAGER
from counterpoise.model.problem import Int64
from counterpoise.simulation.dialects import DIALECTS, Statement
from counterpoise.simulation.ledger import Ledger
from counterpoise.simulation.scenario import MemberGroup, Timing
from counterpoise.simulation.world import World, milliseconds

__all__ = ["Client", "GroupCoordinator"]

_NOTHING = np.zeros(0, np.int64)


class GroupCoordinator(Protocol):
    """What a client asks of its coordinator."""

    world: World
    timing: Timing
    generation: int
    epoch: int
    follows_up: bool

    def knows(self, client: Client) -> bool:
        """Is this client a member now?"""

    def awaits(self, client: Client) -> bool:
        """Is a rebalance waiting for this client's JoinGroup?"""

    def said(self, client: Client) -> Statement:
        """The client's last JoinGroup."""

    def on_join(self, client: Client, hands_over: bool = False) -> None:
        """The client's JoinGroup arrives; `hands_over`: it has revoked what goes to another member."""


class Client:
    """A member: what it owns, what its JoinGroup says, when it learns of a rebalance.

    Partitions that it keeps stand still while it joins, if that is what its library does.
    It heartbeats on a grid of its own (`phase`), so nothing has to happen between rebalances. While it is busy (paused
    or frozen) it hears nothing. It has one JoinGroup under way at a time, and takes the answer before anything newer.
    `owned` holds ascending partition keys: what it believes it owns, even if the topic has been deleted meanwhile.
    """

    def __init__(
        self,
        number: int,
        name: str,
        member_id: str,
        group: MemberGroup,
        strategies: tuple[str, ...],
        *,
        ledger: Ledger,
        coordinator: GroupCoordinator,
    ) -> None:
        self.number, self.name, self.member_id, self.strategies = number, name, member_id, strategies
        self.topics, self.capacity, self.dialect = tuple(group.topics), group.capacity, DIALECTS[group.library]
        self.instance_id = name if group.static else None
        protocol = client_protocol(strategies)
        self.protocol = protocol if protocol in self.dialect.protocols else EAGER
        self.timing, self.world, self.ledger, self.coordinator = coordinator.timing, coordinator.world, ledger, coordinator
        self.owned = self.remembered = self._leaving = _NOTHING
        self.generation = self.remembered_generation = -1
        self.alive, self.waiting, self._stood_still = True, False, False
        self.busy_until, self.polled_at, self._joined_at = 0, 0, -(1 << 40)
        self.revoked = 0
        self.heartbeat = max(milliseconds(self.timing.heartbeat_interval), 1)
        self.phase = (number * 619) % self.heartbeat

    def join(self, *, first: bool = False) -> None:
        """Give up what has to go before a JoinGroup (eager: everything; cooperative: topics given up), then send it.

        A new dynamic member asks for its member id first: one more round trip (KIP-394).
        """
        if self.waiting:
            return
        if first and self.instance_id is None:
            self._send_join(milliseconds(self.timing.round_trip))
            return
        going = self.owned if self.protocol == EAGER else self.owned[~self.world.on_topics(self.owned, self.topics)]
        self._send_join(milliseconds(self.timing.revoke) if self._give_up(going) else 0)

    def statement(self) -> Statement:
        """What its JoinGroup says now."""
        return Statement(
            self.number, self.member_id, self.instance_id, self.capacity, self.dialect, self.protocol, self.strategies,
            self.topics, self.owned, self.generation, self.remembered, self.remembered_generation,
        )  # fmt: skip

    def hear_in(self) -> int:
        """Milliseconds until this member hears of what begins now: its next heartbeat, or when it is free again.

        The first heartbeat after a join comes a whole interval later: a second round that begins at once waits for that long.
        """
        now = self.world.now
        if self.coordinator.follows_up and self.protocol != EAGER and self.dialect.hears_at_once:
            return max(self.busy_until - now, 0)
        at = self.phase + -(-(now - self.phase) // self.heartbeat) * self.heartbeat
        if self._joined_at <= now < self._joined_at + self.heartbeat:
            at = self._joined_at + self.heartbeat
        return max(at, now, self.busy_until) - now

    def on_rebalance(self, epoch: int) -> None:
        """A rebalance is under way: rejoin."""
        if self.busy_until > self.world.now:
            self.world.after(self.busy_until - self.world.now, self.on_rebalance, epoch)
        elif self.alive and self.coordinator.epoch == epoch and self.coordinator.awaits(self):
            self.join()

    def on_assignment(self, keys: Int64, generation: int) -> None:
        """SyncGroup's answer: what to own from now on. A member that has to give something up rejoins once that is done."""
        if self.busy_until > self.world.now:
            self.world.after(self.busy_until - self.world.now, self.on_assignment, keys, generation)
            return
        if not self.waiting or not self.coordinator.knows(self) or generation != self.coordinator.generation:
            return
        self.waiting, self._joined_at = False, self.world.now
        self.generation = self.remembered_generation = generation
        self.remembered = keys
        lost = _without(self.owned, keys)
        gained = _without(keys, self.owned)
        self._give_up(lost)
        self.ledger.gain(self.world.now, self.number, keys if self._stood_still else gained)
        self._stood_still = False
        self.owned = keys
        if len(lost) and self.protocol != EAGER:
            self._send_join(milliseconds(self.timing.revoke), hands_over=True)
        elif self.coordinator.said(self).topics != self.topics or self._misfits(keys):
            self.join()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Another subscription: rejoins now, or as soon as the answer it waits for has come."""
        if tuple(topics) != self.topics:
            self.topics = tuple(topics)
            self.rejoin()

    def rejoin(self) -> None:
        """The application wants a rebalance: its next poll asks for one, if it is still a member then."""
        if self.busy_until > self.world.now:
            self.world.after(self.busy_until - self.world.now, self.rejoin)
        elif self.alive and self.coordinator.knows(self):
            self.join()

    def stop(self) -> None:
        """The process ends, by plan or not."""
        self.lose_membership()
        self.alive = False

    def lose_membership(self) -> None:
        """The group continues without it: nothing is owned any more; what is remembered depends on the library.

        An answer that is on its way counts no more, even if the group still knows the member: a static one that has
        not polled in time (`max.poll.interval.ms`) has cleared its generation, and joins again when it polls.
        """
        for keys in (self.owned, self._leaving):
            self.ledger.lose(self.world.now, self.number, keys)
        self.owned, self._leaving, self.generation = _NOTHING, _NOTHING, -1
        self.waiting = False
        if not self.dialect.remembers:
            self.remembered, self.remembered_generation = _NOTHING, -1

    def on_resized(self, vanished: Int64, created: Int64) -> None:
        """Partitions that no longer exist are not processed; they stay claimed, and are processed again if they come back."""
        self.ledger.lose(self.world.now, self.number, self.owned[np.isin(self.owned, vanished)])
        self.ledger.gain(self.world.now, self.number, self.owned[np.isin(self.owned, created)])

    def _misfits(self, keys: Int64) -> bool:
        """A static member that came back with another subscription is given its old partitions: it rejoins."""
        return self.instance_id is not None and not self.world.on_topics(keys, self.topics).all()

    def _send_join(self, delay: int, *, hands_over: bool = False) -> None:
        self.waiting = True
        second = hands_over or self.coordinator.follows_up
        if self.protocol != EAGER and self.dialect.stops_kept(second_round=second):
            self._stood_still = True
            self.ledger.lose(self.world.now, self.number, self.owned)
        self.world.after(delay + milliseconds(self.timing.round_trip), self.coordinator.on_join, self, hands_over)

    def _give_up(self, keys: Int64) -> bool:
        """Revoke: they are its own until the application has cleaned up. True if there was anything to revoke."""
        if not len(keys):
            return False
        self.ledger.lose(self.world.now + milliseconds(self.timing.revoke), self.number, keys)
        self._leaving = keys
        self.revoked += len(keys)
        self.owned = _without(self.owned, keys)
        return True


def _without(keys: Int64, others: Int64) -> Int64:
    """`keys` that are not in `others`; both ascending and without repeats. The common cases cost a comparison."""
    if not len(keys) or not len(others):
        return keys
    if keys is others or (len(keys) == len(others) and keys.tobytes() == others.tobytes()):
        return keys[:0]
    at = np.minimum(np.searchsorted(others, keys), len(others) - 1)
    rest: Int64 = keys[others[at] != keys]
    return rest
