"""The fold of a group whose assignor is the broker (KIP-848, share, streams): records in log order to steps of `rebalances`.

A rebalance is a new epoch of the target assignment; it is settled when every member has reached that epoch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from counterpoise.pipeline.history.causes import Difference, changes_of, difference, identity, joined_text
from counterpoise.pipeline.history.protocol_fold import Owners, ProtocolFold, assignment_columns, count_moves, fitted, owners_of
from counterpoise.pipeline.records.place import POLLED

__all__ = ["GROUP_RECORDS", "NAMES", "ROLES", "ModernFold", "subscribed_throughout", "subscriptions", "unknown_ids"]

Row = Mapping[str, Any]
NAMES = -1
"""Record type of the first row of a group: topic id -> name, as JSON."""

ROLES: Mapping[int, tuple[str, str]] = {
    3: ("consumer", "epoch"),
    4: ("consumer", "topics"),
    5: ("consumer", "member"),
    6: ("consumer", "target_epoch"),
    7: ("consumer", "target"),
    8: ("consumer", "current"),
    10: ("share", "member"),
    11: ("share", "epoch"),
    12: ("share", "target_epoch"),
    13: ("share", "target"),
    14: ("share", "current"),
    15: ("share", "topics"),
    16: ("consumer", "regex"),
    17: ("streams", "epoch"),
    19: ("streams", "member"),
    20: ("streams", "target_epoch"),
    21: ("streams", "target"),
    22: ("streams", "current"),
}
"""Record type -> group type, and what the fold does with the record; others are left out."""
GROUP_RECORDS = tuple(kind for kind, (_, role) in ROLES.items() if role == "epoch")
"""Types of records whose tombstone deletes a group."""
_STABLE = {"consumer": 0, "share": 0, "streams": 1}


class ModernFold(ProtocolFold):
    """The fold of a modern group: members, targets, and the step that is not settled yet."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        self.unfinished: dict[str, Any] | None = None  # the step that is not settled yet
        self.unnamed: set[str] = set()  # topic ids without a known name: steps have the id instead

    def _reset(self) -> None:
        super()._reset()
        self._type = "consumer"
        self._epoch: int | None = None
        self._from_start = False  # one of the group's first two epochs is recorded
        self._members: dict[str, dict[str, Any]] = {}
        self._targets: dict[str, list[dict[str, Any]]] = {}
        self._target_ids: dict[str, list[str]] = {}
        self._ids_of_topic: dict[str, list[str]] = {}
        self._reached: dict[str, int] = {}
        self._regex: dict[str, list[str]] = {}
        self._matched: dict[str, list[str]] = {}
        self._target_epoch: int | None = None
        self._older_records_missing = False  # and the last target is the first one
        self._left: list[str] = []

    def inherit(self, before: Mapping[str, Any], generation: int | None, incarnation: int) -> None:
        """Continue after `generation` of the classic protocol."""
        super().inherit(before, generation, incarnation)
        self._target_epoch = generation

    def feed(self, row: Row) -> list[dict[str, Any]]:
        """The steps that a record finishes, with their ``log_*`` columns.

        `row` is a row of `modern_group_records`; its `value`, if it has one, is used instead of `payload`.
        """
        kind = int(row["record_type"])
        value = row["value"] if "value" in row else json.loads(row["payload"]) if row["payload"] else {}
        if kind == NAMES:
            self._names.update(value)
            return []
        group_type, role = ROLES[kind]
        if self._ended and not row["deleted"]:
            self.incarnation += 1
            self._ended = False
        if role == "epoch" and row["deleted"]:
            return self._deleted(row)
        self._type = group_type
        if role == "target_epoch":
            return [] if row["deleted"] else self._new_target(row, value)
        finished: list[dict[str, Any]] = getattr(self, f"_on_{role}")(row, value) or []
        if role == "epoch" and self._before and not self._members:
            # The last member has left. No target follows until a member joins.
            return self._new_target(row, {"assignment_epoch": value["epoch"]})
        return [*finished, *self._late_member(row)]

    def close(self) -> list[dict[str, Any]]:
        """Remove and return the step that is not settled."""
        step, self.unfinished = self.unfinished, None
        return [] if step is None else [step]

    def _on_epoch(self, _row: Row, value: Any) -> None:
        self._epoch = value["epoch"]
        self._from_start |= value["epoch"] <= 2

    def _on_topics(self, _row: Row, value: Any) -> None:
        for field in ("topics", "initializing_topics", "initialized_topics"):
            self._names.update({topic["topic_id"]: topic["topic_name"] for topic in value.get(field, ())})

    def _on_regex(self, row: Row, value: Any) -> None:
        if row["deleted"]:
            self._regex.pop(value["regex"], None)
        else:
            self._regex[value["regex"]] = value["topics"]

    def _on_member(self, row: Row, value: Any) -> None:
        if row["deleted"]:
            member = self._members.pop(row["member_id"], None)
            if member is not None and member["group_instance_id"] is None:
                self._left.append(row["member_id"])
            self._reached.pop(row["member_id"], None)
            return
        if self._inherited and not self._before and not self._members and not value.get("classic_member_metadata"):
            # The classic group was empty: the broker has made a new one, whose epochs begin again.
            self._inherited, self._target_epoch = False, None
            self.incarnation += 1
        named, pattern = list(value.get("subscribed_topic_names", ())), value.get("subscribed_topic_regex")
        # The topics that match a pattern are in later records, and change without the member: the pattern itself is compared.
        self._members[row["member_id"]] = {
            "member_id": row["member_id"],
            "group_instance_id": value.get("instance_id"),
            "client_id": value["client_id"],
            "topics": sorted({*named, *([f"pattern {pattern}"] if pattern else ())}),
            "named": named,
            "pattern": pattern or None,
            "assignor": value.get("server_assignor"),
        }

    def _on_target(self, row: Row, value: Any) -> None:
        if row["deleted"]:
            self._targets.pop(row["member_id"], None)
            self._target_ids.pop(row["member_id"], None)
            return
        target = value.get("topic_partitions", value.get("active_tasks", ()))
        self._targets[row["member_id"]] = [{"topic": self._name(entry), "partitions": entry["partitions"]} for entry in target]
        self._target_ids[row["member_id"]] = [entry["topic_id"] for entry in target if entry.get("topic_id")]

    def _on_current(self, row: Row, value: Any) -> list[dict[str, Any]]:
        if row["deleted"]:
            self._reached.pop(row["member_id"], None)
            return []
        if value["state"] == _STABLE[self._type]:
            self._reached[row["member_id"]] = value["member_epoch"]
        if row["member_id"] in self._members:  # to the end: the search below meets one that has not reached the epoch first
            self._members[row["member_id"]] = self._members.pop(row["member_id"])
        step = self.unfinished
        if step is None or any(self._reached.get(member, -1) < step["generation"] for member in self._members):
            return []
        # No later record changes a settled step: it is final now, not at the next epoch.
        step["settle_ms"] = max(0, (row["log_ts"] - step["log_ts"]) // timedelta(milliseconds=1))
        return self.close()

    def _name(self, entry: Mapping[str, Any]) -> str:
        topic_id: str | None = entry.get("topic_id")
        if topic_id is None:
            return str(entry.get("subtopology_id"))
        if topic_id not in self._names:
            self.unnamed.add(topic_id)
        return self._names.get(topic_id, topic_id)

    def _new_target(self, row: Row, value: Any) -> list[dict[str, Any]]:
        epoch = int(value["assignment_epoch"])
        members, names, now = self._assigned()
        if not members and not self._before and epoch == self._target_epoch:
            return []  # The record of the group's epoch was this step already.
        if self._inherited:  # partitions of a member that left have no owner in this target, but they exist
            sizes = {topic: max(len(array), len(now.get(topic, ()))) for topic, array in self._owners.items()}
            now |= {topic: fitted(now.get(topic, ()), size) for topic, size in sizes.items()}
        finished = self.close()
        sizes_before, sizes_now = ({topic: len(array) for topic, array in one.items()} for one in (self._owners, now))
        in_both = subscribed_throughout((self._before, self._matched), (members, self._regex))
        unknown = self._type == "streams" and self._before and members  # streams members have no subscription
        if in_both is not None and not unknown:
            compared = in_both.union(self.unnamed)
            sizes_before, sizes_now = ({t: n for t, n in sizes.items() if t in compared} for sizes in (sizes_before, sizes_now))
        recreated = self._recreated()
        protocols = _assignor(self._before), _assignor(members)
        why = difference(self._before, members, sizes_before, sizes_now, protocols, self._left)
        self._left = []
        if why.cause == "partition_count" and not (self._before and members):
            why = Difference()
        if self._inherited and why.cause in ("unknown", "partition_count"):
            why = replace(why, cause="protocol")
        self._inherited = False
        # Topics were recreated, created or deleted; the assignment of partitions of new ones is another step.
        if words := [*([f"recreated: {', '.join(recreated)}"] if recreated else []), *self._newly_matched()]:
            cause = "partition_count" if why.cause == "unknown" else why.cause
            why = replace(why, cause=cause, detail=joined_text(why.detail, *words))
        before = {topic: array for topic, array in self._owners.items() if topic not in recreated}
        # Members of a share group share partitions: none has one owner.
        moved, kept = (None, None) if self._type == "share" else count_moves(before, now, self._present(names))
        self._logical += 1
        step = self._step(row, "rebalance" if members else "emptied", why)
        step |= {"generation": epoch, "n_moved": moved, "n_kept": kept, "logical_rebalance": self._logical}
        step["recreated"] = recreated
        # An epoch without its own target has not failed: this target includes its changes.
        step["missed_generations"] = 0
        step["complete"] = not row.get("after_gap") and (self._target_epoch is not None or self._from_start or epoch <= 2)
        self._older_records_missing = not step["complete"]
        if row.get("log_partition") == POLLED or row.get("after_gap"):
            step |= {"complete": False, "missed_generations": None}
        elif self._target_epoch is not None and epoch > self._target_epoch + 1:
            step["detail"] = joined_text(step["detail"], f"epochs {self._target_epoch + 1} to {epoch} at once")
        self._add_assignment(step, members)
        self.unfinished = step
        self._before, self._owners, self._target_epoch = members, now, epoch
        return finished if members else [*finished, *self.close()]  # the step of an empty group is settled

    def _assigned(self) -> tuple[list[dict[str, Any]], list[str], Owners]:
        """The members, their identities, and the owners of partitions by their targets."""
        members = [self._members[name] for name in sorted(self._members)]
        names = list(map(identity, members))
        code = self._update_codes(names)
        held = ((code[name], self._targets.get(m["member_id"], ())) for name, m in zip(names, members, strict=True))
        return members, names, owners_of(held)

    def _late_member(self, row: Row) -> list[dict[str, Any]]:
        """The step of a member of the first target whose older records were compacted away: these are newer than the target.

        The broker writes a member again without a new epoch if its host changes, or if it is static and rejoins.
        """
        name = row["member_id"]
        is_late = (
            self._older_records_missing and name in self._members and self._reached.get(name) == self._target_epoch == self._epoch
        )
        if not is_late or any(one["member_id"] == name for one in self._before):
            return []
        before, (self._before, _, self._owners) = self._before, self._assigned()
        why = difference(before, self._before, {}, {}, (None, None))
        why = replace(why, detail=joined_text(why.detail, f"{self._members[name]['client_id']} was recorded after the target"))
        step = self._step(row, "static_replacement", why) | {"generation": self._target_epoch, "complete": False}
        self._add_assignment(step, self._before)
        return [*self.close(), step]

    def _recreated(self) -> list[str]:
        """Topics whose name has another id than in the last target with any of its partitions."""
        now: dict[str, set[str]] = {}
        for one in {one for ids in self._target_ids.values() for one in ids}:
            now.setdefault(self._names.get(one, one), set()).add(one)
        known = self._ids_of_topic
        recreated = sorted(topic for topic, ids in now.items() if topic in known and ids.isdisjoint(known[topic]))
        self._ids_of_topic = known | {topic: sorted(ids) for topic, ids in now.items()}
        return recreated

    def _newly_matched(self) -> list[str]:
        """One text per pattern that matches other topics than at the last target."""
        words = []
        for pattern, topics in sorted(self._regex.items()):
            if changed := changes_of(self._matched.get(pattern, topics), topics):
                words.append(f"pattern {pattern} matches {changed}")
        self._matched = dict(self._regex)
        return words

    def _deleted(self, row: Row) -> list[dict[str, Any]]:
        finished = self.close()
        why = Difference(left=sorted(self._members), detail="the group was deleted or expired")
        step = self._step(row, "deleted", why)
        step |= {"generation": self._epoch, "complete": self._epoch is not None and not row.get("after_gap")}
        self._reset()
        self._ended = True
        return [*finished, step]

    def _step(self, row: Row, kind: str, why: Difference) -> dict[str, Any]:
        return {
            **{name: row[name] for name in ("log_partition", "log_offset", "log_ts")},
            **self._columns(self._type, kind, why),
            "protocol_type": self._type,
            "protocol": None,
            "protocol_kind": "server",
            "subscriptions": None,
            "settle_ms": None,
            "recreated": [],
        }

    def _add_assignment(self, step: dict[str, Any], members: Sequence[Row]) -> None:
        held = {member["member_id"]: self._targets.get(member["member_id"], []) for member in members}
        if self._type == "consumer" and (ids := unknown_ids(held, self.unnamed)):
            unknown = f"not compared with strategies: no name is known of topic {', '.join(ids)}"
            step["detail"] = joined_text(step["detail"], unknown)
        step |= assignment_columns(members, list(held.values()))
        step["protocol"] = _assignor(members)
        if self._type == "consumer":
            step["subscriptions"] = subscriptions(members, held, self._regex, self.unnamed)


def _assignor(members: Sequence[Row]) -> str | None:
    """The assignor that most members request; None: no member requests one, so the broker uses its default."""
    requested = Counter(member["assignor"] for member in members if member.get("assignor"))
    return min(requested, key=lambda name: (-requested[name], name), default=None)


Held = Mapping[str, Sequence[Row]]
"""Member id -> ``topic, partitions`` of its target."""
_Subscribed: TypeAlias = tuple[Sequence[Row], Mapping[str, Sequence[str]]]


def subscriptions(
    members: Sequence[Row], held: Held, matched: Mapping[str, Sequence[str]], unnamed: Set[str]
) -> list[dict[str, Any]] | None:
    """Member id, instance id and topics of each member; None: a topic id has no known name.

    Members have ``member_id, group_instance_id, named, pattern``. `matched`: pattern -> matching topics, as the broker resolved
    it (record type 16). `unnamed` are topic ids without a known name.
    """
    if unknown_ids(held, unnamed):
        return None
    own = {member["member_id"]: {entry["topic"] for entry in held[member["member_id"]]} for member in members}
    matches: dict[str, set[str]] = {}
    for member in members:
        if member["pattern"] is not None:
            # A member owns only topics of its subscription. So its target shows matches whose record was compacted away.
            topics = matches.setdefault(member["pattern"], set(matched.get(member["pattern"], ())))
            topics |= own[member["member_id"]] - set(member["named"])
    rows = []
    for member in members:
        topics = {*member["named"], *matches.get(member["pattern"], ()), *own[member["member_id"]]}
        about = {"member_id": member["member_id"], "group_instance_id": member["group_instance_id"]}
        rows.append({**about, "topics": sorted(topics)})
    return rows


def subscribed_throughout(before: _Subscribed, now: _Subscribed) -> set[str] | None:
    """The topics to which the group is subscribed in both of two epochs; sizes of other topics cannot be compared.

    `before`, `now`: (members, pattern -> matching topics). Members have ``named, pattern``; classic ones have ``topics``. Returns
    None if a pattern's topics are unknown.
    """
    matched: dict[str, set[str]] = {}
    for _, matches in (before, now):
        for pattern, topics in matches.items():
            matched.setdefault(pattern, set()).update(topics)
    both = []
    for members, _ in (before, now):
        patterns = {member["pattern"] for member in members if member.get("pattern") is not None}
        if not patterns <= matched.keys():
            return None
        named = {topic for member in members for topic in member.get("named", member.get("topics")) or ()}
        both.append(named.union(*(matched[pattern] for pattern in patterns)))
    return both[0] & both[1]


def unknown_ids(held: Held, unnamed: Set[str]) -> list[str]:
    """The topic ids of the target that are in `unnamed`, sorted."""
    return sorted({entry["topic"] for entries in held.values() for entry in entries} & unnamed)
