"""What each client library says to the leader about what it owns, and whether it keeps reading while it joins.

One row per library, as read from real recordings. The simulator needs what a leader can read: which claims, with which
generation, and whether they survive the loss of membership. How long partitions stop meanwhile is in `planning.client_libraries`.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.model.problem import Int64
from counterpoise.planning.client_libraries import AIOKAFKA, COUNTERPOISE, JAVA, KAFKA_PYTHON, LIBRDKAFKA, behaviour

__all__ = ["DIALECTS", "Dialect", "Statement"]


@dataclass(frozen=True)
class Dialect:
    """One client library."""

    name: str
    protocols: tuple[str, ...]  # What the library can speak at all
    eager_claims: bool  # Has it an eager strategy that writes claims into the user data? (librdkafka has none.)
    # eager_generation, cooperative_generation: Does a claim carry its generation? Without it the claim has the lowest, -1
    eager_generation: bool
    cooperative_generation: bool
    # Does an eager sticky member still claim its last assignment after it has lost its membership (a zombie)? Claims of
    # cooperative members are what they own, and a lost membership empties that in every library
    remembers: bool

    @property
    def hears_at_once(self) -> bool:
        """Whether it hears of a second round as soon as that begins."""
        return behaviour(self.name, COOPERATIVE).at_once

    def stops_kept(self, *, second_round: bool) -> bool:
        """Whether partitions that a cooperative member keeps stop while it joins the first, or the second, round."""
        known = behaviour(self.name, COOPERATIVE)
        return known.kind == COOPERATIVE and (known.stops_in_second_round if second_round else known.stops_in_first_round)


@dataclass(frozen=True, eq=False)
class Statement:
    """What a member says in its JoinGroup; a leader plans from statements, never from what members do afterwards."""

    # number, member_id, instance_id, capacity: Who speaks
    number: int
    member_id: str
    instance_id: str | None
    capacity: int
    dialect: Dialect
    protocol: str  # EAGER or COOPERATIVE: the member's own
    strategies: tuple[str, ...]
    topics: tuple[str, ...]
    # owned, generation (int64[K], int): partition keys it owns while it joins, and the generation it got them in (-1: none)
    owned: Int64
    generation: int
    # remembered, remembered_generation (int64[L], int): what it was given last, as its assignor remembers it, and the generation
    # of that
    remembered: Int64
    remembered_generation: int

    @property
    def identity(self) -> str:
        """What stays when the member comes back: its instance id if it is static."""
        return self.member_id if self.instance_id is None else f"static {self.instance_id}"

    def claims(self, native: str) -> tuple[Int64, int]:
        """The claims a leader reads: partition keys and their generation, -1 for none.

        `native` is the protocol the group's strategy was made for. An eager sticky strategy keeps its claims in user
        data; a cooperative one reads the owned partitions, of which an eager member has none left when it joins (the
        first bounce of a rolling upgrade).
        """
        if self.protocol == EAGER and native == EAGER:
            generation = self.remembered_generation if self.dialect.eager_generation else -1
            return (self.remembered if self.dialect.eager_claims else self.remembered[:0]), generation
        return self.owned, self.generation if self.dialect.cooperative_generation else -1


DIALECTS = {
    row.name: row
    for row in (
        Dialect(JAVA, (EAGER, COOPERATIVE), True, True, True, True),
        Dialect(LIBRDKAFKA, (EAGER, COOPERATIVE), False, False, True, False),
        Dialect(KAFKA_PYTHON, (EAGER, COOPERATIVE), True, True, False, True),
        Dialect(AIOKAFKA, (EAGER,), True, False, False, True),
        Dialect(COUNTERPOISE[KAFKA_PYTHON], (EAGER, COOPERATIVE), True, True, True, True),
        Dialect(COUNTERPOISE[AIOKAFKA], (EAGER,), True, True, False, True),
    )
}
"""By name."""
