"""Random lives of groups: mixed dialects, static members, every kind of event, from one seed."""

from __future__ import annotations

import random
from typing import Any

from counterpoise.simulation import Event, MemberGroup, Scenario, Timing

__all__ = ["history"]

TIMING = Timing(session_timeout=10, heartbeat_interval=1, max_poll_interval=30, initial_delay=1, metadata_age=15)
ACTIONS = (
    *("join", "leave", "crash", "pause", "freeze", "restart", "subscribe", "shrink") * 2,
    *("rolling_restart", "scale", "crash_leader", "grow"),
)
DIALECTS = ("java", "librdkafka", "kafka-python", "aiokafka", "counterpoise (kafka-python)")


def history(seed: int, *, n_events: int = 20) -> Scenario:
    """A scenario of at least `n_events` events, bunched and spread; the same seed gives the same one."""
    rng = random.Random(seed)
    topics = {f"t{at}": rng.randint(1, 8) for at in range(rng.randint(1, 4))}
    groups = [_group(rng, f"g{at}", sorted(topics)) for at in range(rng.randint(1, 4))]
    counts, at = dict(topics), rng.uniform(0, 10)
    events: list[Event] = []
    while len(events) < n_events:
        at += rng.choice((0.0, 0.011, 0.06, 0.4, 1.0, 3.0, 12.0, 40.0)) * rng.random()
        event = _event(rng, round(at, 3), groups, counts)
        if event is not None:
            events.append(event)
    return Scenario(f"seed {seed}", topics, groups, events, timing=TIMING)


def _group(rng: random.Random, name: str, topics: list[str]) -> MemberGroup:
    return MemberGroup(
        name,
        rng.sample(topics, rng.randint(1, len(topics))),
        count=rng.randint(1, 4),
        join_at=rng.choice((-1.0, 0.0, 0.0, 0.0, 2.5, 20.0)),
        every=rng.choice((0.0, 0.7, 4.0)),
        library=rng.choice(DIALECTS),
        static=rng.random() < 0.3,
        capacity=rng.choice((1, 1, 1, 2)),
    )


def _event(rng: random.Random, at: float, groups: list[MemberGroup], counts: dict[str, int]) -> Event | None:
    do = rng.choice(ACTIONS)
    group, topic = rng.choice(groups), rng.choice(sorted(counts))
    who: Any = rng.choice((group.name, rng.choice(group.names()), rng.sample(group.names(), rng.randint(1, group.count))))
    if do in {"join", "leave", "crash"}:
        return Event(at, do, who)
    if do in {"pause", "freeze"}:
        return Event(at, do, who, seconds=rng.choice((0.5, 3.0, 11.0, 29.0, 31.0, 45.0, 70.0)))
    if do in {"restart", "rolling_restart"}:
        every = 0.0 if do == "restart" else rng.choice((0.0, 0.5, 6.0))
        return Event(at, do, who, down=rng.choice((0.0, 0.2, 2.0, 12.0)), every=every)
    if do == "scale":
        return Event(at, do, group.name, count=rng.randint(0, group.count + 2), every=rng.choice((0.0, 1.5)))
    if do == "subscribe":
        return Event(at, do, who, topics=sorted(rng.sample(sorted(counts), rng.randint(1, len(counts)))))
    if do == "crash_leader":
        return Event(at, do)
    if do == "grow" and counts[topic]:
        counts[topic] += rng.randint(1, 4)
        return Event(at, do, topic=topic, partitions=counts[topic])
    if do == "shrink" and counts[topic]:
        counts[topic] = 0
        return Event(at, "delete", topic=topic)
    if do == "shrink":
        counts[topic] = rng.randint(1, 6)
        return Event(at, "create", topic=topic, partitions=counts[topic])
    return None
