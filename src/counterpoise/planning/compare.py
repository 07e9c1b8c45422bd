"""compare: several strategies on one group, measured alike."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoise.assignors.registry import assignor
from counterpoise.assignors.registry import strategies as registered
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import OptionError
from counterpoise.metrics import Batch, Metrics, Query
from counterpoise.planning.assign import assign
from counterpoise.snapshot.group import Group, check_group

__all__ = ["compare"]


def compare(group: Group, strategies: Sequence[str] | None = None) -> dict[str, Metrics]:
    """The figures of each strategy's plan for one group, in the order asked for.

    Parameters
    ----------
    group : Group
    strategies : sequence of str, optional
        Default: all, without those that need lag if the group's lag is not known.

    Raises
    ------
    UnknownStrategyError
        A name that is not registered.
    OptionError
        One name instead of a list of them.

    Notes
    -----
    `min_moves` is the number of moves of the `sticky` plan: the fewest any plan of optimal balance needs.
    """
    if isinstance(strategies, str):
        raise OptionError(f"strategies: expected a list of names, not {strategies!r}")
    problem = check_group(group).problem()
    if strategies is None:
        strategies = [name for name in registered() if group.lag is not None or not name.startswith("lag")]
    optimal = assignor("sticky")(problem)
    plans = [assign(group, name) for name in strategies]
    queries = [Query(problem, plan.target_owner, plan.protocol == COOPERATIVE, optimal) for plan in plans]
    figures = Batch().add(queries)
    return {name: figures.of(at) for at, name in enumerate(strategies)}
