"""The leader's plan inside the simulation: clients' claims in, partition keys per client out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterpoise.assignors.registry import assignor
from counterpoise.assignors.registry import strategy as strategy_of
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.model.assemble import assemble, static_rank
from counterpoise.model.order import java_key
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import withhold
from counterpoise.simulation.client import Client
from counterpoise.simulation.world import World

__all__ = ["Planner"]


class Planner:
    """Plans each generation of one simulated group.

    `judge` is called with every problem and its target, so that laws can be held against each step.
    """

    def __init__(self, world: World, judge: Callable[[Problem, Int32, Int32], None] | None = None) -> None:
        self.world = world
        self.judge = judge

    def __call__(self, clients: list[Client], strategy: str) -> tuple[dict[int, Int64], tuple[int, int, int]]:
        """Partition keys of each client by its number, and (moved, kept, withheld)."""
        ordered = sorted(clients, key=lambda client: java_key(client.member_id))
        problem = self._problem(ordered, strategy_of(strategy).protocols[0])
        target = assignor(strategy)(problem)
        cooperative = any(client.protocol == COOPERATIVE for client in ordered)
        owner = withhold(problem, target) if cooperative else target
        if self.judge is not None:
            self.judge(problem, target, owner)
        previous = problem.previous_owner
        kept = int(np.count_nonzero((previous >= 0) & (previous == target)))
        moved = int(np.count_nonzero((previous >= 0) & (previous != target)))
        waiting = int(np.count_nonzero((target >= 0) & (owner == UNOWNED)))
        return self._keys(problem, owner, ordered), (moved, kept, waiting)

    def _problem(self, ordered: list[Client], native: str) -> Problem:
        world = self.world
        start = np.concatenate(([0], np.cumsum(world.counts))).astype(np.int64)
        claims = [client.claims(native) for client in ordered]
        partitions = [world.codes(start, keys) for keys, _ in claims]
        sizes = [len(part) for part in partitions]
        pairs = [(at, world.topic_number[topic]) for at, client in enumerate(ordered) for topic in client.topics]
        pair_array = np.array(pairs, np.int64).reshape(-1, 2)
        return assemble(
            len(ordered),
            world.counts,
            pair_array[:, 0],
            pair_array[:, 1],
            np.repeat(np.arange(len(ordered), dtype=np.int32), sizes),
            np.concatenate(partitions) if partitions else np.zeros(0, np.int64),
            np.array([generation for _, generation in claims], np.int64),
            capacity=np.array([client.capacity for client in ordered], np.int64),
            rank=static_rank([client.member_id for client in ordered], [client.instance_id for client in ordered]),
        )

    def _keys(self, problem: Problem, owner: Int32, ordered: list[Client]) -> dict[int, Int64]:
        owned = np.flatnonzero(owner >= 0)
        owned = owned[np.argsort(owner[owned], kind="stable")]
        bounds = np.searchsorted(owner[owned], np.arange(len(ordered) + 1))
        keys = self.world.keys(problem.topic_start, owned)
        return {client.number: keys[bounds[at] : bounds[at + 1]] for at, client in enumerate(ordered)}
