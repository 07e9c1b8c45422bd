"""Actions over the fleet: what findings ask for, grouped over groups and ranked by what it saves.

    row of group_report, its findings -> parts_of -> one part per action of the group
    parts of all groups               -> ranked   -> at most ten actions, one per kind; two for strategies

A stopped partition-second counts once: a group's first action (in the order of `KINDS`) takes its share of the group's stopped
seconds, the next one a share of what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Any

from counterpoise.pipeline.findings.advice import (
    Note,
    by_broker,
    change_lines,
    change_notes,
    seconds_saved,
    setting_lines,
    suggested_strategy,
)
from counterpoise.pipeline.findings.finding import Finding, Row
from counterpoise.pipeline.findings.rebalancing import SETTINGS, may_be_static, some_may_be_static, static_lines
from counterpoise.pipeline.findings.without_members import deletion
from counterpoise.pipeline.history.replay_fold import OBSERVED, REPLAY
from counterpoise.pipeline.predicted_stops import seconds_of
from counterpoise.pipeline.wording import SEVERITIES, grouped, times
from counterpoise.planning.client_libraries import UNKNOWN, recommended, resolved

__all__ = ["KINDS", "parts_of", "ranked"]

KINDS: Mapping[str, tuple[str, str]] = {
    "save_records": (
        "Save records of {} from retention",
        "raise retention.ms and retention.bytes of their topics, then let them catch up",
    ),
    "unblock_partitions": (
        "Unblock partitions of {}",
        "see what the findings name: a record that cannot be processed, a client that hangs, a paused partition",
    ),
    "switch_strategy": ("", "change the configuration of each client library; a group at a time, in the order of the list"),
    "steady_members": (
        "Keep the members of {} from coming and going",
        "see in their logs why they leave; make them static if they can be; process fewer records, or allow more time, per poll",
    ),
    "look_at_members": ("Look at single members that slow down {}", "see host and logs of the members that the findings name"),
    "add_members": ("Add members to {}, or spread their load", "start as many members as the findings say; split hot partitions"),
    "give_back_members": (
        "Give back {amount} of {members} members of {}",
        "stop those that own no partition first, then others one at a time, down to what each group needs",
    ),
    "dead_groups": ("Start or delete {} without members", "start their members, or delete the groups"),
    "outside_commits": ("Find out who commits to {} from outside", "find who resets offsets, or assigns partitions by hand"),
}
"""Kind -> title and what to do; in this order the actions of a group take their share of its seconds."""
_FIRST = ("save_records", "unblock_partitions")
"""Kinds that come before all others: somebody must act at once."""
_STEADY = ("storm", "static_membership", "flapping", "failed_generations", "polled_too_late")
_STRATEGY = ("unbalanced", "topic_skew", "needless_moves", "better_strategy")
_KIND_OF = {
    **dict.fromkeys(_STEADY, "steady_members"),
    **dict.fromkeys(("slow_leader", "lag_on_one_owner"), "look_at_members"),
    **dict.fromkeys(("simple_consumer", "commits_by_nobody"), "outside_commits"),
    **dict.fromkeys(("stalled_partition", "stopped_partition"), "unblock_partitions"),
    **dict.fromkeys(("falling_behind", "too_few_members", "hot_partition"), "add_members"),
    "losing_data": "save_records",
    **dict.fromkeys(("idle_members", "too_many_members"), "give_back_members"),
    "dead_groups": "dead_groups",
}
_AMOUNTS = {
    "unblock_partitions": ("lag", "records wait"),
    "steady_members": ("failed kicks", "failed rebalances or late polls"),
    "look_at_members": ("waiting", "records wait for one member"),
    "add_members": ("missing", "members are missing"),
    "give_back_members": ("idle spare", "members are not needed"),
    "dead_groups": ("lag", "records behind, which raises alarms"),
    "outside_commits": ("commits", "commits came from no member"),
}
"""Kind -> the numbers of its findings whose sum is the amount, and what is counted."""
_SAVED = ("saved_seconds", "estimated_seconds", "saved_moves", "saved_rebalances", "restarts")
_NAMED, _MUCH = 3, 0.01
"""Strategies that a title names; the share of the stopped seconds from which on an action is ranked by seconds."""
_OWN = "their library's own version"
_ALONE = "cooperative-sticky"
"""The strategy whose change is an action of its own."""
_OTHER, _ONE = "another assignor", "one client library"
"""What a title says for a strategy if the broker assigns, and if the client libraries have none in common."""
Part = Mapping[str, Any]


def parts_of(row: Row, findings: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    """What one group contributes to each action that its findings ask for: rows of `ACTION_PARTS`.

    `row` is a row of `group_report`, `findings` are those of this row; one that asks for no change contributes nothing. The
    partition-seconds of all parts of a group are at most those that it stopped.
    """
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        kind = _kind_of(row, finding)
        if kind is not None:
            found.setdefault(kind, []).append(finding)
    seconds, measured = seconds_of(row)
    left, rounds = seconds.get((OBSERVED, REPLAY), 0.0), row["rebalances"] or 0
    per_move = (row["rebalances_per_day"] or 0.0) / rounds if rounds else 0.0
    for kind in filter(found.__contains__, KINDS):
        mine = found[kind]
        avoided = min(_avoided(kind, mine, row), rounds)
        target, notes, moves, saved = "", _notes(row, mine), 0, left * avoided / rounds if rounds else 0.0
        if kind == "switch_strategy":
            target, notes, saved = _change(row, mine)
            keeps = target not in ("range", "roundrobin")  # these do not try to keep partitions
            moves = sum(int(one.numbers.get("needless", 0)) for one in mine) if keeps else 0
        saved = int(min(saved, left) * 1000) / 1000  # Rounded down: the sum is never more than what was stopped.
        left, rounds = left - saved, rounds - avoided
        yield {
            "cluster": row["cluster"],
            "group_id": row["group_id"],
            "kind": kind,
            "target": target,
            "now": row["protocol"] or "",
            "by_broker": by_broker(row),
            "severity": min((one.severity for one in mine), key=SEVERITIES.index),
            "score": max(one.score for one in mine),
            "findings": sorted(one.kind for one in mine),
            "saved_seconds": saved if measured else 0.0,
            "estimated_seconds": 0.0 if measured else saved,
            "saved_moves": moves,
            "saved_moves_per_day": moves * per_move if per_move else None,
            "saved_rebalances": avoided,
            "amount": _amount(kind, mine),
            "lost": int(sum(one.numbers.get("lost", 0) for one in mine)),
            "members": row["members_now"],
            "restarts": max((note.restarts for note in notes), default=0),
            "full_stop": any(note.full_stop for note in notes),
            "config": [{"library": note.library, "lines": note.lines} for note in notes],
        }


def _change(row: Row, found: Sequence[Finding]) -> tuple[str, list[Note], float]:
    """The strategy that a group should have, how to change to it, and the partition-seconds that this saves.

    A group gets one strategy. If its findings name several, it is `suggested_strategy`. There is none if the broker assigns, or
    if the client libraries have none in common.
    """
    own = suggested_strategy(row)
    goals = {one.target or own for one in found} - {None}
    goal = goals.pop() if len(goals) == 1 else own
    now, then, _ = seconds_saved(row, goal) or (0.0, 0.0, False)
    notes = change_notes(row, goal) or [Note(", ".join(resolved(row["libraries"])), 1, change_lines(row, goal))]
    return "" if by_broker(row) else goal or "", notes, max(now - then, 0.0)


def _kind_of(row: Row, finding: Finding) -> str | None:
    """The kind of the action that a finding asks for; None: for no change."""
    if finding.kind in _STRATEGY or finding.target or (finding.kind == "eager_stops" and row["suggested_strategy"]):
        changes = change_notes(row, finding.target or row["suggested_strategy"]) or not recommended(row["libraries"])
        return "switch_strategy" if changes else None
    return _KIND_OF.get(finding.kind)


def _avoided(kind: str, found: Sequence[Finding], row: Row) -> int:
    """Rebalances that an action avoids: those of restarts, or two per member that polled too late, whichever are more.

    They are not added: a member that polled too late and is back within a minute counts as restarted, too.
    """
    if kind != "steady_members":
        return 0
    late = sum(2 * one.numbers.get("kicks", 0) for one in found)
    restarted = some_may_be_static(row) and any(one.kind in ("storm", "static_membership", "flapping") for one in found)
    return int(max(late, row["restart_rebalances"] or 0 if restarted else 0))


def _amount(kind: str, found: Sequence[Finding]) -> float:
    names, _ = _AMOUNTS.get(kind, ("", ""))
    return fsum(one.numbers.get(name, 0) for one in found for name in names.split())


def _notes(row: Row, found: Sequence[Finding]) -> list[Note]:
    """The configuration of an action that changes no strategy, per client library: static members, and settings."""
    listed: list[tuple[str, list[str] | None]] = [(one, [one]) for one in resolved(row["libraries"])]
    listed = listed or [("KIP-848" if by_broker(row) else UNKNOWN, None)]
    notes = [
        Note(name, 1, setting_lines(only, SETTINGS[one.kind])) for name, only in listed for one in found if one.kind in SETTINGS
    ]
    if may_be_static(row) and any(one.kind in _STEADY and one.kind not in SETTINGS for one in found):
        notes += [Note(name, 1, static_lines({**row, "libraries": only})) for name, only in listed]
    return notes


def ranked(parts: Iterable[Part], stopped: Mapping[str, float]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The actions of a fleet, ranked: each over all clusters (its `groups` have the key `cluster`), and its rows of the table.

    `parts` are rows of `ACTION_PARTS`, in any order; `stopped`: cluster -> partition-seconds that its groups stopped, as far as
    commits show it. O(n log n) for n parts. All parts are in memory, some two kilobytes each.
    """
    by_key: dict[tuple[str, bool], list[Part]] = {}
    for part in parts:
        by_key.setdefault((part["kind"], part["target"] == _ALONE), []).append(part)
    total, actions = fsum(stopped.values()), []
    whole = sorted(((_action(mine, total), mine) for mine in by_key.values()), key=lambda pair: _order(pair[0], total))
    for rank, (action, mine) in enumerate(whole, 1):
        clusters = sorted({part["cluster"] for part in mine})
        rows = [
            {"cluster": name, "rank": rank, **_action([part for part in mine if part["cluster"] == name], stopped.get(name, 0.0))}
            for name in clusters
        ]
        actions.append(({"rank": rank, **action}, rows))
    return actions


