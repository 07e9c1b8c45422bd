"""The strategy `lag` against a transcription of KAFKA-5337, and its documented example."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.assignors.lag import assign_by_lag
from counterpoise.assignors.registry import assignor
from counterpoise.errors import OptionError
from counterpoise.model.assemble import subscriber_csr
from counterpoise.model.problem import Problem


def transcription(problem: Problem, scope: str) -> list[int]:
    """The document's rule, sentence by sentence."""
    owner = [-1] * problem.n_partitions
    lag = [0] * problem.n_partitions if problem.lag is None else problem.lag.tolist()
    count = dict.fromkeys(range(problem.n_members), 0)
    total = dict.fromkeys(range(problem.n_members), 0)
    for topic in range(problem.n_topics):
        members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]].tolist()
        if scope == "topic":
            count = dict.fromkeys(members, 0)
            total = dict.fromkeys(members, 0)
        partitions = range(int(problem.topic_start[topic]), int(problem.topic_start[topic + 1]))
        for partition in sorted(partitions, key=lambda p: (-lag[p], p)):
            if members:
                member = min(members, key=lambda m: (count[m], total[m], m))
                owner[partition] = member
                count[member] += 1
                total[member] += lag[partition]
    return owner


def random_group(rng: np.random.Generator) -> Problem:
    n_members, n_topics = int(rng.integers(0, 40)), int(rng.integers(0, 6))
    counts = rng.integers(0, rng.choice([4, 70]), n_topics)
    density = rng.choice([0.2, 0.6, 1.0])
    wants = rng.random((n_members, n_topics)) < density
    start, subscriber = subscriber_csr(n_members, n_topics, *np.nonzero(wants))
    size = int(counts.sum())
    lag = rng.choice([rng.integers(0, 4, size), rng.integers(0, 10**12, size), np.zeros(size, np.int64)])
    topic_start = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    return Problem(n_members, topic_start, start, subscriber, lag=lag)


def one_topic(lags: list[int], n_members: int) -> Problem:
    return Problem(n_members, [0, len(lags)], [0, n_members], list(range(n_members)), lag=lags)


def test_the_example_of_kafka_5337() -> None:
    """t0p0 100,000, t0p1 50,000, t0p2 60,000: C0 gets t0p0, C1 gets t0p1 and t0p2, 110,000 in all."""
    assert assign_by_lag(one_topic([100_000, 50_000, 60_000], 2)).tolist() == [0, 1, 1]
    assert assign_by_lag(one_topic([100_000, 60_000, 50_000], 2)).tolist() == [0, 1, 1]


def test_counts_come_before_lag() -> None:
    assert assign_by_lag(one_topic([100, 1, 1, 1], 2)).tolist() == [0, 1, 1, 0]


def test_without_lag_only_counts_matter() -> None:
    assert assign_by_lag(Problem(2, [0, 4], [0, 2], [0, 1])).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("scope", ["topic", "total"])
def test_random_groups_follow_the_rule(scope: str) -> None:
    rng = np.random.default_rng(5337)
    for number in range(500):
        problem = random_group(rng)
        assert assign_by_lag(problem, scope=scope).tolist() == transcription(problem, scope), f"group {number}"


def test_counting_in_total_uses_what_other_topics_gave() -> None:
    problem = Problem(2, [0, 1, 2], [0, 2, 4], [0, 1, 0, 1], lag=[5, 5])
    assert assign_by_lag(problem).tolist() == [0, 0]
    assert assign_by_lag(problem, scope="total").tolist() == [0, 1]


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(OptionError, match="'topic', 'total'"):
        assignor("lag", scope="group")
