"""Play: runs a scenario's events on one world, one coordinator and its clients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from msgspec.structs import replace

from counterpoise.simulation.client import Client
from counterpoise.simulation.coordinator import EMPTY, STABLE, Coordinator
from counterpoise.simulation.ledger import ABSENT, Ledger
from counterpoise.simulation.planner import OnRound, Planner
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario
from counterpoise.simulation.world import World, milliseconds

__all__ = ["Play"]

_FEW, _EACH = 1000, 20
"""A group with more than 1000 generations, and 20 more for each member and event, never settles. A rolling restart of 50, the
largest known case, takes three per member."""


class Play:
    """One run of a scenario under one strategy; `clients` holds every client there was, by its number."""

    def __init__(self, scenario: Scenario, strategy: str, on_round: OnRound | None) -> None:
        names = {*scenario.topics, *(event.topic for event in scenario.events if event.topic)}
        self.scenario, self.strategy = scenario, strategy
        self.world = World(names, scenario.topics)
        self.ledger = Ledger()
        self.coordinator = Coordinator(self.world, scenario.timing, Planner(self.world, on_round), self._expelled)
        self.clients: list[Client] = []
        self._running: dict[str, Client] = {}
        self._group_of = {name: group for group in scenario.members for name in group.names()}
        self._configured = {group.name: group for group in scenario.members}
        self._names_in = {group.name: dict.fromkeys(group.names()) for group in scenario.members}  # in order, quick to look up
        self._starts: dict[str, int] = {}
        # Members that run when all scheduled starts and stops are done. A start of another one, or a stop of one of these, is
        # cancelled: it does nothing when it is due.
        self._wanted = {name for group in scenario.members if group.join_at >= 0 for name in group.names()}

    def run(self) -> None:
        """Run the whole scenario."""
        for group in self.scenario.members:
            for at, name in enumerate(group.names()):
                if group.join_at >= 0:
                    self.world.after(milliseconds(group.join_at + at * group.every), self._start_wanted, name)
        for event in self.scenario.events:
            self.world.after(milliseconds(event.at), getattr(self, f"_do_{event.do}"), event)
        if not self.scenario.duration:
            counts = [event.count for event in self.scenario.events if event.do == "scale"]
            members = len(self._group_of) + sum(counts)
            self.coordinator.most = _FEW + _EACH * members * (len(self.scenario.events) + 1)
        self.world.run(milliseconds(self.scenario.duration) if self.scenario.duration else None)

    def settled(self) -> bool:
        """Stable or empty, and everything with a subscriber has exactly one owner, who subscribes to it."""
        members = self.coordinator.members()
        if not members:
            return self.coordinator.state == EMPTY
        wanted = sorted({self.world.topic_number[topic] for client in members for topic in client.topics})
        owned = np.concatenate([client.owned[self.world.on_topics(client.owned, client.topics)] for client in members])
        given = sum(len(client.owned) for client in members)
        complete = len(np.unique(owned)) == given == self.world.count_existing(owned) == int(self.world.counts[wanted].sum())
        return self.coordinator.state == STABLE and complete

    # Clients come and go.

    def _is_running(self, name: str) -> bool:
        return name in self._running and self._running[name].alive

    def _start_wanted(self, name: str) -> None:
        if name in self._wanted:
            self._start(name)

    def _stop_unwanted(self, name: str) -> None:
        if name not in self._wanted:
            self._stop(name)

    def _start(self, name: str, memory: Client | None = None) -> None:
        if self._is_running(name):
            return
        group = self._group_of[name]
        begun = self._starts[name] = self._starts.get(name, -1) + 1
        client = Client(
            len(self.clients),
            name,
            f"{name}-{begun:04}",
            group,
            tuple(group.strategies) or (self.strategy,),
            ledger=self.ledger,
            coordinator=self.coordinator,
        )
        if memory is not None:
            client.remembered, client.remembered_generation = memory.remembered, memory.remembered_generation
        self.clients.append(client)
        self._running[name] = client
        client.join(first=True)

    def _stop(self, name: str, *, crash: bool = False) -> None:
        client = self._running.pop(name, None)
        if client is None or not client.alive:
            return
        client.stop()
        if crash or client.instance_id is not None:
            self.coordinator.silent(client)
        else:
            self.world.after(milliseconds(self.scenario.timing.round_trip), self.coordinator.on_leave, client)

    def _restart(self, name: str, down: float) -> None:
        if self._is_running(name):
            self._stop(name)
            self.world.after(milliseconds(down), self._start_wanted, name)

    def _busy(self, name: str, seconds: float) -> Client | None:
        """Make the client do nothing for so long; the caller schedules what comes after."""
        client = self._running.get(name)
        if client is not None and client.alive:
            if client.busy_until <= self.world.now:
                client.polled_at = self.world.now  # it polls between two pauses
            client.busy_until = max(client.busy_until, self.world.now + milliseconds(seconds))
            return client
        return None

    def _kick(self, client: Client) -> None:
        """``max.poll.interval.ms`` is over: the heartbeat thread leaves the group; a static member only falls silent."""
        if client.alive and client.busy_until > self.world.now and self.coordinator.knows(client):
            client.lose_membership()
            if client.instance_id is None:
                self.coordinator.on_leave(client)
            else:
                self.coordinator.silent(client)

    def _expelled(self, client: Client) -> None:
        """It learns this with its next heartbeat, or when it is free again."""
        self.world.after(client.hear_in(), self._come_back, client)

    def _resume(self, client: Client, kicked: bool) -> None:
        """The application polls again."""
        if client.busy_until > self.world.now:
            self.world.after(client.busy_until - self.world.now, self._resume, client, kicked)
        elif kicked or not self.coordinator.knows(client):
            self._come_back(client)
        elif client.alive:
            self.coordinator.heard(client)

    def _come_back(self, client: Client) -> None:
        """Without membership it joins as a new member, with what it remembers."""
        if client.busy_until > self.world.now:
            self.world.after(client.busy_until - self.world.now, self._come_back, client)
        elif client.alive and self._running.get(client.name) is client:
            client.stop()
            self._start(client.name, client)

    # What may happen, by the name of the action.

    def _do_join(self, event: Event) -> None:
        for name in self._names(event):
            self._wanted.add(name)
            self._start(name)

    def _do_leave(self, event: Event) -> None:
        for name in self._names(event):
            self._wanted.discard(name)
            self._stop(name)

    def _do_crash(self, event: Event) -> None:
        for name in self._names(event):
            self._stop(name, crash=True)

    def _do_crash_leader(self, _event: Event) -> None:
        self.coordinator.crash_next_leader = True

    def _do_pause(self, event: Event) -> None:
        limit = milliseconds(self.scenario.timing.max_poll_interval)
        for name in self._names(event):
            client = self._busy(name, event.seconds)
            if client is not None and client.busy_until - client.polled_at > limit:
                self.world.after(client.polled_at + limit - self.world.now, self._kick, client, timer=True)
                self.world.after(client.busy_until - self.world.now, self._resume, client, True)

    def _do_freeze(self, event: Event) -> None:
        for name in self._names(event):
            client = self._busy(name, event.seconds)
            if client is not None:
                self.coordinator.silent(client)
                self.world.after(milliseconds(event.seconds), self._resume, client, False)

    def _do_rejoin(self, event: Event) -> None:
        """The application asks for a rebalance (KIP-568)."""
        for name in self._names(event):
            if name in self._running:
                self._running[name].rejoin()

    def _do_restart(self, event: Event) -> None:
        for name in self._names(event):
            self._restart(name, event.down)

    def _do_rolling_restart(self, event: Event) -> None:
        for at, name in enumerate(self._names(event)):
            self.world.after(milliseconds(at * event.every), self._restart, name, event.down)

    def _do_reconfigure(self, event: Event) -> None:
        self._configure(event, strategies=tuple(event.strategies))
        for at, name in enumerate(self._names(event)):
            changed = replace(self._group_of[name], strategies=tuple(event.strategies))
            self.world.after(milliseconds(at * event.every), self._change, name, changed, event.down)

    def _do_subscribe(self, event: Event) -> None:
        self._configure(event, topics=tuple(event.topics))
        for name in self._names(event):
            self._group_of[name] = replace(self._group_of[name], topics=tuple(event.topics))
            if name in self._running:
                self._running[name].subscribe(event.topics)

    def _do_scale(self, event: Event) -> None:
        group = self._configured[str(event.members)]
        wanted = dict.fromkeys(group.names(event.count))
        running = {name: None for name in self._running if name in self._names_in[group.name] and self._is_running(name)}
        self._wanted -= self._names_in[group.name].keys()
        self._wanted.update(wanted)
        self._names_in[group.name].update(wanted)
        for at, name in enumerate(name for name in wanted if name not in running):
            self._group_of.setdefault(name, group)
            self.world.after(milliseconds(at * event.every), self._start_wanted, name)
        for at, name in enumerate(name for name in reversed(running) if name not in wanted):
            self.world.after(milliseconds(at * event.every), self._stop_unwanted, name)

    def _do_grow(self, event: Event) -> None:
        self._resize(event.topic, event.partitions, self.scenario.timing.metadata_age)

    _do_create = _do_grow

    def _do_delete(self, event: Event) -> None:
        """Fetches from a deleted topic fail, so its metadata is renewed soon."""
        self._resize(event.topic, 0, self.scenario.timing.metadata_retry)

    def _resize(self, topic: str, partitions: int, seen_after: float) -> None:
        vanished, created = self.world.resize(topic, partitions)
        for client in self._running.values():
            client.on_resized(vanished, created)
        self.ledger.gain(self.world.now, ABSENT, vanished)
        self.ledger.lose(self.world.now, ABSENT, created)
        self.world.after(milliseconds(seen_after), self.coordinator.metadata_changed, topic, self.world.now, timer=True)

    def _change(self, name: str, group: MemberGroup, down: float) -> None:
        self._group_of[name] = group
        self._restart(name, down)

    def _configure(self, event: Event, **changes: object) -> None:
        """Change the settings of each group that the event names as a whole, for members that `scale` adds later."""
        for name in self._configured.keys() & set(event.names):
            self._configured[name] = replace(self._configured[name], **changes)

    def _names(self, event: Event) -> Sequence[str]:
        return list(dict.fromkeys(chain.from_iterable(self._names_in.get(name, [name]) for name in event.names)))
