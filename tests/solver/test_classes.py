"""Topic classes and member classes are exact, and numbered by what comes first."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import Problem, Racks
from counterpoise.solver.classes import classify
from counterpoise.solver.engine import solve
from counterpoise.solver.racks import rack_classes
from tests.solver.build import random_problem


def sets_of(problem):
    """Subscribers of each live topic, and topic classes' subscribers, by plain sets."""
    for topic in range(problem.n_topics):
        who = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]].tolist()
        if who and problem.topic_start[topic + 1] > problem.topic_start[topic]:
            yield int(problem.topic_start[topic]), tuple(who)


def check(problem):
    found = classify(problem)
    live = list(sets_of(problem))
    topic_classes: dict[int, tuple[int, ...]] = {}
    for start, who in live:
        topic_class = int(found.topic_class[start])
        assert topic_classes.setdefault(topic_class, who) == who
        assert found.edge_member[found.edge_start[topic_class] : found.edge_start[topic_class + 1]].tolist() == list(who)
    assert len(topic_classes) == len({who for _, who in live}) == found.n_topic_classes
    taken = [
        tuple(sorted(topic_class for topic_class, who in topic_classes.items() if member in who))
        for member in range(problem.n_members)
    ]
    for member, mine in enumerate(taken):
        member_class = int(found.member_class[member])
        assert (member_class >= 0) == bool(mine)
        if mine:
            assert mine == tuple(found.link_topic_class[found.link_member_class == member_class].tolist())
    assert found.n_member_classes == len({mine for mine in taken if mine})


def test_classes_equal_plain_sets():
    for seed in range(400):
        check(random_problem(np.random.default_rng([seed, 21]), 8))


def test_classes_are_numbered_by_first_topic_and_first_member():
    """Not by hash: the numbers are part of how ties fall."""
    problem = Problem(3, [0, 1, 2, 3], [0, 1, 3, 4], [2, 0, 1, 2])
    found = classify(problem)
    assert found.topic_class.tolist() == [0, 1, 0]
    assert found.member_class.tolist() == [0, 0, 1]


def test_a_table_too_large_is_replaced_by_searching(monkeypatch):
    """The path for very many topic classes and members gives the same plans."""
    from counterpoise.solver import claims

    problems = [random_problem(np.random.default_rng([seed, 23]), 8) for seed in range(200)]
    wanted = [solve(problem).tolist() for problem in problems]
    monkeypatch.setattr(claims, "TABLE_CELLS", 0)
    assert [solve(problem).tolist() for problem in problems] == wanted


def test_rack_sets_split_kinds_only_where_a_member_stands():
    """Replica racks without members are left out: they can match nobody."""
    racks = Racks(np.array([0, -1], np.int32), np.array([0, 2, 4, 5], np.int64), np.array([0, 1, 0, 2, 1], np.int32))
    problem = Problem(2, [0, 3], [0, 2], [0, 1], racks=racks)
    found, match = rack_classes(problem, classify(problem))
    assert found.topic_class.tolist() == [0, 0, 1]
    assert match.tolist() == [[True, False], [False, False]]
    assert found.member_class.tolist() == [0, 1]


def test_more_racks_than_an_integer_has_bits_give_the_same_classes():
    """Each rack code plus 70 for the same racks: no member stands in the racks between."""
    rng = np.random.default_rng(24)
    start = np.arange(41) * 2
    replicas = np.sort([rng.permutation(4)[:2] for _ in range(40)]).ravel().astype(np.int32)
    of_members = rng.integers(0, 4, 5).astype(np.int32)
    few, many = (
        Problem(5, [0, 30, 40], [0, 5, 8], [0, 1, 2, 3, 4, 0, 1, 2], racks=Racks(of_members + more, start, replicas + more))
        for more in (0, 70)
    )
    (one, match), (other, wide) = rack_classes(few, classify(few)), rack_classes(many, classify(many))
    assert one.n_topic_classes > 6
    assert (other.topic_class.tolist(), other.member_class.tolist()) == (one.topic_class.tolist(), one.member_class.tolist())
    assert wide[:, 70:-1].tolist() == match[:, :-1].tolist()
