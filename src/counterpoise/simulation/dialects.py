"""What each client library tells the leader about what it owns.

One row per library, as read from real recordings (docs/simulate.md has the table). The simulator needs only what a
leader can read: which claims, with which generation, and whether they survive the loss of membership.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.errors import ScenarioError

__all__ = ["DIALECTS", "Dialect", "dialect"]


@dataclass(frozen=True)
class Dialect:
    """One client library.

    Attributes
    ----------
    name : str
    protocols : tuple of str
        What the library can speak at all.
    eager_generation, cooperative_generation : bool
        Does a claim carry its generation? Without it the claim has the lowest, -1.
    remembers : bool
        Does an eager sticky member still claim its last assignment after it has lost its membership (a zombie)?
    """

    name: str
    protocols: tuple[str, ...]
    eager_generation: bool
    cooperative_generation: bool
    remembers: bool


DIALECTS = {
    row.name: row
    for row in (
        Dialect("java", (EAGER, COOPERATIVE), True, True, True),
        Dialect("librdkafka", (EAGER, COOPERATIVE), True, True, False),
        Dialect("kafka-python", (EAGER, COOPERATIVE), True, False, True),
        Dialect("aiokafka", (EAGER,), False, False, True),
        Dialect("counterpoise", (EAGER, COOPERATIVE), True, True, True),
    )
}
"""By name."""


def dialect(name: str) -> Dialect:
    """The dialect called `name`.

    Raises
    ------
    ScenarioError
        There is none; the message lists what there is.
    """
    if name not in DIALECTS:
        raise ScenarioError(f"dialect {name!r} is unknown; there are: {', '.join(DIALECTS)}")
    return DIALECTS[name]
