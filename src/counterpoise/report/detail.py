"""One group's section: its drawing, loads, steps, strategies and notes, as the group template shows them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from counterpoise.report.colours import Look, identities, looks
from counterpoise.report.limits import Limits
from counterpoise.report.load import GroupHistory, LagSeries, Row
from counterpoise.report.overview import Figure, StrategyRow, strategy_rows
from counterpoise.report.picture import Picture, draw
from counterpoise.report.words import clock, count, duration, instant, number, paragraphs, percent, phrase, plural, slug, visible

__all__ = ["Detail", "Load", "Step", "detail"]


@dataclass(frozen=True, slots=True)
class Load:
    """One member's share: partitions now and records behind."""

    name: str
    member: str
    look: Look
    partitions: int
    share: float
    lag: str
    holds: str


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the list of steps."""

    generation: str
    at: str
    what: str
    who: str
    members: str
    partitions: str
    moved: str
    kept: str
    wait: str
    remark: str


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything one section shows."""

    name: str
    anchor: str
    kind: str
    strategy: str
    state: str
    summary: str
    figures: list[Figure]
    incomplete: str
    findings: list[Row]
    picture: Picture | None
    legend: list[tuple[str, Look]]
    more_members: int
    loads: list[Load]
    loads_at: str
    more_loads: str
    steps: list[Step]
    n_steps: int
    strategies: list[StrategyRow]
    suggestion: list[tuple[str, str]]
    suggested: str
    migration: list[tuple[str, str]]
    fidelity: str
    fidelity_note: str


def detail(
    group: Row, history: GroupHistory | None, lag: LagSeries | None, findings: list[Row], period: tuple[int, int], limits: Limits
) -> Detail:
    """The section of one group; `history` is None for a group that only commits."""
    name = str(group["group_id"])
    names, faces = _faces(history)
    picture = draw(history, lag, names, faces, period, group["group_type"] == "share", limits) if history else None
    legend = list(dict(zip(names, faces, strict=True)).items())
    loads, loads_at = _loads(history, lag, names, faces) if history else ([], "")
    observed = {
        "strategy": "observed", "mode": "", "moved": group["observed_moved"], "revoked": group["observed_revoked"], "spread_peak": group["spread_peak"],
        "topic_spread_peak": None, "balanced": None, "generations": group["judged_generations"],
    }  # fmt: skip
    listed = group["strategies"] or []
    return Detail(
        name=visible(name) or "(empty name)",
        anchor=slug(name, "g"),
        kind=phrase(group["group_type"]),
        strategy=visible(group["protocol"] or ""),
        state=phrase(group["state"]),
        summary=_summary(group),
        figures=_figures(group),
        incomplete=_incomplete(group, history),
        findings=findings,
        picture=picture,
        legend=legend[: limits.members],
        more_members=max(len(legend) - limits.members, 0),
        loads=loads[: limits.members],
        loads_at=loads_at,
        more_loads=_more(loads, limits.members),
        steps=_steps(history, names)[: limits.listed] if history else [],
        n_steps=len(history.steps) + history.skipped if history else 0,
        strategies=strategy_rows(listed, observed, group["suggested_strategy"], group["protocol"]) if listed else [],
        suggestion=paragraphs(visible_lines(group["suggestion"])),
        suggested=visible(group["suggested_strategy"] or ""),
        migration=paragraphs(visible_lines(group["migration_note"])),
        fidelity=_fidelity(group),
        fidelity_note=visible(group["fidelity_note"] or ""),
    )


def visible_lines(text: str | None) -> str:
    """`visible`, line by line."""
    return "\n".join(visible(line) for line in (text or "").splitlines())


def _faces(history: GroupHistory | None) -> tuple[list[str], list[Look]]:
    """What each member is called and how it is drawn, by member code."""
    if history is None:
        return [], []
    key_of = identities([[history.members[code] for code in step] for step in history.present])
    look_of = looks(key_of.values())
    keys = [key_of[member] for member, _ in history.members]
    return [visible(key) or "(no name)" for key in keys], [look_of[key] for key in keys]


def _summary(group: Row) -> str:
    parts = []
    if group["rebalances"]:
        parts.append(plural(group["rebalances"], "rebalance"))
    if group["members_peak"]:
        parts.append(f"{count(group['members_now'])} of at most {plural(group['members_peak'], 'member')}")
    if group["partitions_now"]:
        parts.append(plural(group["partitions_now"], "partition"))
    if group["lag_now"] is not None:
        parts.append(f"{number(group['lag_now'])} behind")
    return ", ".join(parts) or plural(group["commits"] or 0, "commit")


def _figures(group: Row) -> list[Figure]:
    p50, worst = group["sync_latency_ms_p50"], group["sync_latency_ms_max"]
    causes = ", ".join(f"{count(n)} {phrase(cause)}" for cause, n in sorted(group["causes"].items(), key=lambda kv: (-kv[1], kv[0])) if n)
    stopped = group["stopped_partition_seconds"]
    made = [
        Figure("rebalances", count(group["rebalances"]), causes),
        Figure("members", count(group["members_now"]), f"peak {count(group['members_peak'])}, {count(group['distinct_members'])} ids in all"),
        Figure("partitions", count(group["partitions_now"]), f"spread {count(group['spread_now'])}, peak {count(group['spread_peak'])}"),
        Figure("moved", count(group["observed_moved"]), f"{count(group['needless_moves'])} needlessly" if group["needless_moves"] else ""),
        Figure("leader's answer", duration(p50), f"median; longest {duration(worst)}") if worst is not None else None,
        Figure("stopped", duration(stopped * 1000), "partition time in which nobody committed") if stopped else None,
        Figure("commits", count(group["commits"]), f"{plural(group['commit_tombstones'], 'tombstone')}" if group["commit_tombstones"] else ""),
        Figure("records behind", number(group["lag_now"]), _lag_owner(group)) if group["lag_now"] is not None else None,
    ]
    return [figure for figure in made if figure is not None and figure.value != "–"]


