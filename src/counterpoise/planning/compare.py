"""compare: several strategies on one group, measured alike."""

from __future__ import annotations

from collections.abc import Iterable

from counterpoise.assignors.registry import assignor
from counterpoise.assignors.registry import strategies as registered
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import check_names
from counterpoise.metrics import Batch, Metrics, Query
from counterpoise.planning.assign import planned, problem_of, protocol_of
from counterpoise.snapshot.frozen import FrozenDict
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.html import html_table

__all__ = ["Comparison", "compare"]

_SHOWN = (
    "spread", "max_topic_spread", "moved", "min_moves", "revoked", "max_member_lag", "makespan_ratio", "unassigned", "balanced",
    "sticky",
)  # fmt: skip
"""What fits on a screen."""


class Comparison(FrozenDict[str, Metrics]):
    """Metrics by strategy name, for one group; read-only. Shown as a table in a notebook."""

    def rows_as_text(self) -> tuple[list[str], list[list[str]]]:
        """The most important figures that are known, as text: columns, and a row per strategy."""
        names = [name for name in _SHOWN if any(getattr(one, name) is not None for one in self.values())]
        return ["strategy", *names], [[key, *(_cell(getattr(one, name)) for name in names)] for key, one in self.items()]

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self)})"

    def _repr_html_(self) -> str:
        return html_table(f"{len(self)} strategies", *self.rows_as_text())


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def compare(group: Group, strategies: Iterable[str] | None = None) -> Comparison:
    """The figures of each strategy's plan for one group, in the order asked for.

    Parameters
    ----------
    group : Group
    strategies : iterable of str, optional
        Default: all, without those that need lag if the group's lag is not known.

    Raises
    ------
    UnknownStrategyError
        A name that is not registered.
    OptionError
        One name instead of a list of them.

    Warns
    -----
    SubscriptionWarning
        As for `assign`, once.

    Notes
    -----
    `min_moves` is the number of moves of the `sticky` plan: the fewest any plan of optimal balance needs.
    """
    problem = problem_of(group)
    if strategies is None:
        strategies = (name for name in registered() if group.lag is not None or name not in ("lag", "lag-sticky"))
    check_names("strategies", strategies)
    optimal = assignor("sticky")(problem)
    plans = {name: planned(problem, group.member_ids, group.topic_names, name, protocol_of(name), {}) for name in strategies}
    queries = [Query(problem, plan.target_owner, plan.protocol == COOPERATIVE, optimal) for plan in plans.values()]
    figures = Batch().add(queries)
    return Comparison((name, figures.of(at)) for at, name in enumerate(plans))
