"""What was done to the recorded cluster and what its clients saw, as claims on the steps of the audit: who, when, kind and cause.

Everything here is read from ``truth.jsonl`` (and the settings it holds); nothing from the audit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

QUICK_MS = 12_000
"""Until a start or a stop shows: a join waits for all members, who look in at every poll."""
SESSION_MS, POLL_MS = 10_000, 60_000
"""Where a member was given no settings of its own (the broker of the recording gives KIP-848 members 10 s)."""
SLACK_MS = 5_000
STREAMS_MS = 120_000
"""Streams and Connect: members of a closed instance stay until their session runs out; the broker's restart prolonged one."""
METADATA_MS = 12_000
"""Until all clients of the recording have asked for new metadata."""
UNTRACED = {
    "start_member by hand": "a consumer that assigns by hand is no member",
    "stall_begin": "a member that polls too late leaves only when max.poll.interval is over",
    "speed": "how fast a member works shows in its lag only",
    "broker_started": "the log does not hold its broker's life",
    "broker_stopped": "the log does not hold its broker's life",
    "settled": "a remark of the driver",
    "hosts_frozen": "processes that were halted while the broker was away",
    "hosts_resumed": "processes that were halted while the broker was away",
    "end": "a remark of the driver",
    "client_start": "only joining shows, see start_member",
    "client_closing": "only leaving shows, see stop_member",
    "client_closed": "only leaving shows, see stop_member",
    "commit_error": "a commit that was refused is not written",
    "streams_state": "a state inside the client",
    "txn_error": "a transaction that could not be ended: its commits stay pending, or are aborted later",
    "txn_error2": "a transaction that could not be ended: its commits stay pending, or are aborted later",
}
"""Events without a trace in the offsets topic, and why; docs/not-recorded.md says it in words."""


@dataclass(frozen=True)
class Claim:
    """One event, and the step that must tell of it."""

    event: str
    group: str
    since: int
    until: int
    kind: str
    cause: str
    client: str | None = None
    side: str = ""
    word: str = ""
    """What stands in the step's detail."""


@dataclass
class Life:
    """One start of a member to its end."""

    client: str
    since: int
    detail: Event
    until: int = 2**62
    end: Event = field(default_factory=dict)

    def setting(self, name: str, otherwise: int) -> int:
        return int((self.detail.get("props") or {}).get(name, otherwise))

    @property
    def instance(self) -> str | None:
        return (self.detail.get("props") or {}).get("group.instance.id")


def read_events(path: Path) -> list[Event]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def begun(event: Event) -> int:
    """When the driver began: it writes an event down when the action is over, which took a start up to 8 s."""
    detail = event["detail"] if isinstance(event["detail"], dict) else {}
    return int(detail.get("begin_ms", event["ts_ms"] - (8_000 if event["event"] == "start_member" else 500)))


def lives_of(events: Sequence[Event]) -> dict[str, list[Life]]:
    """Group -> its members' lives; without those that assign by hand."""
    lives: dict[str, list[Life]] = defaultdict(list)
    for event in events:
        if event["src"] != "driver":
            continue
        if event["event"] == "start_member" and "assign" not in event["detail"]:
            lives[event["group"]].append(Life(event["detail"]["client"], event["ts_ms"], event["detail"]))
        elif event["event"] in ("stop_member", "crash"):
            (life,) = [one for one in lives[event["group"]] if one.client == event["detail"]["client"] and not one.end]
            life.until, life.end = event["ts_ms"], event
    return lives


def claims_of(events: Sequence[Event]) -> list[Claim]:
    """Every event that leaves a step in a group's life."""
    lives = lives_of(events)
    found = [claim for group, held in lives.items() for claim in _of_members(group, held)]
    found += _of_clients(events, lives)
    found += _of_topics(events, lives)
    found += [
        Claim("delete_group", e["group"], begun(e) - 50, e["ts_ms"] + 50, "deleted", "unknown")
        for e in events
        if e["event"] == "delete_group"
    ]
    return sorted(found, key=lambda claim: claim.since)


