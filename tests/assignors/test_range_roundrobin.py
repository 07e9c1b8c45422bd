"""`range` and `roundrobin` against Kafka's own answers, and their rules on groups small enough to read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.model.assemble import rack_codes, static_rank, subscriber_csr
from counterpoise.model.problem import Problem, Racks
from counterpoise.wire.primitives import java_order

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


def problem_of(case: dict[str, Any]) -> tuple[list[str], list[str], Problem]:
    """Topic names, member ids and the problem of one vector; racks and names as the leader can see them."""
    topics = java_order(case["topics"])
    members = {member["id"]: member for member in case["members"]}
    ids = java_order(members)
    topic_code = {name: code for code, name in enumerate(topics)}
    pairs = [(code, topic_code[t]) for code, m in enumerate(ids) for t in members[m]["topics"] if t in topic_code]
    counts = [case["topics"][name] for name in topics]
    start, subscriber = subscriber_csr(len(ids), len(topics), [m for m, _ in pairs], [t for _, t in pairs])
    member_racks = [members[m].get("rack") if members[m]["version"] >= 3 else None for m in ids]
    replicas = {name: [[r for r in racks if r] for racks in of] for name, of in case.get("racks", {}).items()}
    racks = rack_codes(member_racks, [replicas.get(name) for name in topics], counts)
    rank = static_rank(ids, [members[m].get("instance") for m in ids])
    topic_start = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    return (
        topics,
        ids,
        Problem(len(ids), topic_start, start, subscriber, racks=racks, static_rank=rank),
    )


def named(topics: list[str], ids: list[str], problem: Problem, owner: np.ndarray) -> dict[str, dict[str, list[int]]]:
    result: dict[str, dict[str, list[int]]] = {member: {} for member in ids}
    for topic, name in enumerate(topics):
        for index, code in enumerate(owner[problem.topic_start[topic] : problem.topic_start[topic + 1]].tolist()):
            if code >= 0:
                result[ids[code]].setdefault(name, []).append(index)
    return result


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_every_answer_of_kafka_is_reproduced_to_the_partition(name: str) -> None:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    assert len(cases) == 1500
    wrong = []
    for case in cases:
        topics, ids, problem = problem_of(case)
        if named(topics, ids, problem, assignor(name)(problem)) != case["assignment"]:
            wrong.append(case["id"])
    assert wrong == []


def group(counts: list[int], subscriptions: list[list[int]], **arrays: Any) -> Problem:
    pairs = [(member, topic) for member, topics in enumerate(subscriptions) for topic in topics]
    start, subscriber = subscriber_csr(len(subscriptions), len(counts), [m for m, _ in pairs], [t for _, t in pairs])
    return Problem(
        len(subscriptions),
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        start,
        subscriber,
        **arrays,
    )


def test_range_gives_the_first_members_of_each_topic_one_more() -> None:
    assert assignor("range")(group([3, 3], [[0, 1], [0, 1]])).tolist() == [
        0,
        0,
        1,
        0,
        0,
        1,
    ]


def test_roundrobin_continues_where_the_topic_before_ended() -> None:
    assert assignor("roundrobin")(group([3, 3], [[0, 1], [0, 1]])).tolist() == [
        0,
        1,
        0,
        1,
        0,
        1,
    ]


def test_roundrobin_passes_members_that_do_not_subscribe() -> None:
    """The example in the documentation of Kafka's assignor: C0 {t0}, C1 {t0, t1}, C2 {t0, t1, t2}."""
    assert assignor("roundrobin")(group([1, 2, 3], [[0], [0, 1], [0, 1, 2]])).tolist() == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first(name: str) -> None:
    problem = group([2], [[0], [0], [0]], static_rank=[1, 2, 0])
    assert assignor(name)(problem).tolist() == [2, 0]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_nobody_owns_a_topic_without_subscribers(name: str) -> None:
    assert assignor(name)(group([2, 1, 0], [[1], []])).tolist() == [-1, -1, 0]
    assert assignor(name)(group([2], [])).tolist() == [-1, -1]
    assert assignor(name)(group([], [[]])).tolist() == []


def racks(of_members: list[int], of_partitions: list[list[int]]) -> Racks:
    start = np.concatenate(([0], np.cumsum([len(r) for r in of_partitions]))).astype(np.int64)
    return Racks(
        np.array(of_members, np.int32),
        start,
        np.array([r for rs in of_partitions for r in rs], np.int32),
    )


def test_range_gives_members_what_lies_in_their_rack() -> None:
    problem = group([3], [[0], [0], [0]], racks=racks([1, 2, 0], [[0], [1], [2]]))
    assert assignor("range")(problem).tolist() == [2, 0, 1]


def test_range_keeps_co_partitioned_topics_aligned() -> None:
    problem = group([2, 2], [[0, 1], [0, 1]], racks=racks([1, 0], [[0], [1], [0], [0, 1]]))
    owner = assignor("range")(problem)
    assert owner[:2].tolist() == owner[2:].tolist() == [1, 0]


def test_range_ignores_racks_that_every_partition_shares() -> None:
    problem = group([4], [[0], [0]], racks=racks([1, 0], [[0, 1]] * 4))
    assert assignor("range")(problem).tolist() == [0, 0, 1, 1]
