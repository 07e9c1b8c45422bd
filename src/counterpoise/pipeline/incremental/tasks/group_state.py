"""One group between two audits: where its folds stand, and what has been counted of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from counterpoise.pipeline.direct.groups.folding import InOrder, micros
from counterpoise.pipeline.direct.groups.kicks import Kicks
from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.incremental.kept.kept_history import KeptHistory
from counterpoise.pipeline.rebalances import StepsFold

__all__ = ["GroupState", "Kind", "counted_kinds", "first_unsettled"]

Step = Mapping[str, Any]
Kind = tuple[str, str, int]
"""Kind, cause (or nothing) and missed generations of a step."""
_ENDED = ("deleted",)
"""A last step that may turn out to be a migration hands out nothing either way."""


class GroupState:
    """Goes on from an earlier audit's state, a record at a time.

    Attributes
    ----------
    steps : InOrder
    history : KeptHistory
        Of all steps that are finished, in the order of the log.
    kinds : Counter
    last_step : int, optional
        The time of the last finished step, in microseconds.
    libraries : set of str
        Of its members.

    Parameters
    ----------
    fold, rest : str, optional
        What `texts` gave.
    group : str
    kicks : Kicks
        Gets to know what the group brings along.
    begun : callable, optional
        As in `StepsFold`.
    """

    def __init__(
        self,
        group: str,
        kicks: Kicks,
        fold: str | None = None,
        rest: str | None = None,
        begun: Callable[[Step], None] | None = None,
    ) -> None:
        self._group, self._kicks = group, kicks
        saved = {} if rest is None else from_text(rest)
        self.history = KeptHistory(saved.get("history"))
        self.steps = InOrder(StepsFold(None if fold is None else from_text(fold), begun), saved.get("waiting", ()))
        self.kinds: Counter[Kind] = Counter({(kind, cause, missed): n for kind, cause, missed, n in saved.get("kinds", ())})
        self.last_step: int | None = saved.get("last_step")
        self.libraries: set[str] = set(saved.get("libraries", ()))
        kicks.go_on(group, saved.get("kicks", {}))

    def add(self, step: Step) -> None:
        """Count a finished step."""
        self.history.add(step)
        at = micros(step["log_ts"])
        self._kicks.step(self._group, step, at)
        self.kinds[step["kind"], step["cause"] or "", step["missed_generations"] or 0] += 1
        self.last_step = at if self.last_step is None else max(at, self.last_step)

    def texts(self) -> tuple[str, str]:
        """The fold's state, and all else; taken before unfinished steps are added."""
        rest = {
            "history": self.history.state,
            "waiting": self.steps.waiting,
            "kinds": [[*kind, n] for kind, n in sorted(self.kinds.items())],
            "last_step": self.last_step,
            "libraries": sorted(self.libraries),
            "kicks": self._kicks.state(self._group),
        }
        return to_text(self.steps.fold.state), to_text(rest)


def first_unsettled(steps: Iterable[Step]) -> int | None:
    """The time of the first of some unfinished steps that may yet hand out something else."""
    return min((micros(step["log_ts"]) for step in steps if step["kind"] not in _ENDED), default=None)


def counted_kinds(kinds: Mapping[Kind, int]) -> list[list[Any]]:
    """As `Folding.told` has them."""
    return [[kind, cause or None, n, n * missed] for (kind, cause, missed), n in sorted(kinds.items())]