def _lag_owner(group: Row) -> str:
    owner, share = group["lag_owner"], group["lag_owner_share"]
    words = [] if group["lag_quality"] in (None, "exact") else [phrase(group["lag_quality"])]
    if owner and share and group["lag_now"]:
        words.append(f"{percent(share)} at {visible(owner)}")
    return ", ".join(words)


def _incomplete(group: Row, history: GroupHistory | None) -> str:
    if group["complete"] or group["complete"] is None:
        return ""
    partial = sum(not step["complete"] for step in history.steps) if history else 0
    where = f" ({plural(partial, 'step')} with an unknown history before)" if partial else ""
    return (
        f"The log no longer holds this group's whole history{where}: compaction removed older generations. "
        "Figures count what is left; a continuous capture keeps the rest."
    )


def _loads(history: GroupHistory, lag: LagSeries | None, names: list[str], faces: list[Look]) -> tuple[list[Load], str]:
    """Partitions and lag per member after the last step that had members, the largest first."""
    last = next((index for index in reversed(range(len(history.steps))) if history.present[index]), None)
    if last is None:
        return [], ""
    here = history.held.step == last
    owned: dict[int, list[int]] = {code: [] for code in history.present[last]}
    for code, partition in sorted(zip(history.held.member[here].tolist(), history.held.partition[here].tolist(), strict=True)):
        owned[code].append(partition)
    most = max((len(parts) for parts in owned.values()), default=0)
    behind = lag.owners if lag and last == len(history.steps) - 1 else {}
    loads = [
        Load(
            names[code],
            visible(history.members[code][0]),
            faces[code],
            len(parts),
            round(100 * len(parts) / max(most, 1), 1),
            number(behind.get(history.members[code][0]), ""),
            _holds(history, parts),
        )
        for code, parts in owned.items()
    ]
    step = history.steps[last]
    ended = "" if last == len(history.steps) - 1 else ", the last one with members"
    return sorted(loads, key=lambda load: (-load.partitions, load.name, load.member)), (
        f"after generation {step['generation']}{ended}, {instant(step['log_ts'])} UTC"
    )


def _holds(history: GroupHistory, partitions: list[int], most: int = 6) -> str:
    """``orders 0-5, 7; payments 1``: runs of partition numbers by topic."""
    by_topic: dict[str, list[int]] = {}
    for code in partitions:
        topic, number_ = history.partitions[code]
        by_topic.setdefault(topic, []).append(number_)
    shown = [f"{visible(topic)} {_runs(sorted(set(numbers)))}" for topic, numbers in list(by_topic.items())[:most]]
    if len(by_topic) > most:
        shown.append(f"{plural(len(by_topic) - most, 'more topic')}")
    return "; ".join(shown) or "nothing"


def _runs(numbers: list[int], most: int = 12) -> str:
    cuts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1), len(numbers)]
    runs = [str(numbers[a]) if b - a == 1 else f"{numbers[a]}-{numbers[b - 1]}" for a, b in pairwise(cuts)]
    return ", ".join(runs[:most]) + (f" and {len(runs) - most} more runs" if len(runs) > most else "")


def _more(loads: list[Load], most: int) -> str:
    rest = [load.partitions for load in loads[most:]]
    return f"{plural(len(rest), 'more member')} not drawn, with {min(rest)} to {plural(max(rest), 'partition')} each" if rest else ""


def _steps(history: GroupHistory, names: list[str]) -> list[Step]:
    """The steps in words, the newest first."""
    name_of = {member: names[code] for code, (member, _) in enumerate(history.members)}

    def called(ids: list[str] | None, sign: str) -> list[str]:
        return [f"{sign}{name_of.get(member, visible(member))}" for member in (ids or [])[:8]] + (["..."] if len(ids or []) > 8 else [])

    made = []
    for step in reversed(history.steps):
        wait = step["sync_latency_ms"] if step["sync_latency_ms"] is not None else step["settle_ms"]
        cause = f", {phrase(step['cause'])}" if step["cause"] and step["cause"] != "unknown" else ""
        remarks = [visible(step["detail"])] if step["detail"] else []
        if step["missed_generations"]:
            remarks.append(f"{plural(step['missed_generations'], 'generation')} before it failed")
        if not step["complete"]:
            remarks.append("history before it unknown")
        who = called(step["joined"], "+") + called(step["left"], "−")
        made.append(
            Step(
                str(step["generation"]),
                clock(step["log_ts"]),
                f"{phrase(step['kind'])}{cause}",
                ", ".join(who),
                count(step["n_members"]),
                count(step["n_partitions"]),
                count(step["n_moved"]),
                count(step["n_kept"]),
                duration(wait),
                "; ".join(remarks),
            )
        )
    return made


def _fidelity(group: Row) -> str:
    share, judged = group["replay_fidelity"], group["judged_generations"]
    if share is None or not judged:
        return "Not judged: no generation of this group could be replayed."
    by = ", ".join(f"{visible(library)} {percent(value)}" for library, value in sorted(group["fidelity_by_library"].items()))
    leaders = f" By the leader's library: {by}." if by else ""
    return f"{percent(share)} of {plural(judged, 'generation')} reproduced by replaying the group's own strategy.{leaders}"
