"""What fold tasks counted, added up for the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from counterpoise.pipeline.fold.strategy_figures import added, mean_of
from counterpoise.pipeline.summary import Sums, with_stopped

__all__ = ["sums_of"]

_GROUPS = ("n", "members", "judged", "matched", "below")


def sums_of(manifests: Iterable[Mapping[str, Any]]) -> Sums:
    """From manifests of fold tasks."""
    steps: Counter[tuple[str, str | None]] = Counter()
    missed: Counter[tuple[str, str | None]] = Counter()
    groups: dict[tuple[Any, ...], list[int]] = {}
    runs: dict[tuple[str, str], list[Any]] = {}
    stopped = Counter[tuple[str, str]]()
    with_lag = [0, 0, 0, 0]
    for about in manifests:
        for kind, cause, n, lost in about["steps"]:
            steps[kind, cause] += n
            missed[kind, cause] += lost
        for kind, protocol, state, *figures in about["groups"]:
            before = groups.get((kind, protocol, state), [0] * len(_GROUPS))
            groups[kind, protocol, state] = [one + other for one, other in zip(before, figures, strict=True)]
        for strategy, mode, run in about["runs"]:
            known = runs.get((strategy, mode))
            runs[strategy, mode] = run if known is None else added(known, run)
        for strategy, mode, ms in about["stopped"]:
            stopped[strategy, mode] += ms
        with_lag = [one + other for one, other in zip(with_lag, about["with_lag"], strict=True)]
    named = ("group_type", "protocol", "state", *_GROUPS)
    return Sums(
        steps=[(kind, cause, n, missed[kind, cause]) for (kind, cause), n in steps.items()],
        groups=[dict(zip(named, (*key, *groups[key]), strict=True)) for key in sorted(groups, key=_nulls_first)],
        strategies=with_stopped([_run(*key, runs[key]) for key in sorted(runs, key=lambda key: (key[1], key[0]))], stopped),
        with_lag=with_lag,
    )


def _nulls_first(key: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(part is not None, part or "") for part in key]


def _run(strategy: str, mode: str, run: list[Any]) -> dict[str, Any]:
    moved, revoked, balanced, generations, millionths, known, _, _, lag_peak = run
    found = {"strategy": strategy, "mode": mode, "generations": generations, "moved": moved, "revoked": revoked}
    return {**found, "balanced": balanced, "lag_peak": lag_peak, "makespan_ratio": mean_of(millionths, known)}
