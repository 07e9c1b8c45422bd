"""Which rebalance protocol a client speaks, and which strategy a coordinator picks: Kafka's two rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.errors import OptionError
from counterpoise.wire.primitives import java_key

__all__ = ["client_protocol", "elect"]


def client_protocol(names: Sequence[str]) -> str:
    """The protocol of a member configured with these strategies: the highest that all of them support (KIP-429).

    Cooperative is higher than eager. So a member with ``[cooperative-sticky, range]`` is eager, and the second bounce
    of a rolling upgrade, which drops `range`, makes it cooperative.

    Raises `OptionError` if no strategy is named, or they have no protocol in common.
    """
    if not names:
        raise OptionError("a member needs at least one strategy")
    for protocol in (COOPERATIVE, EAGER):
        if all(protocol in strategy(name).protocols for name in names):
            return protocol
    raise OptionError(f"{', '.join(names)}: no rebalance protocol in common")


def elect(preferences: Sequence[Sequence[str]]) -> str | None:
    """The strategy a coordinator picks: supported by all members, preferred by most; None if nothing is common.

    Each member votes for the first strategy of its list that all members support. Kafka leaves a tie to the order of
    a hash map; here the name that sorts first wins.
    """
    if not preferences:
        return None
    common = set(preferences[0]).intersection(*preferences[1:])
    votes = Counter(next(name for name in names if name in common) for names in preferences if common)
    if not votes:
        return None
    return min(votes, key=lambda name: (-votes[name], java_key(name)))
