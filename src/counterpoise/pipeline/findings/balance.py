"""Findings about the balance of partitions and lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.findings.advice import (
    STICKY,
    assigned_by,
    by_broker,
    change_lines,
    lag_lines,
    seconds_saved,
    suggested_strategy,
    usable_strategies,
)
from counterpoise.pipeline.findings.finding import CRITICAL, NOTICE, WARNING, Finding, Row
from counterpoise.pipeline.findings.rebalancing import WARNED_SHARE, eager_stops, share_of_time
from counterpoise.pipeline.history.replay_fold import CLOSED_LOOP, OBSERVED, REPLAY
from counterpoise.pipeline.predicted_stops import runs_of
from counterpoise.pipeline.wording import and_more, grouped, percent, times

__all__ = ["better_strategy", "idle_members", "lag_on_one_owner", "needless_moves", "topic_skew", "unbalanced"]


def idle_members(row: Row) -> Finding | None:
    """Members without partitions."""
    idle, members, partitions = row["idle_now"] or 0, row["members_now"] or 0, row["partitions_now"] or 0
    streams = row["group_type"] == "streams" or row["protocol"] == "stream"
    if not idle or not partitions or streams:  # Records of Kafka Streams do not show standby tasks.
        return None
    # The broker's range leaves members idle to which its uniform assignor, which is sticky, gives partitions.
    better = suggested_strategy(row) or (STICKY if by_broker(row) and row["protocol"] == "range" else None)
    other = runs_of(row).get((better or "", CLOSED_LOOP))
    skewed = members <= partitions and other is not None and other["spread_peak"] < (row["spread_now"] or 0)
    names, topics = ", ".join(row["idle_clients"][:5]), and_more(row["topics"][:5], len(row["topics"]), "topics")
    if skewed:
        way = f"there are enough partitions for all members; change the strategy\n{change_lines(row)}"
    elif members > partitions:
        way = (
            f"stop {times(idle, 'members')}, or give the topics more partitions (records with a key then go to other ones):\n"
            f"  kafka-topics --bootstrap-server <broker> --alter --topic <topic> --partitions <at least {members}>"
        )
    else:
        way = f"stop {times(idle, 'members')}, or let them subscribe to topics with more partitions: the group has enough for all"
    return Finding(
        WARNING,
        f"{times(idle, 'members')} of {grouped(members)} without a partition",
        f"{grouped(members)} members share {times(partitions, 'partitions')} of {topics}; idle: {names}",
        f"{times(idle, 'members')} process nothing and take part in every rebalance",
        way,
        10.0 * idle,
        {"idle": idle, "members": members, "partitions": partitions},
        row["generation_now"],
        row["last_ts"],
        better if skewed else None,
    )


def unbalanced(row: Row) -> Finding | None:
    """Loads of the last generation that differ more than those of another strategy over the same history."""
    spread = row["spread_now"]
    run = min(_whole_runs(row), key=lambda run: (run["spread_peak"], run["strategy"] == row["protocol"]), default=None)
    if row["state"] != "stable" or spread is None or run is None or spread - run["spread_peak"] < 2:
        return None
    best = run["spread_peak"]
    other = "another strategy" if by_broker(row) or run["strategy"] != row["protocol"] else f"counterpoise's {run['strategy']}"
    topic, skewed = row["topic_spread_now"] or 0, row["skewed_topics"]
    return Finding(
        WARNING,
        f"loads are {grouped(spread)} partitions apart",
        f"{assigned_by(row)}: the busiest member ({', '.join((row['busiest_clients'] or ())[:5])}) owns {grouped(spread)} "
        f"partitions more than the least loaded ({grouped(topic)} within {skewed[0]['topic'] if skewed else 'one topic'}); over "
        f"the same history {other} never had them more than {grouped(best)} apart",
        f"the busiest member decides how fast the group is: it has {grouped(spread)} partitions more to work on",
        change_lines(row),
        5.0 * spread,
        {"spread": spread, "reachable": best, "topic_spread": topic},
        row["generation_now"],
        row["last_ts"],
    )


def topic_skew(row: Row) -> Finding | None:
    """Balanced loads with partitions of one topic on few members, which another strategy spreads."""
    skewed, spread = row["skewed_topics"], row["spread_now"]
    usable = usable_strategies(row)
    runs = [
        run
        for run in _whole_runs(row)
        if spread is not None and run["spread_peak"] <= max(1, spread) and run["strategy"] in usable
    ]
    if row["state"] != "stable" or not skewed or not runs or unbalanced(row) is not None:
        return None
    worst, n = skewed[0], row["n_skewed_topics"]
    topic = worst["most"] - worst["fewest"]
    first = "range" if by_broker(row) else suggested_strategy(row)
    best = min(runs, key=lambda run: (run["topic_spread_peak"], run["strategy"] != first, run["strategy"]))
    reachable, suggested = best["topic_spread_peak"], best["strategy"]
    if topic - reachable < 2:
        return None
    goal = suggested if by_broker(row) or suggested != row["protocol"] else None
    return Finding(
        NOTICE,
        f"members are {grouped(topic)} partitions of {worst['topic']} apart",
        f"{assigned_by(row)}: loads are {times(spread, 'partitions')} apart in all, but {_uneven(skewed, n)}; over the same "
        f"history {suggested} never had any topic more than {grouped(reachable)} apart",
        f"when {worst['topic']} is the busy one, its busiest member has {grouped(topic)} partitions more to work on "
        "while others wait",
        change_lines(row, goal),
        2.0 * topic,
        {"topic_spread": topic, "most": worst["most"], "fewest": worst["fewest"], "topics": n}
        | {"reachable": reachable, "spread": spread},
        row["generation_now"],
        row["last_ts"],
        goal,
    )


def _uneven(skewed: Sequence[Row], topics: int) -> str:
    """The members with most and fewest partitions of the worst topics, and the number of other skewed topics."""
    listed = [
        f"of {one['topic']} {one['most_client'] or 'a member'} owns {grouped(one['most'])} and "
        f"{one['fewest_client'] or 'another'} {grouped(one['fewest'])}"
        for one in skewed
    ]
    more = topics - len(listed)
    return ", ".join(listed) + (f" (and so on in {times(more, 'topics')} more)" if more > 0 else "")


def needless_moves(row: Row) -> Finding | None:
    """Partitions that moved although an equally balanced plan would have kept them."""
    needless, moved = row["needless_moves"] or 0, row["observed_moved"] or 0
    if needless < 2:
        return None
    generations = runs_of(row)[OBSERVED, REPLAY]["generations"]
    return Finding(
        WARNING if needless >= 10 else NOTICE,
        f"{grouped(needless)} of {grouped(moved)} moves were needless",
        f"{assigned_by(row)}: over {times(generations, 'generations')} {grouped(moved)} partitions moved between "
        f"living members; plans just as balanced needed {grouped(moved - needless)}; most in "
        f"generation {row['needless_generation']}",
        f"{grouped(needless)} times a member lost the state, cache or connection of a partition needlessly",
        row["migration_note"] or change_lines(row),
        float(needless),
        {"needless": needless, "moved": moved},
        row["needless_generation"],
        row["needless_ts"],
    )


def better_strategy(row: Row) -> Finding | None:
    """Another strategy has better figures over the group's own history."""
    suggested = row["suggested_strategy"]
    if not suggested or eager_stops(row) is not None:
        return None
    now, then, measured = seconds_saved(row, suggested) or (0.0, 0.0, False)
    saved = max(0.0, round(now - then))
    whose = "counterpoise's " if suggested == row["protocol"] else ""
    spread = f"loads were up to {grouped(row['spread_peak'] or 0)} partitions apart"
    basis = "" if measured else ", estimated from a benchmark: commits do not show how long partitions were stopped"
    return Finding(
        WARNING if measured and saved >= 10 and share_of_time(row, saved) >= WARNED_SHARE else NOTICE,
        f"{whose}{suggested} would have been better than {assigned_by(row)}",
        row["suggestion"],
        f"about {grouped(saved)} partition-seconds stopped needlessly{basis}" if saved else spread,
        row["migration_note"] or change_lines(row, suggested),
        float(saved),
        {"saved_partition_seconds": saved} if saved else {"spread": row["spread_peak"] or 0},
        row["generation_now"],
        row["last_ts"],
    )


