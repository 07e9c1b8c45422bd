"""Play: a scenario's events acted out on one world, one coordinator and its clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from counterpoise.assignors.protocols import client_protocol
from counterpoise.assignors.strategy import EAGER
from counterpoise.model.problem import Int32, Problem
from counterpoise.simulation.client import Client
from counterpoise.simulation.coordinator import EMPTY, STABLE, Coordinator
from counterpoise.simulation.dialects import dialect
from counterpoise.simulation.ledger import Ledger
from counterpoise.simulation.planner import Planner
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario
from counterpoise.simulation.world import World, milliseconds

__all__ = ["Play"]


class Play:
    """One run of a scenario under one strategy."""

    def __init__(self, scenario: Scenario, strategy: str, judge: Callable[[Problem, Int32, Int32], None] | None) -> None:
        names = {*scenario.topics, *(event.topic for event in scenario.events if event.topic)}
        names.update(topic for group in scenario.members for topic in group.topics)
        names.update(topic for event in scenario.events for topic in event.topics)
        self.scenario, self.strategy = scenario, strategy
        self.world = World(names, scenario.topics)
        self.ledger = Ledger()
        self.coordinator = Coordinator(self.world, scenario.timing, Planner(self.world, judge))
        self._clients: list[Client] = []
        self._running: dict[str, Client] = {}
        self._group_of = {name: group for group in scenario.members for name in group.names()}
        self._starts: dict[str, int] = {}

    def run(self) -> None:
        """Act out the whole scenario."""
        for group in self.scenario.members:
            for at, name in enumerate(group.names()):
                if group.join_at >= 0:
                    self.world.after(milliseconds(group.join_at + at * group.every), self._start, name)
        for event in self.scenario.events:
            self.world.after(milliseconds(event.at), getattr(self, f"_do_{event.do}"), event)
        self.world.run(milliseconds(self.scenario.duration) if self.scenario.duration else None)

    def client_names(self) -> list[str]:
        """Client names by client number."""
        return [client.name for client in self._clients]

    def revoked(self) -> int:
        """Partitions given up in rebalances, over all clients."""
        return sum(client.revoked for client in self._clients)

    def settled(self) -> bool:
        """Stable or empty, and nothing with a subscriber is without an owner."""
        if self.coordinator.state not in {STABLE, EMPTY}:
            return False
        members = self.coordinator.members()
        wanted = {self.world.topic_number[topic] for client in members for topic in client.topics}
        owned = sum(len(client.owned) for client in members)
        return owned == int(self.world.counts[sorted(wanted)].sum()) if members else True

    # Clients come and go.

    def _start(self, name: str) -> None:
        if name in self._running:
            return
        group = self._group_of[name]
        strategies = tuple(group.strategies) or (self.strategy,)
        spoken = dialect(group.dialect)
        protocol = client_protocol(strategies)
        begun = self._starts[name] = self._starts.get(name, -1) + 1
        client = Client(
            len(self._clients),
            name,
            f"{name}-{begun:04}",
            group.topics,
            spoken,
            strategies,
            protocol if protocol in spoken.protocols else EAGER,
            instance_id=name if group.static else None,
            rack=group.rack,
            capacity=group.capacity,
            timing=self.scenario.timing,
            world=self.world,
            ledger=self.ledger,
            coordinator=self.coordinator,
        )
        self._clients.append(client)
        self._running[name] = client
        client.join()

    def _stop(self, name: str, *, crash: bool) -> None:
        client = self._running.pop(name, None)
        if client is None:
            return
        client.stop()
        if crash or client.instance_id is not None:
            self.coordinator.expire_session(client)
        else:
            self.world.after(milliseconds(self.scenario.timing.round_trip), self.coordinator.on_leave, client)

    def _restart(self, name: str, down: float) -> None:
        self._stop(name, crash=False)
        self.world.after(milliseconds(down), self._start, name)

    def _kick(self, client: Client) -> None:
        """``max.poll.interval.ms`` is over: the client's heartbeat thread leaves the group."""
        if client.alive and client.paused_until > self.world.now:
            client.lose_membership()
            self.coordinator.on_leave(client)

    def _resume(self, name: str, client: Client) -> None:
        """The application polls again; without membership it joins as a new member, with what it remembers."""
        if self._running.get(name) is client and not self.coordinator.knows(client):
            client.alive = False
            del self._running[name]
            self._start(name)
            back = self._running[name]
            back.remembered, back.remembered_generation = client.remembered, client.remembered_generation

    # What may happen, by the name of the action.

    def _do_join(self, event: Event) -> None:
        for name in self._names(event):
            self._start(name)

    def _do_leave(self, event: Event) -> None:
        for name in self._names(event):
            self._stop(name, crash=False)

    def _do_crash(self, event: Event) -> None:
        for name in self._names(event):
            self._stop(name, crash=True)

    def _do_crash_leader(self, _event: Event) -> None:
        self.coordinator.crash_next_leader = True

    def _do_pause(self, event: Event) -> None:
        limit = milliseconds(self.scenario.timing.max_poll_interval)
        for name in self._names(event):
            client = self._running.get(name)
            if client is not None:
                length = milliseconds(event.seconds)
                client.paused_until = self.world.now + length
                if length > limit:
                    self.world.after(limit, self._kick, client)
                self.world.after(length, self._resume, name, client)

    def _do_restart(self, event: Event) -> None:
        for name in self._names(event):
            self._restart(name, event.down)

    def _do_rolling_restart(self, event: Event) -> None:
        for at, name in enumerate(self._names(event)):
            self.world.after(milliseconds(at * event.every), self._restart, name, event.down)

    def _do_reconfigure(self, event: Event) -> None:
        for at, name in enumerate(self._names(event)):
            changed = replace(self._group_of[name], strategies=tuple(event.strategies))
            self.world.after(milliseconds(at * event.every), self._change, name, changed, event.down)

    def _do_subscribe(self, event: Event) -> None:
        for name in self._names(event):
            self._group_of[name] = replace(self._group_of[name], topics=tuple(event.topics))
            client = self._running.get(name)
            if client is not None:
                client.topics = tuple(event.topics)
                client.rejoin()

    def _do_scale(self, event: Event) -> None:
        group = next(group for group in self.scenario.members if group.name == event.members)
        wanted = replace(group, count=max(event.count, group.count)).names()[: event.count]
        running = [name for name in self._running if self._group_of[name].name == group.name]
        for at, name in enumerate(name for name in wanted if name not in running):
            self._group_of.setdefault(name, group)
            self.world.after(milliseconds(at * event.every), self._start, name)
        for at, name in enumerate(name for name in reversed(running) if name not in wanted):
            self.world.after(milliseconds(at * event.every), self._leave_one, name)

    def _do_grow(self, event: Event) -> None:
        self._resize(event.topic, event.partitions, milliseconds(self.scenario.timing.metadata_age))

    def _do_create(self, event: Event) -> None:
        self._resize(event.topic, event.partitions, milliseconds(self.scenario.timing.metadata_age))

    def _do_delete(self, event: Event) -> None:
        """Fetches from a deleted topic fail, so its metadata is renewed at once."""
        self._resize(event.topic, 0, milliseconds(self.scenario.timing.round_trip))

    def _resize(self, topic: str, partitions: int, seen_after: int) -> None:
        self.world.resize(topic, partitions)
        for client in self._running.values():
            client.drop_vanished()
        if any(topic in client.topics for client in self._running.values()):
            self.world.after(seen_after, self.coordinator.request_rebalance)

    def _change(self, name: str, group: MemberGroup, down: float) -> None:
        self._group_of[name] = group
        self._restart(name, down)

    def _leave_one(self, name: str) -> None:
        self._stop(name, crash=False)

    def _names(self, event: Event) -> Sequence[str]:
        wanted = [event.members] if isinstance(event.members, str) else event.members
        names: list[str] = []
        for name in wanted:
            if name in self._group_of:
                names.append(name)
            else:
                names.extend(member for member, group in self._group_of.items() if group.name == name)
        return list(dict.fromkeys(names))
