"""Coordinator: the broker's side of a classic group, including the leader's plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from counterpoise.assignors.protocols import elect
from counterpoise.errors import ScenarioError
from counterpoise.model.problem import Int64
from counterpoise.simulation.client import Client
from counterpoise.simulation.dialects import Statement
from counterpoise.simulation.scenario import Timing
from counterpoise.simulation.world import World, milliseconds

__all__ = ["EMPTY", "STABLE", "Coordinator", "Planned", "Round"]

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


class Planned(NamedTuple):
    """A leader's plan: partition keys of each member by its number, and what changes."""

    keys: dict[int, Int64]
    moved: int
    kept: int
    withheld: int


@dataclass(frozen=True)
class Round:
    """One completed JoinGroup/SyncGroup exchange; times in milliseconds.

    `at` is the leader's SyncGroup, `joined` the end of the JoinGroup phase, `started` what began it. A follow-up round
    hands out what a cooperative round has withheld, and nothing else has happened.
    """

    at: int
    joined: int
    started: int
    generation: int
    strategy: str
    members: int
    moved: int
    kept: int
    withheld: int
    follow_up: bool


@dataclass
class _Registration:
    """A member as the broker knows it: its last JoinGroup, and what it was given."""

    client: Client
    said: Statement
    joined: bool = True
    assigned: Int64 | None = None
    arrives: int = 0
    heard: int = 0
    expires: int = -1


