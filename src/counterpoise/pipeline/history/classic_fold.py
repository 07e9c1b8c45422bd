"""The fold of a classic group: GroupMetadata records in log order to steps of table `rebalances`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from counterpoise.pipeline.history.causes import Difference, by_identity, changed_subscriptions, difference, identity, joined_text
from counterpoise.pipeline.history.protocol_fold import (
    ProtocolFold,
    assignment_columns,
    count_moves,
    count_revoked,
    owners_of,
    with_withheld,
)
from counterpoise.pipeline.records.place import POLLED

__all__ = ["ClassicFold", "protocol_kind"]

Row = Mapping[str, Any]


class ClassicFold(ProtocolFold):
    """The fold of a classic group: each row of `group_generations` is a step.

    Steps have no columns for cluster, group and place in the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._complete = False

    def _reset(self) -> None:
        super()._reset()
        self._generation: int | None = None
        self._protocol: str | None = None
        self._protocol_type: str | None = None
        self._revoking = 0
        self._cause = Difference()
        self._left_at_downgrade = False
        self._sizes: dict[str, int] = {}

    def inherit(self, before: Mapping[str, Any], generation: int | None, incarnation: int) -> None:
        """Continue a downgraded group after the epoch `generation`, which its first classic record repeats as its generation.

        `generation` None: that epoch is not known for certain, because steps before are missing.
        """
        super().inherit(before, generation, incarnation)
        self._sizes = {topic: len(array) for topic, array in self._owners.items()}
        self._complete = generation is not None
        self._generation = None if generation is None else generation - 1

    def feed(self, row: Row) -> dict[str, Any]:
        """The step of a record, a row of `group_generations` with nested values as lists and dicts."""
        if row["deleted"]:
            return self._deleted(row)
        generation = int(row["generation"])
        self._begin(generation)
        if not row["members"]:
            step = self._without_members(row)
        elif generation == self._generation and self._before:
            step = self._replaced(row)
        else:
            step = self._rebalanced(row)
        # Brokers of Kafka 4 begin a group with generation 0, without members; older ones with generation 1, with members.
        step["complete"] = self._complete or generation <= 1
        if row.get("log_partition") == POLLED or row.get("after_gap"):
            step |= {"complete": False, "missed_generations": None}
        self._complete = True
        self._generation = generation
        self._before = list(row["members"])
        self._protocol_type = row["protocol_type"]
        return step

    def _begin(self, generation: int) -> None:
        behind = self._generation is not None and generation < self._generation
        if self._ended or behind:
            self.incarnation += 1
            self._reset()
            self._complete = self._ended and generation == 0
            self._ended = False

    def _deleted(self, row: Row) -> dict[str, Any]:
        left = sorted(member["member_id"] for member in self._before)
        step = {
            **self._columns("classic", "deleted", Difference(left=left, detail="the group was deleted or expired")),
            "generation": self._generation,
            "protocol_type": self._protocol_type,
            "complete": self._complete and not row.get("after_gap"),
        }
        self._ended = True
        self._reset()
        return step

    def _without_members(self, row: Row) -> dict[str, Any]:
        generation = int(row["generation"])
        about = {"generation": generation, "protocol_type": row["protocol_type"]}
        if generation == 0 and self._generation is None:
            return self._columns("classic", "created", Difference("join", detail="the group is new")) | about
        why = replace(difference(self._before, [], {}, {}, (None, None)), cause="leave")
        self._owners, self._codes, self._revoking = {}, {}, 0
        return {**self._columns("classic", "emptied", why), **about, "missed_generations": self._missed(generation)}

    def _replaced(self, row: Row) -> dict[str, Any]:
        was = {member["member_id"] for member in self._before}
        now = {member["member_id"] for member in row["members"]}
        instances = sorted(m["group_instance_id"] for m in row["members"] if m["member_id"] not in was and m["group_instance_id"])
        words = f"static member back: {', '.join(instances)}" if instances else "the same generation was written again"
        words = joined_text(words, *changed_subscriptions(by_identity(self._before), by_identity(row["members"])))
        why = Difference("join_leave", sorted(now - was), sorted(was - now), detail=words)
        return self._step(row, "static_replacement", why)

    def _rebalanced(self, row: Row) -> dict[str, Any]:
        members = row["members"]
        names = list(map(identity, members))
        code = self._update_codes(names)
        number = [code[name] for name in names]
        now = owners_of((at, member["assigned"] or ()) for at, member in zip(number, members, strict=True))
        claimed = owners_of((at, member["owned"] or ()) for at, member in zip(number, members, strict=True))
        subscribed = {topic for member in members for topic in member["topics"] or ()}
        known = self._sizes
        held = {topic: array for topic, array in claimed.items() if topic in subscribed and len(array) <= known.get(topic, 0)}
        sizes = {topic: max(len(now.get(topic, ())), len(held.get(topic, ()))) for topic in held | now}
        if self._inherited:  # partitions of a member that left have no owner in this record, but they exist
            sizes |= {topic: max(n, sizes.get(topic, 0)) for topic, n in known.items() if topic in subscribed}
        both = subscribed & {topic for member in self._before for topic in member["topics"] or ()}
        was, is_now = ({topic: n for topic, n in of.items() if topic in both} for of in (known, sizes))
        protocols = (self._protocol, row["protocol"]) if self._before else (None, None)
        why = difference(self._before, members, was, is_now, protocols)
        if self._inherited and why.cause in ("unknown", "partition_count"):
            why = replace(why, cause="protocol")
        if self._left_at_downgrade and why.cause == "unknown":
            why = replace(why, cause="leave", detail="what the member had that left when the group was downgraded is handed out")
        self._inherited, self._left_at_downgrade = False, self._inherited and why.cause == "leave"
        followup = bool(self._revoking) and not why.joined and not why.left and why.cause in ("unknown", "partition_count")
        if followup:
            why = Difference(self._cause.cause, detail="second round: what was revoked is handed out")
        else:
            self._logical += 1
            self._cause = why
        step = self._step(row, "cooperative_followup" if followup else "rebalance", why)
        moved, kept = count_moves(self._owners, now, self._present(names))
        step |= {"n_moved": moved, "n_kept": kept, "missed_generations": self._missed(int(row["generation"]))}
        latency = _latency(row)
        step["sync_latency_ms"] = None if latency is not None and self._may_be_rewrite(row, latency) else latency
        step["logical_rebalance"] = self._logical
        self._revoking = step["n_withheld"] = count_revoked(claimed, now)
        # If a recording begins with a first round, only claims say who holds what the round withholds.
        self._owners = with_withheld(self._owners or claimed, now) if self._revoking else now
        self._sizes, self._protocol = sizes, row["protocol"]
        return step

    def _may_be_rewrite(self, row: Row, latency: int) -> bool:
        """Whether the record may be one written again for a static member that came back, with the time of the first record.

        It may if that first record is not known, and `session.timeout.ms` has passed since its time.
        """
        sessions = [member["session_timeout_ms"] or 0 for member in row["members"] if member["group_instance_id"]]
        unknown = self._generation is None and int(row["generation"]) > 1
        return (unknown or bool(row.get("after_gap"))) and latency > min(sessions, default=latency)

    def _missed(self, generation: int) -> int | None:
        if self._generation is None or self._generation < 0:  # negative: a damaged record
            return 0 if generation <= 1 else None
        return max(generation - self._generation - 1, 0)  # the same one may be written again

    def _step(self, row: Row, kind: str, why: Difference) -> dict[str, Any]:
        columns = assignment_columns(row["members"], [member["assigned"] or [] for member in row["members"]])
        if row["protocol_type"] != "consumer":
            columns |= {"n_idle": None, "n_partitions": None}
        return {
            **self._columns("classic", kind, why),
            **columns,
            "generation": int(row["generation"]),
            "protocol_type": row["protocol_type"],
            "protocol": row["protocol"],
            "protocol_kind": protocol_kind(row),
            "leader": row["leader"],
            "leader_library": row["leader_library"],
        }


def protocol_kind(row: Row) -> str:
    """eager or cooperative: by the protocol's name, and by whether a member owned partitions when it joined."""
    name = row["protocol"] or ""
    if row["protocol_type"] == "connect":
        return "eager" if name == "default" else "cooperative"
    if "cooperative" in name or name == "stream" or any(member["owned"] for member in row["members"]):
        return "cooperative"
    return "eager"


def _latency(row: Row) -> int | None:
    if row["state_ts"] is None or row["log_ts"] is None:
        return None
    gap: timedelta = row["log_ts"] - row["state_ts"]
    return max(0, gap // timedelta(milliseconds=1))