def lag_on_one_owner(row: Row) -> Finding | None:
    """Most of the group's lag is on partitions of one of the members that have some."""
    lag, share, members = row["lag_now"] or 0, row["lag_owner_share"] or 0.0, (row["members_now"] or 0) - (row["idle_now"] or 0)
    if lag < 1000 or members < 2 or share < max(0.6, 1.5 / members):
        return None
    return Finding(
        CRITICAL if share > 0.9 and lag >= 100_000 else WARNING,
        f"{percent(share)} of the lag is with one of {grouped(members)} members",
        f"{grouped(lag)} records behind in all, {grouped(round(lag * share))} of them with {row['lag_owner']}, "
        f"most on {_behind(row)}",
        f"{grouped(round(lag * share))} records wait for one member while the others are nearly done",
        "look at that member first (its host, a stuck partition, a hot key); if its partitions are the busy ones, use a strategy "
        f"that assigns by lag (lag-sticky)\n{lag_lines(row)}",
        10 * share,
        {"lag": lag, "share": share, "waiting": round(lag * share), "members": members},
        row["generation_now"],
        row["last_commit"],
    )


def _behind(row: Row) -> str:
    """The partitions with most of one owner's lag."""
    return ", ".join(f"{one['topic']}-{one['partition']} ({grouped(one['lag'])})" for one in row["lag_partitions"] or ())


def _whole_runs(row: Row) -> list[Mapping[str, Any]]:
    """Closed loops over all generations; those by lag lack generations before the first sample."""
    loops = [run for (_, mode), run in runs_of(row).items() if mode == CLOSED_LOOP]
    whole = max((run["generations"] for run in loops), default=0)
    return [run for run in loops if run["generations"] == whole]
