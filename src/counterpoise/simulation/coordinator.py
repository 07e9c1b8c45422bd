"""Coordinator: the broker's side of a classic group, and the leader's plan in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from counterpoise.assignors.protocols import elect
from counterpoise.model.problem import Int64
from counterpoise.simulation.client import Client
from counterpoise.simulation.scenario import Timing
from counterpoise.simulation.world import World, milliseconds

__all__ = ["EMPTY", "STABLE", "Coordinator", "Round"]

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


@dataclass(frozen=True)
class Round:
    """One completed JoinGroup/SyncGroup exchange."""

    at: int
    generation: int
    started: int
    strategy: str
    members: int
    moved: int
    kept: int
    withheld: int
    follow_up: bool


@dataclass
class _Registration:
    client: Client
    joined: bool = False
    assigned: Int64 | None = None
    heard: int = 0


@dataclass
class Coordinator:
    """Joins, time-outs, generations. Follows the classic protocol of Kafka 4.3 (KIP-134, KIP-345, KIP-814).

    `plan` is called once per generation with the registered clients in join order and the elected strategy; it returns
    the partition keys of each client and the figures of the round.
    """

    world: World
    timing: Timing
    plan: Callable[[list[Client], str], tuple[dict[int, Int64], tuple[int, int, int]]]
    state: str = EMPTY
    generation: int = 0
    epoch: int = 0
    """Number of rebalances begun; what was said about an older one no longer counts."""
    rounds: list[Round] = field(default_factory=list)
    failed: int = 0
    crash_next_leader: bool = False
    _members: dict[int, _Registration] = field(default_factory=dict)
    _leader: int | None = None
    _started: int = 0
    _hold_until: int = 0
    _follow_up: bool = False

    def knows(self, client: Client) -> bool:
        """Is this client a member now?"""
        return client.number in self._members

    def members(self) -> list[Client]:
        """The members in the order of their first join."""
        return [entry.client for entry in self._members.values()]

    def leader(self) -> Client | None:
        """The member that plans."""
        return self._members[self._leader].client if self._leader in self._members else None

    def on_join(self, client: Client) -> None:
        """JoinGroup arrives."""
        if not client.alive:
            return
        known = self._members.get(client.number)
        if known is None:
            if self._replace_static(client):
                return
            known = self._members[client.number] = _Registration(client)
        rejoins_to_hand_over = self.state == STABLE and known.assigned is not None and client.protocol != "eager"
        known.joined = True
        if self.state == EMPTY:
            self._prepare(self.timing.initial_delay)
        elif self.state != PREPARING:
            self._prepare(0.0, follow_up=rejoins_to_hand_over)
        elif self._hold_until:
            limit = self._started + milliseconds(self.timing.max_poll_interval)
            self._hold_until = min(self.world.now + milliseconds(self.timing.initial_delay), limit)
        self._complete_if_all_joined()

    def on_leave(self, client: Client) -> None:
        """LeaveGroup arrives, or the session is over."""
        if self._members.pop(client.number, None) is None:
            return
        if self.state in {STABLE, COMPLETING}:
            self._prepare(0.0)
        self._complete_if_all_joined()

    def expire_session(self, client: Client) -> None:
        """The client was last heard of now; unless it comes back its session ends `session_timeout` later."""
        if self.knows(client):
            entry = self._members[client.number]
            heartbeat = max(milliseconds(self.timing.heartbeat_interval), 1)
            last = max(entry.heard, self.world.now - (self.world.now - client.phase) % heartbeat)
            self.world.after(last + milliseconds(self.timing.session_timeout) - self.world.now, self._expired, client)

    def request_rebalance(self) -> None:
        """The leader has seen new metadata and rejoins."""
        if self.state in {STABLE, COMPLETING}:
            self._prepare(0.0)

    def _expired(self, client: Client) -> None:
        if not client.alive or client.paused_until > self.world.now:
            self.on_leave(client)

    def _replace_static(self, client: Client) -> bool:
        """A static member comes back under a new member id: its place, and in a stable group its assignment, are its own."""
        if client.instance_id is None:
            return False
        old = next((entry for entry in self._members.values() if entry.client.instance_id == client.instance_id), None)
        if old is None:
            return False
        self._members = {
            client.number if number == old.client.number else number: entry for number, entry in self._members.items()
        }
        if self._leader == old.client.number:
            self._leader = client.number
        same = old.client.topics == client.topics and old.client.strategies == client.strategies
        old.client, old.joined, old.heard = client, self.state == PREPARING, self.world.now
        if self.state == STABLE and same and old.assigned is not None:
            self._send(client, old.assigned)
        elif self.state != PREPARING:
            old.joined = True
            self._prepare(0.0)
        self._complete_if_all_joined()
        return True

    def _prepare(self, delay: float, *, follow_up: bool = False) -> None:
        """PreparingRebalance: members hear of it at their next heartbeat, or at once while they wait for SyncGroup."""
        waiting = self.state == COMPLETING
        self.failed += waiting
        self.state, self.epoch, self._follow_up = PREPARING, self.epoch + 1, follow_up
        self._started = self.world.now
        self._hold_until = self.world.now + milliseconds(delay) if delay else 0
        for entry in self._members.values():
            if not entry.joined or waiting:
                entry.joined = entry.joined and not waiting
                hears = milliseconds(self.timing.round_trip) if waiting else entry.client.hear_in(self.world.now)
                self.world.after(hears, entry.client.on_rebalance, self.epoch)
        self.world.after(milliseconds(self.timing.max_poll_interval), self._deadline, self.epoch)
        if delay:
            self.world.after(milliseconds(delay), self._held, self.epoch)

    def _held(self, epoch: int) -> None:
        if epoch == self.epoch and self.state == PREPARING and self._hold_until > self.world.now:
            self.world.after(self._hold_until - self.world.now, self._held, epoch)
        elif epoch == self.epoch:
            self._complete_if_all_joined()

    def _deadline(self, epoch: int) -> None:
        """The rebalance time-out: dynamic members that have not rejoined are out, static ones stay."""
        if epoch != self.epoch or self.state != PREPARING:
            return
        for number, entry in list(self._members.items()):
            if not entry.joined and entry.client.instance_id is None:
                del self._members[number]
        self._complete()

    def _complete_if_all_joined(self) -> None:
        if self.state == PREPARING and self._hold_until <= self.world.now and all(m.joined for m in self._members.values()):
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        if not self._members:
            self.state, self._leader = EMPTY, None
            return
        self.state = COMPLETING
        joined = [number for number, entry in self._members.items() if entry.joined]
        if self._leader not in joined:
            self._leader = joined[0] if joined else next(iter(self._members))
        for entry in self._members.values():
            entry.heard = self.world.now
        leader = self._members[self._leader].client
        if self.crash_next_leader:
            self.crash_next_leader = False
            leader.stop()
            self.expire_session(leader)
        wait = 2 * milliseconds(self.timing.round_trip) + milliseconds(self.timing.assign)
        self.world.after(wait, self._sync, self.epoch, leader)

    def _sync(self, epoch: int, leader: Client) -> None:
        """SyncGroup of the leader arrives with the plan."""
        if epoch != self.epoch or self.state != COMPLETING or not leader.alive:
            return
        strategy = elect([entry.client.strategies for entry in self._members.values()])
        if strategy is None:
            return
        assigned, figures = self.plan(self.members(), strategy)
        self.state = STABLE
        self.rounds.append(
            Round(self.world.now, self.generation, self._started, strategy, len(self._members), *figures, self._follow_up)
        )
        for number, entry in self._members.items():
            entry.joined, entry.assigned = False, assigned[number]
            self._send(entry.client, assigned[number])

    def _send(self, client: Client, keys: Int64) -> None:
        delay = max(milliseconds(self.timing.round_trip), client.paused_until - self.world.now)
        self.world.after(delay, self._deliver, client, keys, self.generation)

    def _deliver(self, client: Client, keys: Int64, generation: int) -> None:
        if generation == self.generation:
            client.on_assignment(keys, generation)
