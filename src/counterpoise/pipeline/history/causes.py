"""The cause of a generation: the difference between its members and topics and those of the previous one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Difference", "by_identity", "changed_subscriptions", "changes_of", "difference", "identity", "joined_text"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """The difference between two generations."""

    cause: str = "unknown"  # join, leave, join_leave, subscription, partition_count, protocol or unknown
    # Member ids; a static member that rejoined under a new id is in neither
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)  # Client ids of members in both lists: processes that were restarted
    detail: str = ""  # The difference as a text


def identity(member: Row) -> str:
    """The identity of a member across rejoins: its instance id if it is static, else its member id."""
    instance = member.get("group_instance_id")
    return f"static {instance}" if instance else str(member["member_id"])


def joined_text(*parts: str) -> str:
    """The parts that are not empty, as one text."""
    return "; ".join(filter(None, parts))


def difference(
    before: Sequence[Row],
    now: Sequence[Row],
    sizes_before: Mapping[str, int],
    sizes_now: Mapping[str, int],
    protocols: tuple[Any, Any],
    back: Collection[str] = (),
) -> Difference:
    """Compare two generations of one group.

    Member rows have ``member_id, group_instance_id, client_id, topics``. `sizes_before` and `sizes_now` are known partition
    counts by topic; `protocols` are the protocol names before and now, None: unknown. Members in `back` left and rejoined in
    between under the same id: they count as joined and as left.
    """
    was, is_now = by_identity(before), by_identity(now)
    joined = [member for key, member in is_now.items() if key not in was or member["member_id"] in back]
    left = [member for key, member in was.items() if key not in is_now or member["member_id"] in back]
    clients_left = {member.get("client_id") for member in left}
    restarted = sorted({str(member["client_id"]) for member in joined if member.get("client_id") in clients_left})
    subscribed, grown = changed_subscriptions(was, is_now), _grown(sizes_before, sizes_now)
    changed = [f"protocol {protocols[0]} -> {protocols[1]}"] if None not in protocols and protocols[0] != protocols[1] else []
    kinds = {"join_leave": joined and left, "join": joined, "leave": left, "subscription": subscribed}
    kinds |= {"partition_count": grown, "protocol": changed}
    cause = next((kind for kind, shown in kinds.items() if shown), "unknown")
    names = {"joined": _names(joined), "left": _names(left), "restarted": ", ".join(restarted)}
    detail = joined_text(*(f"{what}: {who}" for what, who in names.items() if who), *subscribed, *grown, *changed)
    return Difference(cause, sorted(m["member_id"] for m in joined), sorted(m["member_id"] for m in left), restarted, detail)


def by_identity(members: Iterable[Row]) -> dict[str, Row]:
    """`identity` -> the member."""
    return {identity(member): member for member in members}


def changed_subscriptions(before: Mapping[str, Row], now: Mapping[str, Row]) -> list[str]:
    """One text per member of both generations, given as `by_identity`, that changed its subscription."""
    words = []
    for key, member in now.items():
        old, new = before.get(key, member).get("topics") or (), member.get("topics") or ()
        if old != new and (changed := changes_of(old, new)):
            words.append(f"{member.get('client_id') or member['member_id']} subscription {changed}")
    return words


def changes_of(before: Iterable[str], now: Iterable[str]) -> str:
    """The names that came, ``+new``, and those that went, ``-old``; empty: none."""
    old, new = set(before), set(now)
    return " ".join([*(f"+{name}" for name in sorted(new - old)), *(f"-{name}" for name in sorted(old - new))])


def _grown(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    topics = sorted(before.keys() | now.keys())
    return [
        f"{topic} {before.get(topic, 0)} -> {now.get(topic, 0)} partitions"
        for topic in topics
        if before.get(topic, 0) != now.get(topic, 0)
    ]


def _names(members: list[Row]) -> str:
    listed = sorted(str(member.get("client_id") or member["member_id"]) for member in members)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
