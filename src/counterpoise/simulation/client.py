"""Client: one simulated member, from its start to its end, as a consumer of its library behaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterpoise.assignors.strategy import EAGER
from counterpoise.model.problem import Int64
from counterpoise.simulation.dialects import Dialect
from counterpoise.simulation.ledger import Ledger
from counterpoise.simulation.scenario import Timing
from counterpoise.simulation.world import World, milliseconds

if TYPE_CHECKING:
    from counterpoise.simulation.coordinator import Coordinator

__all__ = ["Client"]

_NOTHING = np.zeros(0, np.int64)


class Client:
    """A member: what it owns, what it claims, when it hears of a rebalance.

    It heartbeats on a grid of its own (`phase`), so nothing has to happen between rebalances. While it is paused it
    hears nothing; a pause beyond ``max.poll.interval.ms`` costs it its membership.
    """

    def __init__(
        self,
        number: int,
        name: str,
        member_id: str,
        topics: Sequence[str],
        dialect: Dialect,
        strategies: Sequence[str],
        protocol: str,
        *,
        instance_id: str | None,
        rack: str | None,
        capacity: int,
        timing: Timing,
        world: World,
        ledger: Ledger,
        coordinator: Coordinator,
    ) -> None:
        self.number, self.name, self.member_id, self.instance_id = number, name, member_id, instance_id
        self.topics, self.dialect, self.strategies, self.protocol = tuple(topics), dialect, tuple(strategies), protocol
        self.rack, self.capacity, self.timing = rack, capacity, timing
        self.world, self.ledger, self.coordinator = world, ledger, coordinator
        self.owned = self.remembered = _NOTHING
        self.generation = self.remembered_generation = -1
        self.alive = True
        self.paused_until = 0
        self.revoked = 0
        heartbeat = milliseconds(timing.heartbeat_interval)
        self.phase = (number * 619) % heartbeat if heartbeat else 0

    def join(self, delay: int = 0) -> None:
        """Send JoinGroup."""
        self.world.after(delay + self._trip(), self.coordinator.on_join, self)

    def rejoin(self) -> None:
        """The subscription has changed: an eager member gives everything up first."""
        if self.protocol == EAGER:
            self._give_up(self.owned)
        self.join()

    def claims(self, native: str) -> tuple[Int64, int]:
        """What a leader reads from this member's subscription: partition keys and their generation, -1 for none.

        `native` is the protocol the group's strategy was made for. An eager sticky strategy keeps its claims in user
        data; a cooperative one reads the owned partitions, of which an eager member has none left when it joins (the
        first bounce of a rolling upgrade).
        """
        if self.protocol == EAGER and native == EAGER:
            return self.remembered, self.remembered_generation if self.dialect.eager_generation else -1
        return self.owned, self.generation if self.dialect.cooperative_generation else -1

    def hear_in(self, since: int) -> int:
        """Milliseconds until this member hears of what began at `since`: its next heartbeat, or the end of its pause."""
        heartbeat = max(milliseconds(self.timing.heartbeat_interval), 1)
        at = self.phase + -(-(since - self.phase) // heartbeat) * heartbeat
        return max(at, since, self.paused_until) - self.world.now

    def on_rebalance(self, epoch: int) -> None:
        """A rebalance is under way: give up everything (eager) and rejoin."""
        if not self.alive or self.coordinator.epoch != epoch or not self.coordinator.knows(self):
            return
        if self.protocol == EAGER and len(self.owned):
            self._give_up(self.owned)
            self.join(milliseconds(self.timing.revoke))
        else:
            self.join()

    def on_assignment(self, keys: Int64, generation: int) -> None:
        """SyncGroup's answer: what to own from now on."""
        if not self.alive or not self.coordinator.knows(self):
            return
        self.generation = self.remembered_generation = generation
        self.remembered = keys
        lost = np.setdiff1d(self.owned, keys, assume_unique=True)
        gained = np.setdiff1d(keys, self.owned, assume_unique=True)
        self._give_up(lost)
        self.ledger.gain(self.world.now, self.number, gained)
        self.owned = keys
        if len(lost) and self.protocol != EAGER:
            self.join(milliseconds(self.timing.revoke))

    def stop(self) -> None:
        """The process ends, by plan or not."""
        self.ledger.lose(self.world.now, self.number, self.owned)
        self.owned = _NOTHING
        self.alive = False

    def lose_membership(self) -> None:
        """The group went on without it: nothing is owned any more; what is remembered depends on the library."""
        self.ledger.lose(self.world.now, self.number, self.owned)
        self.owned = _NOTHING
        self.generation = -1
        if not self.dialect.remembers:
            self.remembered, self.remembered_generation = _NOTHING, -1

    def drop_vanished(self) -> None:
        """Partitions that no longer exist are not processed any more; they stay claimed until the next assignment."""
        gone = self.owned[[key in self.world.vanished for key in self.owned.tolist()]] if len(self.owned) else _NOTHING
        if len(gone):
            self.ledger.lose(self.world.now, self.number, gone)
            self.owned = np.setdiff1d(self.owned, gone, assume_unique=True)

    def _give_up(self, keys: Int64) -> None:
        if len(keys):
            self.ledger.lose(self.world.now, self.number, keys)
            self.revoked += len(keys)
            self.owned = np.setdiff1d(self.owned, keys, assume_unique=True)

    def _trip(self) -> int:
        return milliseconds(self.timing.round_trip)
