"""One group's section: its drawing, loads, steps, strategies and notes, as the group template shows them."""

from __future__ import annotations

from counterpoise.report.colours import Look, identities, looks
from counterpoise.report.history import GroupHistory, LagSeries, Row
from counterpoise.report.limits import Limits
from counterpoise.report.member_loads import loads_of, more_loads
from counterpoise.report.overview import Figure, running, strategy_rows
from counterpoise.report.picture import draw, draw_lag
from counterpoise.report.steps import steps_in_words
from counterpoise.report.words import (
    UNKNOWN,
    count,
    duration,
    long,
    number,
    paragraphs,
    percent,
    phrase,
    plural,
    rounded,
    slug,
    visible,
    visible_lines,
)

__all__ = ["detail"]

_CAUSES = {
    "join": "joined",
    "leave": "left",
    "join_leave": "both",
    "partition_count": "partition count",
    "protocol": "strategy",
    "unknown": "unclear",
}


def detail(
    group: Row,
    history: GroupHistory | None,
    lag: LagSeries | None,
    findings: list[Row],
    period: tuple[int, int],
    limits: Limits,
    health: list[Row],
) -> Row:
    """What the template shows of one group; `history` is None for a group that only commits. `health`: its states."""
    name = str(group["group_id"])
    names, member_looks = _names_and_looks(history)
    picture = None
    if history:
        picture = draw(history, lag, names, member_looks, period, group["group_type"] == "share", limits, health)
    elif lag:
        picture = draw_lag(lag, period, limits, health)
    legend = sorted(set(zip(names, member_looks, strict=True)), key=lambda entry: (len(entry[1].letter), entry[1].letter))
    loads, loads_at = loads_of(history, lag, names, member_looks) if history else ([], "")
    shown = {"observed", group["protocol"], group["suggested_strategy"]}
    declared = None if group["protocol_kind"] == "server" else group["protocol"]  # a broker's assignor is no strategy
    listed = [row for row in group["strategies"] or () if not limits.brief or row["strategy"] in shown]
    return {
        "name": visible(name) or "(empty name)",
        "anchor": slug(name),
        "kind": phrase(group["group_type"]),
        "strategy": visible(running(group)),
        "state": phrase(group["state"]),
        "health": group["health"],
        "summary": _summary(group),
        "figures": _figures(group, dict(zip([member for member, _ in history.members], names, strict=True)) if history else {}),
        "incomplete": _incomplete(group, history),
        "findings": findings,
        "picture": picture,
        "legend": legend[: limits.members],
        "more_members": max(len(legend) - limits.members, 0),
        "loads": loads[: limits.members],
        "loads_at": loads_at,
        "more_loads": more_loads(loads, limits.members),
        "brief": limits.brief,
        "steps": steps_in_words(history, names, limits.listed, day=long(period)) if history else [],
        "n_steps": len(history.steps) + history.skipped if history else 0,
        "strategies": strategy_rows(listed, group["suggested_strategy"], declared) if listed else [],
        "suggestion": paragraphs(visible_lines(group["suggestion"])),
        "migration": paragraphs(visible_lines(group["migration_note"])),
        "fidelity": _fidelity(group),
        "fidelity_note": visible(group["fidelity_note"] or ""),
    }


def _names_and_looks(history: GroupHistory | None) -> tuple[list[str], list[Look]]:
    """What each member is called and how it is drawn, by member code."""
    if history is None:
        return [], []
    key_of = identities([history.members[code] for code in step.tolist()] for step in history.present)
    look_of = looks(key_of.values())
    keys = [key_of[member] for member, _ in history.members]
    return [visible(key) or "(no name)" for key in keys], [look_of[key] for key in keys]


def _summary(group: Row) -> str:
    parts = (
        (group["rebalances"], plural(group["rebalances"], "rebalance")),
        (group["members_peak"], f"{plural(group['members_now'], 'member')} (peak {count(group['members_peak'])})"),
        (group["partitions_now"], plural(group["partitions_now"], "partition")),
        (group["lag_now"] is not None, f"{number(group['lag_now'])} behind"),
    )
    return ", ".join(text for known, text in parts if known) or plural(group["commits"] or 0, "commit")


