"""The leader's plan inside the simulation: members' statements in, partition keys per member out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from counterpoise.assignors.registry import assignor
from counterpoise.assignors.registry import strategy as strategy_of
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.model.assemble import assemble, static_rank
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import withhold
from counterpoise.simulation.coordinator import Planned
from counterpoise.simulation.dialects import Statement
from counterpoise.simulation.world import World
from counterpoise.wire.primitives import java_key

__all__ = ["OnRound", "Planner"]

OnRound = Callable[[Problem, Int32, Int32], None]
"""Called with every problem, its target int32[P] and what is handed out int32[P], so that laws can be checked at each step."""


class Planner:
    """Plans each generation of one simulated group.

    A partition counts as moved if its last owner is still a member and the target is another one, whatever members claim.
    """

    def __init__(self, world: World, on_round: OnRound | None = None) -> None:
        self.world = world
        self.on_round = on_round
        self._last_keys = np.zeros(0, np.int64)
        self._last_owner = np.zeros(0, np.int64)
        self._identities: dict[str, int] = {}

    def __call__(self, statements: Sequence[Statement], strategy: str) -> Planned:
        """The plan of one generation."""
        ordered = sorted(statements, key=lambda said: java_key(said.member_id))
        cooperative = any(said.protocol == COOPERATIVE for said in ordered)
        # Beside cooperative members, what an eager one remembers is no claim: it has given it up, so waiting for it never ends.
        problem = self._problem(ordered, COOPERATIVE if cooperative else strategy_of(strategy).protocols[0])
        target = assignor(strategy)(problem)
        owner = withhold(problem, target) if cooperative else target
        if self.on_round is not None:
            self.on_round(problem, target, owner)
        moved, kept = self._changes(problem, target, owner, ordered)
        waiting = int(np.count_nonzero((target >= 0) & (owner == UNOWNED)))
        return Planned(self._keys(problem, owner, ordered), moved, kept, waiting)

    def _problem(self, ordered: list[Statement], native: str) -> Problem:
        world = self.world
        start = np.concatenate(([0], np.cumsum(world.counts))).astype(np.int64)
        claims = [said.claims(native) for said in ordered]
        keys = np.concatenate([claimed for claimed, _ in claims])
        codes, exist = world.codes(start, keys)
        claimant = np.repeat(np.arange(len(ordered), dtype=np.int32), [len(claimed) for claimed, _ in claims])[exist]
        topics = [world.numbers(said.topics) for said in ordered]
        return assemble(
            len(ordered),
            world.counts,
            np.repeat(np.arange(len(ordered)), [len(numbers) for numbers in topics]),
            np.concatenate(topics),
            claimant,
            codes,
            np.array([generation for _, generation in claims], np.int64),
            capacity=np.array([said.capacity for said in ordered], np.int64),
            rank=static_rank([said.member_id for said in ordered], [said.instance_id for said in ordered]),
        )

    def _changes(self, problem: Problem, target: Int32, owner: Int32, ordered: list[Statement]) -> tuple[int, int]:
        """Partitions moved and kept against what was handed out last, by identity of the owners."""
        numbers = np.array([self._identities.setdefault(said.identity, len(self._identities)) for said in ordered], np.int64)
        wanted = np.flatnonzero(target >= 0)
        keys, now = self.world.keys(problem.topic_start, wanted), numbers[target[wanted]]
        at = np.searchsorted(self._last_keys, keys)
        inside = np.flatnonzero(at < len(self._last_keys))
        known = inside[self._last_keys[at[inside]] == keys[inside]]
        before = self._last_owner[at[known]]
        kept = before == now[known]
        handed = owner[wanted] >= 0
        self._last_keys, self._last_owner = keys[handed], now[handed]
        return int(np.count_nonzero(~kept & np.isin(before, numbers))), int(np.count_nonzero(kept))

    def _keys(self, problem: Problem, owner: Int32, ordered: list[Statement]) -> dict[int, Int64]:
        owned = np.flatnonzero(owner >= 0)
        owned = owned[np.argsort(owner[owned], kind="stable")]
        bounds = np.searchsorted(owner[owned], np.arange(len(ordered) + 1)).tolist()
        keys = self.world.keys(problem.topic_start, owned)
        return {said.number: keys[bounds[at] : bounds[at + 1]] for at, said in enumerate(ordered)}
