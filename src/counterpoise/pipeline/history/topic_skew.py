"""Topics that a plan shares out unevenly, by name: how many there are, and the worst of them with who has most and fewest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.metrics.runs import within_topics
from counterpoise.model.problem import Int32
from counterpoise.pipeline.history.inputs import Inputs
from counterpoise.pipeline.history.replay_fold import OBSERVED, Replay

__all__ = ["APART", "NAMED", "Skew", "skew_of", "topic_skew"]

APART = 2
"""From so many partitions between two subscribers on a topic counts: one cannot always be helped."""
NAMED = 3
"""So many topics are named."""


@dataclass(frozen=True, slots=True)
class Skew:
    """What is uneven in a plan.

    Attributes
    ----------
    topics : int
        How many topics have two subscribers that far apart.
    worst : sequence of mapping
        ``topic, most, fewest, most_client, fewest_client`` of those with the largest difference, then by name.
    """

    topics: int
    worst: Sequence[dict[str, Any]]


_EVEN = Skew(0, ())


def skew_of(replay: Replay) -> Skew | None:
    """The skew of the observed plan; None for other plans, which have `max_topic_spread` only."""
    if replay.name != OBSERVED:
        return None
    # Nearly all plans are even, which the metrics show at no cost.
    return _EVEN if replay.metrics.max_topic_spread < APART else topic_skew(replay.inputs, replay.owner)


def topic_skew(inputs: Inputs, owner: Int32) -> Skew:
    """The skew of a plan."""
    apart = within_topics(inputs.problem, owner)
    uneven = np.flatnonzero(apart >= APART)
    worst = uneven[np.argsort(-apart[uneven], kind="stable")][:NAMED]  # topics are in the order of their names
    return Skew(len(uneven), [_ends(inputs, owner, topic) for topic in worst.tolist()])


def _ends(inputs: Inputs, owner: Int32, topic: int) -> dict[str, Any]:
    """The members with most and with fewest partitions of a topic; ties by member id."""
    problem = inputs.problem
    mine = owner[problem.topic_start[topic] : problem.topic_start[topic + 1]]
    members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]]
    held = np.bincount(mine[mine >= 0], minlength=problem.n_members)[members]
    most, fewest = int(held.argmax()), int(held.argmin())
    return {
        "topic": inputs.group.topic_names[topic],
        "most": int(held[most]),
        "fewest": int(held[fewest]),
        "most_client": inputs.client_ids[members[most]],
        "fewest_client": inputs.client_ids[members[fewest]],
    }
