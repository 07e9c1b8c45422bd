"""What a rebalance did, for people and for metrics: one log line in the leader, one in each member, and the hooks.

Everything here runs inside a rebalance, on the thread of the host: an error in a hook or in a log line is caught and logged,
with its traceback the first time, and the rebalance continues.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from counterpoise.errors import OptionError, some

if TYPE_CHECKING:
    from counterpoise.planning.lead import Lead

__all__ = ["OnLead", "OnRebalance", "Rebalance", "Reports"]

log = logging.getLogger("counterpoise.clients")
plans_log = logging.getLogger("counterpoise.clients.plans")
"""At DEBUG each plan is a line that `counterpoise lead` reads."""

_MOST_NAMES = 20
"""Partitions named in a log line."""
_LED = (
    "%(group)s, generation %(generation)d: led %(strategy)s (%(protocol)s): %(members)d members, %(partitions)d partitions, "
    "%(least)d to %(most)d each; %(moved)d moved, %(left)d left for the next round; %(dropped)s%(proof)s; %(milliseconds).1f ms"
)
_REBALANCED = (
    "%(group)s, generation %(generation)d: %(strategy)s: got %(got)s; gave up %(gave_up)s; has %(has)d; "
    "%(left)d of the group left for the next round; %(milliseconds).0f ms since it joined"
)


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

    Raises `OptionError` if a hook is not a plain function.
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
    if log.isEnabledFor(logging.INFO):
        loads = lead.loads.values()
        values = {
            "event": "led",
            "group": lead.group,
            "generation": lead.generation,
            "strategy": lead.strategy,
            "protocol": lead.protocol,
            "members": len(loads),
            "partitions": sum(loads),
            "least": min(loads),
            "most": max(loads),
            "moved": lead.moved,
            "left": sum(map(len, lead.withheld.values())),
            "dropped_claims": lead.dropped_claims,
            "proof": _proof(lead),
            "milliseconds": lead.milliseconds,
        }
        dropped = f"{lead.dropped_claims} claims on what does not exist dropped; " if lead.dropped_claims else ""
        log.info(_LED, {**values, "dropped": dropped}, extra={"counterpoise": values})
    if plans_log.isEnabledFor(logging.DEBUG):
        plans_log.debug("%s", lead.request())


def _proof(lead: Lead) -> str:
    """What the certificate says about the plan; it does not come from the solver."""
    proof = lead.certificate
    if proof.balanced and proof.sticky:
        return "proven optimal"
    return "proven balanced, not least moves" if proof.balanced else "not proven"


def _log_rebalance(seen: Rebalance) -> None:
    if log.isEnabledFor(logging.INFO):
        values = {"event": "rebalanced"} | {each.name: getattr(seen, each.name) for each in fields(seen)}
        words = {**values, "got": _names(seen.gained), "gave_up": _names(seen.lost), "has": len(seen.owned)}
        log.info(_REBALANCED, words, extra={"counterpoise": values})


def _names(partitions: Iterable[tuple[str, int]]) -> str:
    return some([f"{topic}-{index}" for topic, index in partitions], _MOST_NAMES) or "nothing"
