"""What a rebalance did, for people and for metrics: one log line in the leader, one in each member, and the hooks.

Everything here runs inside a rebalance, on the thread of the host: an error in a hook or in a log line is caught and logged,
with its traceback the first time, and the rebalance continues.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from counterpoise.errors import OptionError

if TYPE_CHECKING:
    from counterpoise.planning.lead import Lead

__all__ = ["OnLead", "OnRebalance", "Rebalance", "Reports"]

log = logging.getLogger("counterpoise.clients")

_MOST_NAMES = 20
"""Partitions named in a log line."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What one rebalance did to one member.

    Attributes
    ----------
    group : str
        "" if the client does not show it.
    generation : int
        -1 if the client does not show it.
    strategy : str
    owned, gained, lost : tuples of (topic, partition), sorted
        What the member owns now; what of it is new since the previous rebalance; what it owned then and does not own now.
    left : int
        Partitions of the whole group that wait for the next round; 0 if the leader is not counterpoise.
    milliseconds : float
        From the member's joining to its assignment.
    """

    group: str
    generation: int
    strategy: str
    owned: tuple[tuple[str, int], ...]
    gained: tuple[tuple[str, int], ...]
    lost: tuple[tuple[str, int], ...]
    left: int
    milliseconds: float


OnLead: TypeAlias = Callable[["Lead"], object]
OnRebalance: TypeAlias = Callable[[Rebalance], object]


class Reports:
    """The log lines and the hooks of one assignor.

    Raises
    ------
    OptionError
        A hook is not a plain function.
    """

    def __init__(self, on_lead: OnLead | None, on_rebalance: OnRebalance | None) -> None:
        hooks: dict[str, object] = {"on_lead": on_lead, "on_rebalance": on_rebalance}
        for name, hook in hooks.items():
            if hook is not None and (not callable(hook) or inspect.iscoroutinefunction(hook)):
                raise OptionError(f"{name}: a plain function of one argument is expected, not {hook!r}")
        self._on_lead = on_lead
        self._on_rebalance = on_rebalance
        self._failed: set[str] = set()

    def log_lead(self, lead: Lead) -> None:
        """Log the plan that the member made as a leader."""
        self._safely("the leader's log line", _log_lead, lead)

    def on_lead(self, lead: Lead) -> None:
        """Call `on_lead`."""
        self._safely("on_lead", self._on_lead, lead)

    def rebalanced(self, seen: Rebalance) -> None:
        """Log what the member was given, and call `on_rebalance`."""
        self._safely("the member's log line", _log_rebalance, seen)
        self._safely("on_rebalance", self._on_rebalance, seen)

    def _safely(self, what: str, work: Callable[[Any], object] | None, given: Any) -> None:
        if work is None:
            return
        try:
            work(given)
        except Exception:
            level = logging.DEBUG if what in self._failed else logging.ERROR
            self._failed.add(what)
            log.log(
                level, "%s failed; the rebalance is not affected, and later failures are logged at DEBUG", what, exc_info=True
            )


def _log_lead(lead: Lead) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    loads = lead.loads.values()
    log.info(
        "%s, generation %d: led %s (%s): %d members, %d partitions, %d to %d each; "
        "%d moved, %d left for the next round; %s; %.1f ms",
        *(lead.group, lead.generation, lead.strategy, lead.protocol, len(loads), sum(loads), min(loads), max(loads)),
        *(lead.moved, sum(map(len, lead.withheld.values())), _proof(lead), lead.milliseconds),
    )


def _proof(lead: Lead) -> str:
    """What the certificate says about the plan; it does not come from the solver."""
    proof = lead.certificate
    if proof.balanced and proof.sticky:
        return "proven optimal"
    return "proven balanced, not least moves" if proof.balanced else "not proven"


def _log_rebalance(seen: Rebalance) -> None:
    log.info(
        "%s, generation %d: %s: got %s; gave up %s; has %d; %d of the group left for the next round; %.0f ms since it joined",
        *(seen.group, seen.generation, seen.strategy, _names(seen.gained), _names(seen.lost), len(seen.owned)),
        *(seen.left, seen.milliseconds),
    )


def _names(partitions: Iterable[tuple[str, int]]) -> str:
    listed = [f"{topic}-{index}" for topic, index in partitions]
    more = [f"{len(listed) - _MOST_NAMES} more"] if len(listed) > _MOST_NAMES else []
    return ", ".join(listed[:_MOST_NAMES] + more) or "nothing"
