"""What tasks told of their buckets, added up for the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterpoise.pipeline.direct.report.strategy_sums import added, mean_of
from counterpoise.pipeline.summary import Sums, with_stopped

__all__ = ["told_sums"]

_GROUPS = ("n", "members", "judged", "matched", "below")
_RUN = ("generations", "moved", "revoked", "balanced", "lag_peak", "makespan_ratio")


def told_sums(judged: Iterable[Mapping[str, Any]], replayed: Sequence[Mapping[str, Any]]) -> Sums:
    """From what `judging.judge_buckets` and `replaying.replay_buckets` told."""
    steps = [(kind, cause, n, missed) for about in judged for kind, cause, n, missed in about["kinds"]]
    groups: dict[tuple[Any, ...], list[int]] = {}
    runs: dict[tuple[str, str], list[Any]] = {}
    stopped = Counter[tuple[str, str]]()
    with_lag = [0, 0, 0, 0]
    for about in replayed:
        for kind, protocol, state, *figures in about["groups"]:
            before = groups.get((kind, protocol, state), [0] * len(_GROUPS))
            groups[kind, protocol, state] = [one + other for one, other in zip(before, figures, strict=True)]
        for strategy, mode, *figures in about["runs"]:
            known = runs.get((strategy, mode))
            runs[strategy, mode] = figures if known is None else added(known, figures)
        for strategy, mode, ms in about["stopped"]:
            stopped[strategy, mode] += ms
        with_lag = [one + other for one, other in zip(with_lag, about["with_lag"], strict=True)]
    named = ("group_type", "protocol", "state", *_GROUPS)
    return Sums(
        steps=steps,
        groups=[dict(zip(named, (*key, *groups[key]), strict=True)) for key in sorted(groups, key=_nulls_first)],
        strategies=with_stopped([_run(*key, *runs[key]) for key in sorted(runs, key=lambda key: (key[1], key[0]))], stopped),
        with_lag=with_lag,
    )


def _nulls_first(key: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(part is not None, part or "") for part in key]


def _run(strategy: str, mode: str, *figures: Any) -> dict[str, Any]:
    *plain, millionths, known = figures
    return {"strategy": strategy, "mode": mode, **dict(zip(_RUN, (*plain, mean_of(millionths, known)), strict=True))}
