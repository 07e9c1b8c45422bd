"""Figures of `group_report` on one group's steps: counts and extremes over rows of `rebalances`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from statistics import median
from typing import Any

from counterpoise.pipeline.records.place import POLLED

__all__ = ["STORM_WINDOW", "StepFigures"]

Row = Mapping[str, Any]
STORM_WINDOW = timedelta(seconds=60)
"""Rebalances of one storm are within this time."""
RETURN_WINDOW = timedelta(seconds=60)
"""A client id that rejoins within this time was restarted."""
_NAMED = 8
"""Maximal number of clients that are named, those with the largest counts."""
_COUNTED = ("failed_generations", "joins", "leaves", "restarts", "restart_rebalances", "moved")
_OF_STEP = (
    *("log_partition", "log_ts", "kind", "generation", "group_type", "protocol_type", "protocol", "protocol_kind", "complete"),
    *("n_members", "n_static", "n_idle", "n_partitions", "n_withheld", "joined", "assignment"),
)
"""The columns of a step that later steps and the summary read."""


class StepFigures:
    """Counts and extremes over the steps of one group. Its attributes are its state."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._members: set[int] = set()
        self._leaders: Counter[str] = Counter()
        self._left_at: dict[str, list[datetime]] = {}
        self._left_in: list[tuple[datetime, list[str]]] = []  # rebalances of restarts, and who left in them and is not back yet
        self._clients: dict[str, str] = {}
        self._latency: Counter[int] = Counter()
        self._slowest: tuple[int, int | None, str | None, datetime | None] = (-1, None, None, None)
        self._recent: list[tuple[datetime, tuple[str, ...]]] = []
        self._storm: tuple[int, datetime | None, float, tuple[str, ...]] = (0, None, 0.0, ())
        self._peaks = {"members_peak": 0, "idle_peak": 0}
        self._last: Row | None = None
        self._with_members: Row | None = None  # the last step with members, if it is not the last step
        self._first: Row | None = None
        self._failed: tuple[int | None, datetime | None] = (None, None)
        self._restarted: Counter[str] = Counter()
        self._leavers: Counter[str] = Counter()

    def add(self, step: Row) -> None:
        """Add the next step."""
        self._first = self._first or {name: step[name] for name in ("log_ts", "complete")}
        if step["kind"] != "cooperative_followup":
            self._add_peaks()
        if self._last is not None and self._last["n_members"]:
            self._with_members = self._last
        if step["n_members"]:
            self._with_members = None
        self._last = {name: step[name] for name in _OF_STEP}
        self._kinds[step["kind"]] += 1
        self._counts["failed_generations"] += step["missed_generations"] or 0
        if step["missed_generations"] and self._failed[0] is None:
            self._failed = step["generation"], step["log_ts"]
        self._counts["joins"] += len(step["joined"])
        self._counts["leaves"] += len(step["left"])
        self._counts["moved"] += step["n_moved"] or 0
        self._members.update(_hashed(member["member_id"]) for member in step["assignment"])
        names = {member["member_id"]: str(member["client_id"]) for member in step["assignment"]}
        self._count_restarts(step, names)
        if step["kind"] == "rebalance":
            self._causes[step["cause"]] += 1
            self._count_storm(step, names)
        if step["sync_latency_ms"] is not None:
            self._add_latency(step, names)

    def _add_peaks(self) -> None:
        step = self._last
        if step is None:
            return
        self._peaks["members_peak"] = max(self._peaks["members_peak"], step["n_members"] or 0)
        if not self._in_first_round(step):
            self._peaks["idle_peak"] = max(self._peaks["idle_peak"], step["n_idle"] or 0)

    @staticmethod
    def _in_first_round(step: Row) -> bool:
        """Whether a second round will assign what this one withheld: a new member without a partition is not idle yet."""
        return bool(step["joined"] and step["n_withheld"])

    def _count_restarts(self, step: Row, names: dict[str, str]) -> None:
        now, joined = step["log_ts"], Counter(names[member] for member in step["joined"] if member in names)
        left = Counter(self._clients.get(member, member) for member in step["left"])
        away = {client: [at for at in times if now - at <= RETURN_WINDOW] for client, times in self._left_at.items()}
        # Several members may have one client id: each that joins is the return of one that left.
        gone, came = left - joined, joined - left
        returned = [(client, away[client].pop(0)) for client in came.elements() if away.get(client)]
        back = {*step["restarted"], *(client for client, _ in returned)}
        self._counts["restarts"] += len(back)
        # If another member joins, or one leaves for good, the rebalance comes anyway: it counts when all that left are back.
        if step["kind"] == "rebalance" and len(returned) == came.total() and (joined or gone):
            self._left_in.append((now, sorted(gone.elements())))
        for at, clients in self._left_in:
            for client in (one for one, then in returned if then == at and one in clients):
                clients.remove(client)
        self._counts["restart_rebalances"] += sum(not clients for _, clients in self._left_in)
        self._left_in = [(at, clients) for at, clients in self._left_in if clients and now - at <= RETURN_WINDOW]
        self._restarted.update(back)
        self._leavers.update(self._clients[member] for member in step["left"] if member in self._clients)
        for client in gone.elements():
            away.setdefault(client, []).append(now)
        self._left_at, self._clients = {client: times for client, times in away.items() if times}, names or self._clients

    def _count_storm(self, step: Row, names: dict[str, str]) -> None:
        now = step["log_ts"]
        # Without those after `now`: the broker's clock was set back.
        self._recent = [one for one in self._recent if timedelta(0) <= now - one[0] <= STORM_WINDOW]
        self._recent.append((now, tuple(names[m] for m in step["joined"] if m in names)))
        if len(self._recent) > self._storm[0]:
            start = self._recent[0][0]
            clients = Counter(client for _, joined in self._recent for client in joined)
            self._storm = (len(self._recent), start, (now - start).total_seconds(), tuple(_most(clients)))

    def _add_latency(self, step: Row, names: dict[str, str]) -> None:
        self._latency[step["sync_latency_ms"]] += 1
        self._leaders[step["leader_library"] or "unknown"] += 1
        if step["sync_latency_ms"] > self._slowest[0]:
            self._slowest = (step["sync_latency_ms"], step["generation"], names.get(step["leader"]), step["log_ts"])

    def summary(self) -> dict[str, Any]:
        """Columns of `group_report`; empty if there was no step."""
        self._add_peaks()
        last, first = self._last, self._first
        if last is None or first is None:
            return {}
        alive = bool(last["n_members"])
        waiting = set(last["joined"]) if self._in_first_round(last) else set()
        without = [m for m in last["assignment"] if not any(entry["partitions"] for entry in m["assigned"])]
        idle = [str(m["client_id"]) for m in without if m["member_id"] not in waiting]
        known = self._with_members or last
        return {
            "group_type": self._type(last),
            "protocol_type": known["protocol_type"],
            "protocol": known["protocol"],
            "protocol_kind": known["protocol_kind"],
            "leader_libraries": sorted(self._leaders),
            "first_ts": first["log_ts"],
            "last_ts": last["log_ts"],
            "state": "deleted" if last["kind"] == "deleted" else "stable" if alive else "empty",
            "complete": bool(first["complete"]),
            "generations": self._kinds["rebalance"] + self._kinds["cooperative_followup"],
            "rebalances": self._kinds["rebalance"],
            "followups": self._kinds["cooperative_followup"],
            "static_replacements": self._kinds["static_replacement"],
            "emptied": self._kinds["emptied"],
            "deletions": self._kinds["deleted"],
            "causes": dict(sorted(self._causes.items())),
            **{name: self._counts[name] for name in _COUNTED},
            "storm_rebalances": self._storm[0],
            "storm_start": self._storm[1],
            "storm_seconds": self._storm[2],
            "storm_clients": list(self._storm[3]),
            "members_now": last["n_members"],
            **self._peaks,
            "static_now": last["n_static"],
            "distinct_members": len(self._members),
            "idle_now": None if last["n_idle"] is None else last["n_idle"] - (len(without) - len(idle)),
            "idle_clients": sorted(idle) if last["n_idle"] is not None else [],
            "partitions_now": last["n_partitions"],
            "topics": sorted({entry["topic"] for member in known["assignment"] for entry in member["assigned"]}),
            "sync_latency_ms_p50": float(median(self._latency.elements())) if self._latency else None,
            "sync_latency_ms_max": self._slowest[0] if self._latency else None,
            "sync_latency_generation": self._slowest[1],
            "slow_leader": self._slowest[2],
            "polled": last.get("log_partition") == POLLED,
            "generation_now": last["generation"],
            "failed_generation": self._failed[0],
            "restart_clients": _most(self._restarted),
            "leave_clients": _most(self._leavers),
            "busiest_clients": _busiest(known["assignment"]),
            "sync_latency_ts": self._slowest[3],
            "failed_ts": self._failed[1],
        }

    def _type(self, last: Row) -> str | None:
        """The type of the group; None: only a tombstone is known, which may be of a classic group or one that only commits."""
        if last["group_type"] == "classic" and set(self._kinds) == {"deleted"}:
            return None
        return "connect" if last["protocol_type"] == "connect" else str(last["group_type"])


@lru_cache(maxsize=1 << 14)
def _hashed(member: str) -> int:
    """Eight bytes for a member id: a group may have had a million members, which are only counted."""
    return int.from_bytes(blake2b(member.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def _busiest(assignment: Sequence[Row]) -> list[str]:
    """The clients of the members with most partitions."""
    loads = {member["member_id"]: sum(len(entry["partitions"]) for entry in member["assigned"]) for member in assignment}
    most = max(loads.values(), default=0)
    return sorted(str(m["client_id"]) for m in assignment if most and loads[m["member_id"]] == most)[:_NAMED]


def _most(clients: Counter[str]) -> list[str]:
    return sorted(clients, key=lambda client: (-clients[client], client))[:_NAMED]