def _of_members(group: str, held: Sequence[Life]) -> Iterable[Claim]:
    for life in held:
        slow = life.detail["lib"] in ("kafka-streams", "kafka-connect")
        started = life.since - 8_000
        earlier = [one for one in held if one.client == life.client and one.until < life.since]
        session = life.setting("session.timeout.ms", SESSION_MS)
        if not any(one.since < life.since for one in held) and not _modern(life):
            yield Claim("start_member (the first)", group, started, life.since + QUICK_MS, "created", "join")
        if life.detail.get("share") and life is held[0]:
            topics = (group, started, life.since + QUICK_MS, "rebalance", "partition_count")
            yield Claim("start_member (share partitions set up)", *topics, word=f"{life.detail['topics'][0]} 0 -> ")
        if life.instance and earlier and life.since - earlier[-1].until < session:
            both = (group, earlier[-1].until, life.since + QUICK_MS, "static_replacement", "join_leave", life.client)
            yield Claim("start_member", *both, "joined")
            yield Claim("stop_member", *both, "left")
        else:
            yield Claim("start_member", group, started, life.since + QUICK_MS, "rebalance", "join", life.client, "joined")
        if not life.end or (
            life.instance and any(0 < one.since - life.until < session for one in held if one.client == life.client)
        ):
            continue
        last = all(one is life or one.until < life.until or one.since > life.until for one in held)
        wait = STREAMS_MS if slow else session + SLACK_MS if life.instance or life.end["event"] == "crash" else QUICK_MS
        about = ("emptied" if last else "rebalance", "leave", life.client, "left")
        yield Claim(life.end["event"], group, life.until - 500, life.until + wait, *about)


def _modern(life: Life) -> bool:
    """Whether the broker assigns: such groups have no record of their birth beside their first epoch."""
    props = life.detail.get("props") or {}
    return props.get("group.protocol") == "consumer" or bool(life.detail.get("share"))


def _of_clients(events: Sequence[Event], lives: dict[str, list[Life]]) -> Iterable[Claim]:
    away = next(e["ts_ms"] for e in events if e["event"] == "broker_stop")
    back = next(e["ts_ms"] for e in events if e["event"] == "settled")
    left: set[tuple[str, str]] = set()
    for event in events:
        group, client, at = event["group"], event.get("client"), event["ts_ms"]
        who = (event["detail"] or {}).get("client") if event["src"] == "driver" and isinstance(event["detail"], dict) else client
        if event["event"] == "stall" and event["src"] == "driver":
            (life,) = [one for one in lives[group] if one.client == who]
            wait = life.setting("max.poll.interval.ms", POLL_MS) + SLACK_MS
            yield Claim("stall", group, at, at + wait, "rebalance", "leave", who, "left")
        elif event["event"] == "stall_end":
            yield Claim("stall_end", group, at, at + SLACK_MS, "rebalance", "join", who, "joined")
        elif event["event"] == "unsubscribe" and event["src"] == "driver":
            left.add((group, str(who)))
            yield Claim("unsubscribe", group, at - 500, at + SESSION_MS + SLACK_MS, "rebalance", "leave", who, "left")
        elif event["event"] == "subscribe" and event["src"] == "driver":
            if (group, str(who)) in left:
                yield Claim("subscribe", group, at - 500, at + QUICK_MS, "rebalance", "join", who, "joined")
            else:
                yield Claim(
                    "subscribe", group, at - 500, at + QUICK_MS, "rebalance", "subscription", word=f"{who} subscription +"
                )
        elif event["event"] == "enforce":
            yield Claim("enforce", group, at - 500, at + QUICK_MS, "rebalance", "unknown")
        elif event["event"] == "lost" and away <= at <= back:
            for side in ("joined", "left"):
                yield Claim(f"broker away, member lost all ({side})", group, away, back, "rebalance", "join_leave", client, side)


def _of_topics(events: Sequence[Event], lives: dict[str, list[Life]]) -> Iterable[Claim]:
    for event in events:
        if event["event"] not in ("grow", "create_topics", "delete_topic"):
            continue
        args = event["detail"]["args"]
        for topic in args.get("topics", {args.get("topic"): 0}):
            for group, held in lives.items():
                readers = [life for life in held if life.since < event["ts_ms"] < life.until and _reads(life, topic)]
                if readers:
                    span = (group, begun(event), event["ts_ms"] + METADATA_MS)
                    yield Claim(event["event"], *span, "rebalance", "partition_count", word=f"{topic} ")


def _reads(life: Life, topic: str) -> bool:
    pattern = life.detail.get("re2j")
    return topic in (life.detail.get("topics") or ()) or bool(pattern and topic.startswith(("shop.", "catalog.")))
