"""The plan of a synthetic fleet: topics, groups, their sizes, commit intervals and protocols, drawn from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.model.problem import Int64

__all__ = ["Fleet", "GroupPlan", "TopicPlan", "draw_groups", "draw_topics"]

_TOPIC_SIZES = ((1, 0.10), (3, 0.15), (6, 0.25), (12, 0.25), (24, 0.12), (48, 0.08), (96, 0.04), (192, 0.01))
_PROTOCOLS = (
    ("range", "java", 0.26),
    ("roundrobin", "java", 0.06),
    ("sticky", "java", 0.08),
    ("cooperative-sticky", "java", 0.20),
    ("range", "librdkafka", 0.10),
    ("cooperative-sticky", "librdkafka", 0.04),
    ("range", "kafka-python", 0.04),
    ("roundrobin", "aiokafka", 0.04),
    ("sticky", "aiokafka", 0.02),
    ("server", "java", 0.11),
    ("none", "java", 0.05),
)
"""Protocol, client library and share of the groups; server: KIP-848, none: a consumer that only commits."""
_STEP_S = 17.0
"""Minimal time between two rebalances outside a storm: five within a minute would be a storm."""


@dataclass(frozen=True)
class Fleet:
    """The size of a synthetic fleet and the length of its recording.

    Raises `OptionError` if a number is too small, or there are more rebalances than fit into the time.
    """

    records: int  # Approximate number of records, nearly all of them commits
    groups: int
    rebalances: int  # Exact number of rebalances over all groups, without second rounds of cooperative ones
    seconds: float = 3600.0  # The length of the recording
    sample_every: float = 300.0  # Seconds between samples of log ends
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (("records", 1), ("groups", 1), ("rebalances", 0), ("seconds", 300), ("sample_every", 1), ("seed", 0)):
            if not least <= getattr(self, name) < math.inf:
                raise OptionError(f"{name} is {getattr(self, name)}; expected a finite number, at least {least}")
        if self.rebalances > self.most * self.groups // 2:
            raise OptionError(
                f"{self.rebalances} rebalances of {self.groups} groups do not fit into {self.seconds:g} seconds; "
                f"{self.most * self.groups // 2} do"
            )

    @property
    def most(self) -> int:
        """The most rebalances one group can have."""
        return int((self.seconds - 180) / (_STEP_S + 1))

    @property
    def start_ms(self) -> int:
        """The begin of the recording."""
        return int(datetime(2026, 11, 2, 9, tzinfo=UTC).timestamp()) * 1000

    @property
    def end_ms(self) -> int:
        """The end of the recording."""
        return self.start_ms + round(self.seconds * 1000)

    def chance(self, *path: int) -> np.random.Generator:
        """A random generator that depends on the seed and on `path` only."""
        return np.random.default_rng([self.seed, *path])


@dataclass(frozen=True)
class TopicPlan:
    """A topic: `base` int64[P] log ends at the begin of the recording, `rate` float64[P] records per second."""

    name: str
    topic_id: bytes
    base: Int64
    rate: np.ndarray

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.base)


@dataclass(frozen=True)
class GroupPlan:
    """The plan of one group."""

    number: int
    name: str
    protocol: str
    library: str
    topics: tuple[int, ...]  # Indices into the list of topics
    members: int  # Number of members at the begin
    rebalances: int  # Number of rebalances, including the first generation
    storm: int  # Number of rebalances within one minute; 0: no storm
    interval_ms: int  # Time between two commits of a member
    version: int  # Version of the values of its commits
    # Whether its members are static; whether it is deleted within the recording
    static: bool
    deleted: bool


def draw_topics(fleet: Fleet) -> list[TopicPlan]:
    """Draw the topics, a third as many as groups; a few have far more records than the others."""
    chance = fleet.chance(0)
    sizes, weights = zip(*_TOPIC_SIZES, strict=True)
    result = []
    for number in range(max(1, fleet.groups // 3)):
        partitions = int(chance.choice(sizes, p=weights))
        rate = chance.lognormal(1.5, 1.6) * chance.lognormal(0.0, 0.5, partitions)
        base = chance.integers(0, 5_000_000, partitions)
        result.append(TopicPlan(f"topic-{number:05d}", chance.bytes(16), base, rate))
    return result


def draw_groups(fleet: Fleet, topics: list[TopicPlan]) -> list[GroupPlan]:
    """Draw the groups, with commit intervals that give about `fleet.records` commits."""
    chance = fleet.chance(1)
    drawn = [_draw(number, topics, chance) for number in range(fleet.groups)]
    budgets = _budgets(fleet, np.array([one["protocol"] != "none" for one in drawn]), chance)
    raw = np.array([one["pace"] for one in drawn])
    partitions = np.array([sum(topics[at].partitions for at in one["topics"]) for one in drawn])
    stretch = float((partitions / raw).sum()) * fleet.seconds / fleet.records
    plans = []
    for one, pace, budget in zip(drawn, raw, budgets.tolist(), strict=True):
        one.pop("pace")
        storm = min(budget - 1, int(chance.integers(8, 20))) if chance.random() < 0.03 else 0
        deleted = bool(chance.random() < 0.02) and one["protocol"] not in ("server", "none")
        interval = max(50, round(1000 * pace * stretch))
        plans.append(GroupPlan(**one, rebalances=budget, storm=storm if storm >= 5 else 0, interval_ms=interval, deleted=deleted))
    return plans


def _draw(number: int, topics: list[TopicPlan], chance: np.random.Generator) -> dict[str, Any]:
    protocol, library, _ = _PROTOCOLS[int(chance.choice(len(_PROTOCOLS), p=[share for *_, share in _PROTOCOLS]))]
    few = min(len(topics), 1 + int(chance.geometric(0.6)) // 2)
    chosen = tuple(sorted(chance.choice(len(topics), few, replace=False).tolist()))
    partitions = sum(topics[at].partitions for at in chosen)
    members = int(min(60, max(1, round(partitions * chance.uniform(0.1, 0.6)))))
    return {
        "number": number,
        "name": f"group-{number:05d}",
        "protocol": protocol,
        "library": library,
        "topics": chosen,
        "members": members,
        "pace": float(chance.choice([1.0, 5.0, 5.0, 5.0, 10.0, 30.0]) * chance.uniform(0.8, 1.2)),
        "version": int(chance.choice([4, 4, 4, 3, 1], p=[0.3, 0.3, 0.2, 0.15, 0.05])),
        "static": bool(chance.random() < 0.08) and protocol not in ("server", "none") and library == "java",
    }


def _budgets(fleet: Fleet, able: np.ndarray, chance: np.random.Generator) -> Int64:
    """Rebalances per group: at least one for those with members, the others skewed; the sum is `fleet.rebalances`."""
    budget = np.where(able, 1, 0).astype(np.int64)
    if fleet.rebalances < budget.sum():
        raise OptionError(f"{fleet.rebalances} rebalances are fewer than the {budget.sum()} groups that need one each")
    weight = np.where(able, chance.lognormal(0.0, 0.8, len(able)), 0.0)
    while (left := fleet.rebalances - int(budget.sum())) > 0:
        open_ = np.where(budget < fleet.most, weight, 0.0)
        if not open_.any():
            raise OptionError(f"{fleet.rebalances} rebalances do not fit: {int(able.sum())} groups can have {fleet.most} each")
        budget = np.minimum(budget + chance.multinomial(left, open_ / open_.sum()), np.where(able, fleet.most, 0))
    return budget