def _figures(group: Row, name_of: dict[str, str]) -> list[Figure]:
    p50, worst = group["sync_latency_ms_p50"], group["sync_latency_ms_max"]
    causes = ", ".join(
        f"{count(n)} {_CAUSES.get(cause, cause)}"
        for cause, n in sorted(group["causes"].items(), key=lambda kv: (-kv[1], kv[0]))
        if n
    )
    ids = f"peak {count(group['members_peak'])}, {count(group['distinct_members'])} ids in all"
    needless = f"{count(group['needless_moves'])} needlessly" if group["needless_moves"] else ""
    tombstones = plural(group["commit_tombstones"], "tombstone") if group["commit_tombstones"] else ""
    made = [
        Figure("rebalances", count(group["rebalances"]), causes),
        Figure("members", count(group["members_now"]), ids),
        Figure("partitions", count(group["partitions_now"]), _spread(group)),
        Figure("moved", count(group["observed_moved"]), needless),
        Figure("leader's wait", duration(p50), f"median; longest {duration(worst)}") if worst is not None else None,
        _stopped(group),
        Figure("commits", count(group["commits"]), tombstones),
        Figure("records behind", number(group["lag_now"]), _lag_owner(group, name_of)) if group["lag_now"] is not None else None,
        _sizing(group),
    ]
    return [figure for figure in made if figure is not None and figure.value != UNKNOWN]


def _stopped(group: Row) -> Figure | None:
    stopped, left_out = group["stopped_partition_seconds"], group["stopped_unsampled_seconds"]
    if not stopped and not left_out:
        return None
    more = f"; {rounded(left_out)} without samples are left out" if left_out else ""
    return Figure("stopped, partition\u2011s", rounded(stopped), f"without a commit because of rebalances{more}")


def _sizing(group: Row) -> Figure | None:
    """How many members the production of the busiest ten minutes needs; the production alone if their capacity is unknown."""
    produced, able, needed = (group[name] for name in ("production_per_second", "capacity_per_second", "members_needed"))
    if produced is None:
        return None
    if able is None:
        return Figure("produced", _rate(produced), "in the busiest ten minutes")
    bound = group["capacity_quality"] == "lower_bound"
    value = f"{'at most ' if bound else ''}{count(needed)}" if needed is not None else "unknown" if bound else "no number"
    most = f"; more than {count(group['members_useful'])} do not help" if group["members_useful"] else ""
    does = f"a member does {'at least ' if bound else ''}{_rate(able)}"
    return Figure("members needed", value, f"for {_rate(produced)} in the busiest ten minutes; {does}{most}")


def _rate(per_second: float) -> str:
    return f"{number(round(per_second, 1 if per_second < 100 else None))}/s"


def _spread(group: Row) -> str:
    now, peak = group["spread_now"], group["spread_peak"]
    return ", ".join(
        f"{word} {count(n)}" for word, n in (("spread", now), ("peak spread" if now is None else "peak", peak)) if n is not None
    )


def _lag_owner(group: Row, name_of: dict[str, str]) -> str:
    owner, share = group["lag_owner"], group["lag_owner_share"]
    words = ["not known everywhere"] if group["lag_quality"] == "unknown" else []
    if owner and share and group["lag_now"]:
        words.append(f"{percent(share)} at {name_of.get(owner, visible(owner))}")
    return ", ".join(words)


def _incomplete(group: Row, history: GroupHistory | None) -> str:
    if group["complete"] or group["complete"] is None:
        return ""
    if group["polled"]:
        return "This group was recorded by polls, which do not show what was before the first poll, or between two polls."
    partial = sum(not step["complete"] for step in history.steps) if history else 0
    where = f" ({plural(partial, 'step')} with an unknown history before)" if partial else ""
    return (
        f"What was audited no longer holds this group's whole history{where}: compaction removed older generations, or --from "
        "left them out. Figures count what is left; against compaction, record continuously."
    )


def _fidelity(group: Row) -> str:
    share, compared = group["replay_fidelity"], group["compared_generations"]
    if share is None or not compared:
        if group["protocol_kind"] == "server":
            return "Not measured: the broker's assignor plans this group, and it is none of the strategies."
        return "Not measured: no generation of this group could be replayed."
    by = ", ".join(f"{visible(library)} {percent(value)}" for library, value in sorted(group["fidelity_by_library"].items()))
    leaders = f" By the leader's library: {by}." if by else ""
    return f"{percent(share)} of {plural(compared, 'generation')} reproduced by replaying the group's own strategy.{leaders}"