def _order(action: Mapping[str, Any], stopped: float) -> tuple[Any, ...]:
    """Data that is lost and partitions that wait come first, then actions that save a hundredth of the stopped seconds, by
    seconds; the others follow by severity.
    """
    much = action["saved_seconds"] if action["saved_seconds"] >= _MUCH * stopped else 0.0
    figures = (-action[name] for name in (*_SAVED[:4], "n_groups"))
    first = action["kind"] not in _FIRST, -much, SEVERITIES.index(action["severity"])
    return (*first, *figures, action["kind"], action["target"])


def _group_order(part: Part) -> tuple[Any, ...]:
    return (*(-part[name] for name in (*_SAVED[:4], "score")), part["cluster"], part["group_id"])


def _action(parts: Sequence[Part], stopped: float) -> dict[str, Any]:
    """One action over the groups of its parts; `stopped` are the partition-seconds of the whole fleet."""
    listed = sorted(parts, key=_group_order)
    kind, n = listed[0]["kind"], len(listed)
    sums = {name: round(fsum(part[name] or 0 for part in listed), 3) for name in (*_SAVED, "amount", "lost", "members")}
    rates = [part["saved_moves_per_day"] for part in listed if part["saved_moves_per_day"] is not None]
    per_day = round(fsum(rates), 3) if rates else None
    return {
        "severity": min((part["severity"] for part in listed), key=SEVERITIES.index),
        "kind": kind,
        "target": ", ".join(sorted({part["target"] for part in listed} - {""})),
        "title": KINDS[kind][0].format(times(n, "groups"), amount=grouped(sums["amount"]), members=grouped(sums["members"]))
        or _switch_title(listed),
        "saves": _saves(kind, sums, per_day, stopped),
        "cost": _cost(listed),
        "action": KINDS[kind][1],
        "n_groups": n,
        "groups": [{name: part[name] for name in ("cluster", "group_id", *_SAVED, "findings")} for part in listed],
        **{name: sums[name] for name in _SAVED[:2]},
        **{name: int(sums[name]) for name in _SAVED[2:]},
        "saved_moves_per_day": per_day,
        "config": _config(kind, listed),
    }