@dataclass
class Coordinator:
    """Joins, time-outs, generations: the classic protocol of Kafka 4 (KIP-134, KIP-345, KIP-394).

    `plan` is called once per generation with what the registered members said, in the order of their joins, and the
    elected strategy. `expelled` is called with a client that has lost its membership and does not know it yet.
    """

    world: World
    timing: Timing
    plan: Callable[[list[Statement], str], Planned]
    expelled: Callable[[Client], None]
    state: str = EMPTY
    generation: int = 0
    epoch: int = 0
    """Number of rebalances begun; messages about an older one are ignored."""
    rounds: list[Round] = field(default_factory=list)
    failed: int = 0
    refused: int = 0
    most: int | None = None
    """A group with more generations than this never settles; None: no limit, because the run has a fixed end."""
    crash_next_leader: bool = False
    _members: dict[int, _Registration] = field(default_factory=dict)
    _of_instance: dict[str | None, _Registration] = field(default_factory=dict)  # The last one of each static member
    _leader: int | None = None
    _started: int = 0
    _joined_at: int = 0
    _gathering: bool = False
    _newcomer: bool = False
    follows_up: bool = False
    """Whether the rebalance under way is the second round of a cooperative one."""

    def knows(self, client: Client) -> bool:
        """Is this client a member now?"""
        return client.number in self._members

    def awaits(self, client: Client) -> bool:
        """Is a rebalance waiting for this client's JoinGroup?"""
        return self.state == PREPARING and self.knows(client) and not self._members[client.number].joined

    def said(self, client: Client) -> Statement:
        """The last JoinGroup of a member."""
        return self._members[client.number].said

    def members(self) -> list[Client]:
        """The members in the order of their first join."""
        return [entry.client for entry in self._members.values()]

    # What members send.

    def on_join(self, client: Client, hands_over: bool = False) -> None:
        """JoinGroup arrives; `hands_over`: the client has revoked what goes to another member."""
        if not client.alive:
            return
        entry, said = self._members.get(client.number), client.statement()
        if entry is None:
            if not self._compatible(said):
                self.refused += 1
                client.alive = False
                return
            if self._replace_static(client, said):
                return
            entry = self._members[client.number] = _Registration(client, said, heard=self.world.now)
            self._of_instance[client.instance_id] = entry
            self._newcomer = self._gathering
            hands_over = False
        hands_over &= said.topics == entry.said.topics
        self.follows_up &= entry.assigned is not None and said.topics == entry.said.topics
        entry.said, entry.joined = said, True
        if self.state == EMPTY:
            self._gather()
        elif self.state != PREPARING:
            self._prepare(entry, follow_up=hands_over and self.state == STABLE)
        self._complete_if_all_joined()

    def on_leave(self, client: Client) -> None:
        """LeaveGroup arrives, or the session is over."""
        if self._members.pop(client.number, None) is None:
            return
        self.follows_up = False
        if self.state in {STABLE, COMPLETING}:
            self._prepare(None)
        self._complete_if_all_joined()

    # Silence.

    def silent(self, client: Client) -> None:
        """Heartbeats stop: unless one comes, the session ends `session_timeout` after the last."""
        entry = self._members.get(client.number)
        if entry is not None and entry.expires < 0:
            self._await(entry, max(entry.heard, self.world.now - (self.world.now - client.phase) % client.heartbeat))

    def heard(self, client: Client) -> None:
        """Heartbeats resume; a client for which a rebalance waits learns of it now."""
        entry = self._members.get(client.number)
        if entry is not None:
            entry.expires, entry.heard = -1, self.world.now
            if self.awaits(client):
                self._notify(entry)

    def _await(self, entry: _Registration, last: int) -> None:
        entry.expires = last + milliseconds(self.timing.session_timeout)
        self.world.after(entry.expires - self.world.now, self._expire, entry.client, entry.expires, timer=True)

    def _expire(self, client: Client, expires: int) -> None:
        """The session is over; a member that waits for the end of a JoinGroup phase counts as alive until then."""
        entry = self._members.get(client.number)
        if entry is None or entry.expires != expires or (entry.joined and self.state == PREPARING):
            return
        self.on_leave(client)
        self._expel(client)

    def _expel(self, client: Client) -> None:
        if client.alive:
            client.lose_membership()
            self.expelled(client)

    def metadata_changed(self, topic: str, since: int) -> None:
        """The leader sees another number of partitions; it rejoins if its last plan is older than that.

        A leader that is not running sees the change when it is back; if it is replaced, the new leader makes a new plan.
        """
        entry = self._members.get(-1 if self._leader is None else self._leader)
        if entry is None or self.state != STABLE or self.rounds[-1].at > since:
            return
        if any(topic in other.said.topics for other in self._members.values()):
            wait = max(entry.client.busy_until, entry.arrives) - self.world.now
            if wait > 0:
                self.world.after(wait, self.metadata_changed, topic, since, timer=True)
            elif entry.client.alive:
                entry.client.join()
            else:
                self.world.after(milliseconds(self.timing.session_timeout), self.metadata_changed, topic, since, timer=True)

    # Joining.

    def _compatible(self, said: Statement) -> bool:
        """Whether all members support one of its strategies. If not, Kafka refuses it (INCONSISTENT_GROUP_PROTOCOL)."""
        # A static member that comes back is still one of them, with the strategies that it had.
        # All members have one in common: whoever supports the same ones as some member supports that one.
        alike = any(entry.said.strategies == said.strategies for entry in self._members.values())
        return alike or bool(set(said.strategies).intersection(*(entry.said.strategies for entry in self._members.values())))

    def _replace_static(self, client: Client, said: Statement) -> bool:
        """A static member comes back under a new member id: its place, and in a stable group its assignment, are its own.

        As in Kafka, a stable group rebalances only if another strategy would be elected now.
        """
        old = None if client.instance_id is None else self._of_instance.get(client.instance_id)
        if old is None or not self.knows(old.client):
            return False
        fresh = _Registration(client, said, self.state == PREPARING, old.assigned, heard=self.world.now)
        self._of_instance[client.instance_id] = fresh
        gone, self.follows_up = old.client.number, False
        self._members = {client.number if n == gone else n: fresh if n == gone else e for n, e in self._members.items()}
        if self._leader == gone:
            self._leader = client.number
        if self.state == STABLE and old.assigned is not None and self._elect() == self.rounds[-1].strategy:
            self._send(fresh)
        elif self.state != PREPARING:
            fresh.joined = True
            self._prepare(fresh)
        self._complete_if_all_joined()
        return True

    def _gather(self) -> None:
        """The first member of an empty group: wait `initial_delay` for more, again while more come (KIP-134)."""
        self.state, self.epoch, self.follows_up = PREPARING, self.epoch + 1, False
        self._started = self.world.now
        delay = min(milliseconds(self.timing.initial_delay), milliseconds(self.timing.max_poll_interval))
        self._gathering, self._newcomer = delay > 0, False
        if delay:
            remaining = milliseconds(self.timing.max_poll_interval) - delay
            self.world.after(delay, self._gathered, self.epoch, delay, remaining)

    def _gathered(self, epoch: int, delay: int, remaining: int) -> None:
        if epoch != self.epoch or not self._gathering:
            return
        if self._newcomer and remaining:
            self._newcomer = False
            delay = min(delay, remaining)
            self.world.after(delay, self._gathered, epoch, delay, remaining - delay)
        else:
            self._gathering = False
            self._complete_if_all_joined()

    def _prepare(self, joiner: _Registration | None, *, follow_up: bool = False) -> None:
        """PreparingRebalance: members hear of it at their next heartbeat, or at once while they wait for SyncGroup."""
        failing = self.state == COMPLETING
        self.failed += failing
        self.state, self.epoch, self.follows_up = PREPARING, self.epoch + 1, follow_up
        self._started = self.world.now
        for entry in self._members.values():
            if entry is joiner:
                continue
            if failing and entry.joined:
                entry.joined = False
                self.world.after(milliseconds(self.timing.round_trip), self._fail, entry.client, self.epoch)
            else:
                self._notify(entry)
        self.world.after(milliseconds(self.timing.max_poll_interval), self._deadline, self.epoch, timer=True)

    def _notify(self, entry: _Registration) -> None:
        """The client hears of the rebalance: with a heartbeat, but not before the assignment that is on its way to it."""
        if entry.expires < 0 and entry.client.alive:
            wait = max(entry.client.hear_in(), entry.arrives - self.world.now)
            self.world.after(wait, entry.client.on_rebalance, self.epoch)

    def _fail(self, client: Client, epoch: int) -> None:
        client.waiting = False  # the answer that it waited for will not come
        client.on_rebalance(epoch)

    def _deadline(self, epoch: int) -> None:
        """The rebalance time-out: dynamic members that have not rejoined are out, static ones stay."""
        if epoch != self.epoch or self.state != PREPARING:
            return
        for number, entry in list(self._members.items()):
            if not entry.joined and entry.said.instance_id is None:
                del self._members[number]
                self._expel(entry.client)
        self.follows_up = False
        if self._members and not any(entry.joined for entry in self._members.values()):
            self.world.after(milliseconds(self.timing.max_poll_interval), self._deadline, epoch, timer=True)
        else:
            self._complete()

    def _complete_if_all_joined(self) -> None:
        if self.state == PREPARING and not self._gathering and all(entry.joined for entry in self._members.values()):
            self._complete()

    # The generation.

    def _complete(self) -> None:
        self.generation += 1
        if self.most is not None and self.generation > self.most:
            seconds = round(self.world.now / 1000)
            raise ScenarioError(
                f"after {seconds} s and {self.most} generations the group has not settled: members are expelled sooner "
                "than they can join again (timing: max_poll_interval, session_timeout, heartbeat_interval); "
                "change these times, or give the scenario a duration"
            )
        if not self._members:
            self.state, self._leader = EMPTY, None
            return
        self.state, self._joined_at = COMPLETING, self.world.now
        joined = [number for number, entry in self._members.items() if entry.joined]
        if self._leader not in joined:
            self._leader = joined[0]
        for entry in self._members.values():
            if not entry.joined:
                self._expel(entry.client)
            else:
                entry.heard = self.world.now
                if entry.expires >= 0:
                    self._await(entry, self.world.now)
        leader = self._members[self._leader].client
        if self.crash_next_leader:
            self.crash_next_leader = False
            leader.stop()
            self.silent(leader)
        wait = 2 * milliseconds(self.timing.round_trip) + milliseconds(self.timing.assign)
        self.world.after(wait, self._sync, self.epoch, leader)

    def _elect(self) -> str:
        return elect([entry.said.strategies for entry in self._members.values()]) or ""

    def _sync(self, epoch: int, leader: Client) -> None:
        """SyncGroup of the leader arrives with the plan."""
        if epoch != self.epoch or self.state != COMPLETING or not leader.alive:
            return
        if leader.busy_until > self.world.now:
            self.world.after(leader.busy_until - self.world.now, self._sync, epoch, leader)
            return
        strategy = self._elect()
        planned = self.plan([entry.said for entry in self._members.values()], strategy)
        self.state = STABLE
        follow_up = self.follows_up and self.world.resized <= self.rounds[-1].at
        figures = (strategy, len(self._members), planned.moved, planned.kept, planned.withheld, follow_up)
        self.rounds.append(Round(self.world.now, self._joined_at, self._started, self.generation, *figures))
        for number, entry in self._members.items():
            entry.joined, entry.assigned = False, planned.keys[number]
            self._send(entry)

    def _send(self, entry: _Registration) -> None:
        trip = milliseconds(self.timing.round_trip)
        entry.arrives = self.world.now + trip
        self.world.after(trip, entry.client.on_assignment, entry.assigned, self.generation)
