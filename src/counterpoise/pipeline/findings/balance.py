"""Findings about how partitions are shared out."""

from __future__ import annotations

from counterpoise.pipeline.advice import COOPERATIVE, config_lines
from counterpoise.pipeline.findings.finding import CRITICAL, NOTICE, WARNING, Finding, Row, times
from counterpoise.pipeline.findings.rebalancing import eager_stops
from counterpoise.pipeline.records.libraries import JAVA

__all__ = ["better_strategy", "idle_members", "lag_on_one_owner", "needless_moves", "unbalanced"]


def idle_members(row: Row) -> Finding | None:
    """More members than partitions they could get: some do nothing."""
    idle, members, partitions = row["idle_now"] or 0, row["members_now"] or 0, row["partitions_now"] or 0
    if not idle or not partitions:
        return None
    runs = {run["strategy"]: run for run in row["strategies"] or () if run["mode"] == "closed_loop"}
    skewed = members <= partitions and COOPERATIVE in runs
    names = ", ".join(row["idle_clients"][:5])
    way = (
        f"change the strategy: {config_lines(JAVA, [COOPERATIVE])}"
        if skewed
        else f"stop {times(idle, 'members')}, or give the topics more partitions"
    )
    return Finding(
        "idle_members",
        WARNING,
        f"{times(idle, 'members')} of {members} own no partition",
        f"{members} members share {times(partitions, 'partitions')} of {', '.join(row['topics'])}; idle: {names}",
        f"{times(idle, 'members')} run for nothing and take part in every rebalance",
        way,
        10.0 * idle,
        {"idle": idle, "members": members, "partitions": partitions},
    )


def unbalanced(row: Row) -> Finding | None:
    """Loads further apart than they need be, now: a plan that is balanced has them at most one apart where it can."""
    spread = row["spread_now"]
    loops = [run for run in row["strategies"] or () if run["mode"] == "closed_loop"]
    whole = max((run["generations"] for run in loops), default=0)  # strategies by lag miss what came before the first sample
    best = min((run["spread_peak"] for run in loops if run["generations"] == whole), default=None)
    if row["state"] != "stable" or spread is None or best is None or spread - best < 2:
        return None
    topic = row["topic_spread_now"] or 0
    return Finding(
        "unbalanced",
        WARNING,
        f"loads are {spread} partitions apart",
        f"{row['protocol']}: the busiest member owns {spread} partitions more than the idlest ({topic} within one topic); "
        f"over the same history another strategy never had them more than {best} apart",
        f"the busiest member decides how fast the group is: it has {spread} partitions more to work on",
        row["suggestion"] or f"use {COOPERATIVE}",
        5.0 * spread,
        {"spread": spread, "reachable": best, "topic_spread": topic},
    )


def needless_moves(row: Row) -> Finding | None:
    """Partitions that changed hands though an equally balanced plan would have left them."""
    needless, moved = row["needless_moves"] or 0, row["observed_moved"] or 0
    if needless < 2:
        return None
    return Finding(
        "needless_moves",
        WARNING if needless >= 10 else NOTICE,
        f"{needless} of {moved} moves were needless",
        f"{row['protocol']}: over {times(row['judged_generations'] or 0, 'generations')} {moved} partitions moved between living "
        f"members; plans just as balanced needed {moved - needless}; most in generation {row['needless_generation']}",
        f"{needless} times a partition's state, cache or connection was given up for nothing",
        row["migration_note"] or f"use {COOPERATIVE}",
        float(needless),
        {"needless": needless, "moved": moved},
        row["needless_generation"],
    )


def better_strategy(row: Row) -> Finding | None:
    """Another strategy would have done better over the group's own history."""
    if not row["suggested_strategy"] or eager_stops(row) is not None:
        return None
    saved = _saved(row)
    return Finding(
        "better_strategy",
        NOTICE if saved < 20 else WARNING,
        f"{row['suggested_strategy']} would have served better than {row['protocol']}",
        row["suggestion"],
        f"{times(saved, 'partitions')} stopped that need not have" if saved else "uneven loads",
        row["migration_note"] or "",
        float(saved),
        {"saved_stops": saved},
    )


def lag_on_one_owner(row: Row) -> Finding | None:
    """Most of the group's lag sits with one of several members."""
    lag, share, members = row["lag_now"] or 0, row["lag_owner_share"] or 0.0, row["members_now"] or 0
    if lag < 1000 or members < 2 or share < max(0.6, 1.5 / members):
        return None
    return Finding(
        "lag_on_one_owner",
        CRITICAL if share > 0.9 and lag >= 100_000 else WARNING,
        f"{share:.0%} of the lag is with one of {members} members",
        f"{lag} records behind in all, {round(lag * share)} of them with {row['lag_owner']}",
        f"{round(lag * share)} records wait for one member while the others are nearly done",
        "look at that member first (its host, a stuck partition, a hot key); if its partitions are the busy ones, use a strategy "
        "that deals by lag (lag-sticky)",
        10 * share,
        {"lag": lag, "share": share, "members": members},
    )


def _saved(row: Row) -> int:
    runs = {(run["strategy"], run["mode"]): run for run in row["strategies"] or ()}
    observed, found = runs.get(("observed", "replay")), runs.get((row["suggested_strategy"], "closed_loop"))
    return 0 if observed is None or found is None else max(0, observed["revoked"] - found["revoked"])