def _switch_title(listed: Sequence[Part]) -> str:
    now: Counter[str] = Counter()
    for part in listed:
        name = part["now"] or ("the broker's default" if part["by_broker"] else "an unknown one")
        now[_OWN if name == part["target"] else name] += 1
    names = [name for name, _ in sorted(now.items(), key=lambda item: (-item[1], item[0]))]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    before = " or ".join(names[:_NAMED] + more)
    goals = {part["target"] or (_OTHER if part["by_broker"] else _ONE) for part in listed}
    groups, after = times(len(listed), "groups"), " or ".join(sorted(goals, key=lambda goal: (goal in (_OTHER, _ONE), goal)))
    return f"Switch {groups} to {after}, from {before}" if _OWN in names else f"Switch {groups} from {before} to {after}"


def _saves(kind: str, sums: Mapping[str, float], per_day: float | None, stopped: float) -> str:
    """What an action saves, in words: seconds, moves and rebalances; then what its findings count, and lost records."""
    saved, estimated, moves, rebalances = (round(sums[name]) for name in _SAVED[:4])
    daily = round(per_day or 0)
    words = (
        (saved, f"{grouped(saved)} of {grouped(round(stopped))} stopped partition-seconds"),
        (estimated, f"about {grouped(estimated)} {'more' if saved else 'partition-seconds'}, estimated"),
        (moves, f"{grouped(daily)} needless moves a day" if daily else times(moves, "needless moves")),
        (rebalances, f"up to {times(rebalances, 'rebalances')}"),
    )
    text = "; ".join(text for known, text in words if known)
    amount = f"{grouped(sums['amount'])} {_AMOUNTS[kind][1]}" if sums["amount"] else ""
    lost = f"{times(sums['lost'], 'records')} deleted unread" if sums["lost"] else ""
    return "; ".join(filter(None, (text and f"saves {text}", amount, lost))) or "no saving that can be counted"


