"""Findings about groups without members and commits without an owner."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from counterpoise.pipeline.findings.finding import CRITICAL, NOTICE, WARNING, Finding, Row
from counterpoise.pipeline.wording import and_more, grouped, times, when

__all__ = ["commits_by_nobody", "dead_groups", "deletion", "simple_consumer"]

_DELETED, _AT_ONCE = 100, 20
"""Most groups that the commands for deletion name, in all and per command."""


def dead_groups(row: Row) -> Finding | None:
    """A group in Kafka's state Empty that has offsets; critical if it lost data already while it had members."""
    lag, partitions = row["lag_now"] or 0, row["committed_partitions"] or 0
    losing = [one for one in row["health_states"] or () if one["state"] == "losing_data" and one["lost"]]
    lost, since = sum(one["lost"] for one in losing), min((one["since"] for one in losing), default=row["last_ts"])
    if row["state"] != "empty" or not partitions:
        return None
    behind = "it is unknown how far behind" if row["lag_now"] is None else f"{times(lag, 'records')} behind"
    return Finding(
        CRITICAL if lost and since < row["last_ts"] else WARNING if lag >= 1000 else NOTICE,
        f"no members since {when(row['last_ts'])}" + (f", {times(lost, 'records')} deleted unread" if lost else ""),
        f"{'the last member left' if row['members_peak'] else 'no member was'} in the recording; "
        f"{times(partitions, 'partitions')} had a commit, {behind} by now"
        + (f"; losing data since {when(since)}" if lost else ""),
        f"{times(lag, 'records')} wait, and that lag raises alarms"
        if lag
        else "offsets stay until offsets.retention.minutes is over",
        f"start its members, or delete it:\n{deletion([row['group_id']])}",
        1 + lag / 1000,
        {"partitions": partitions} | ({} if row["lag_now"] is None else {"lag": lag}) | ({"lost": lost} if lost else {}),
        at=row["last_ts"],
    )


def deletion(names: Sequence[str]) -> str:
    """The commands that delete groups, and the number of groups that are not in them.

    Names are user input: one with a line break could be read as a command, so it is not printed.
    """
    typed = [quote(name) for name in names if name.isprintable()][:_DELETED] or ["<group>"]
    lines = [
        "  kafka-consumer-groups --bootstrap-server <broker> --delete "
        + " ".join(f"--group {name}" for name in typed[at : at + _AT_ONCE])
        for at in range(0, len(typed), _AT_ONCE)
    ]
    odd = sum(not name.isprintable() for name in names)
    if 0 < odd < len(names):
        lines.append(f"with the name typed by hand for {times(odd, 'groups')} whose name holds control characters")
    rest = len(names) - odd - _DELETED
    if rest > 0:
        lines.append(f"and {times(rest, 'groups')} more: those of group_report whose state is empty")
    return "\n".join(lines)


def simple_consumer(row: Row) -> Finding | None:
    """Commits without members: partitions are assigned by hand."""
    partitions = row["committed_partitions"]
    if row["group_type"] != "simple" or not row["commits"]:
        return None
    where = "" if partitions is None else f" on {times(partitions, 'partitions')}"
    return Finding(
        NOTICE,
        "commits without members",
        f"{times(row['commits'], 'commits')}{where}, no member ever joined: partitions are "
        "assigned by hand (assign, not subscribe), or a tool copies offsets (MirrorMaker)",
        "no other process takes over when one dies, and two of them read every record twice",
        "use subscribe() unless the split is planned elsewhere",
        1.0,
        {"commits": row["commits"]} | ({} if partitions is None else {"partitions": partitions}),
        at=row["last_commit"],
    )


def commits_by_nobody(row: Row) -> Finding | None:
    """Commits for partitions that no member of the group owned at that time."""
    n = row["commits_without_owner"] or 0
    if row["group_type"] == "simple" or not n:
        return None
    partitions = row["partitions_without_owner"] or 0
    return Finding(
        NOTICE,
        f"{times(n, 'commits')} came from outside the group",
        f"{grouped(n)} of {grouped(row['commits'] or 0)} commits are on partitions that no member owned at that time: "
        f"{_unowned(row)}; most after generation {row['unowned_generation']}",
        f"positions of {times(partitions, 'partitions')} were set by a tool or a process that is no member: records are read "
        "again, or skipped",
        "find who resets offsets (kafka-consumer-groups --reset-offsets, AdminClient, a second application with this group id)",
        n / 10,
        {"commits": n, "of": row["commits"] or 0, "partitions": partitions},
        row["unowned_generation"],
        row["last_commit"],
    )


def _unowned(row: Row) -> str:
    """The partitions with most commits without an owner, and the number of the others."""
    listed = [f"{one['topic']}-{one['partition']} ({grouped(one['commits'])})" for one in row["unowned_commits"] or ()]
    return and_more(listed, row["partitions_without_owner"] or 0, "partitions")
