"""Skewed topics of a plan: their number, and the worst ones by name with the members that have most and fewest partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.metrics.runs import within_topics
from counterpoise.model.problem import Int32
from counterpoise.pipeline.history.inputs import Inputs
from counterpoise.pipeline.history.replay_fold import OBSERVED, Replay

__all__ = ["Skew", "skew_of", "topic_skew"]

_LEAST = 2
"""A topic is skewed if two subscribers differ by at least so many partitions: a difference of one cannot always be avoided."""
_NAMED = 3
"""Maximal number of topics that are named."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The skewed topics of a plan."""

    topics: int  # Number of skewed topics
    # ``topic, most, fewest, most_client, fewest_client`` of those with the largest difference, then by name
    worst: Sequence[dict[str, Any]]


_EVEN = Skew(0, ())


def skew_of(replay: Replay) -> Skew | None:
    """The skew of the observed plan; None for other plans, which have `max_topic_spread` only."""
    if replay.name != OBSERVED:
        return None
    # Nearly all plans are even, which the metrics show at no cost.
    return _EVEN if replay.metrics.max_topic_spread < _LEAST else topic_skew(replay.inputs, replay.owner)


def topic_skew(inputs: Inputs, owner: Int32) -> Skew:
    """The skew of a plan."""
    spread = within_topics(inputs.problem, owner)
    skewed = np.flatnonzero(spread >= _LEAST)
    worst = skewed[np.argsort(-spread[skewed], kind="stable")][:_NAMED]  # topics are in the order of their names
    return Skew(len(skewed), [_most_and_fewest(inputs, owner, topic) for topic in worst.tolist()])


def _most_and_fewest(inputs: Inputs, owner: Int32, topic: int) -> dict[str, Any]:
    """The members with most and with fewest partitions of a topic; ties by member id."""
    problem = inputs.problem
    mine = owner[problem.topic_start[topic] : problem.topic_start[topic + 1]]
    members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]]
    held = np.bincount(mine[mine >= 0], minlength=problem.n_members)[members]
    most, fewest = int(held.argmax()), int(held.argmin())
    return {
        "topic": inputs.topic_names[topic],
        "most": int(held[most]),
        "fewest": int(held[fewest]),
        "most_client": inputs.client_ids[members[most]],
        "fewest_client": inputs.client_ids[members[fewest]],
    }