def _cost(listed: Sequence[Part]) -> str:
    """Rolling restarts, and a stop of all librdkafka members at one time; with numbers of groups if they differ."""
    rolling = Counter(part["restarts"] for part in listed if part["restarts"] or not part["full_stop"])
    stops = sum(part["full_stop"] for part in listed)
    stop = ["a stop of all librdkafka members"] * bool(stops)
    if len({(part["restarts"], part["full_stop"]) for part in listed}) == 1:
        words = ("no restart", "one rolling restart", "two rolling restarts")
        return " and ".join([*(words[n] for n in rolling), *stop])
    counts = ", ".join(f"{('none', 'one', 'two')[n]} ({times(rolling[n], 'groups')})" for n in sorted(rolling, reverse=True))
    return "; ".join([f"rolling restarts: {counts}", *(f"{words} ({times(stops, 'groups')})" for words in stop)])


def _config(kind: str, listed: Sequence[Part]) -> list[dict[str, Any]]:
    """Configuration per client library, that of most groups first; for groups without members the commands that delete them."""
    blocks: dict[str, list[tuple[str, Part]]] = {}
    for part in listed:
        for one in part["config"]:
            blocks.setdefault(one["lines"], []).append((one["library"], part))
    if kind == "dead_groups":
        for cluster in sorted({part["cluster"] for part in listed}):
            mine = [part for part in listed if part["cluster"] == cluster]
            blocks.setdefault(deletion([part["group_id"] for part in mine]), []).extend((cluster, part) for part in mine)
    made = []
    for lines, of in blocks.items():
        groups = list(dict.fromkeys((part["cluster"], part["group_id"]) for _, part in of))
        made.append(
            {
                "library": ", ".join(sorted({library for library, _ in of})),
                "lines": lines,
                "n_groups": len(groups),
                "groups": [{"cluster": cluster, "group_id": name} for cluster, name in groups],
            }
        )
    return sorted(made, key=lambda block: (-block["n_groups"], block["library"], block["lines"]))
