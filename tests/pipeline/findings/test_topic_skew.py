"""Topics that a group's members have unevenly are named, the worst first, with who has most and who has fewest."""

from __future__ import annotations

from typing import Any

from counterpoise.pipeline.history.replay_fold import OBSERVED, Replay
from counterpoise.pipeline.history.replay_rows import replay_batch, skewed_topics
from tests.pipeline.pieces_of_folds import replays_of_group
from tests.pipeline.rows import generation, member

ALL = {"topics": ["a", "b", "c", "d", "e"]}

UNEVEN = {"y": {"b": [0, 1, 2, 3]}, "z": {"b": [4]}}


def observed(*members: dict[str, Any], **about: Any) -> Replay:
    (found,) = (one for one in replays_of_group([generation(1, *members, **about)], ("sticky",)) if one.name == OBSERVED)
    return found


def ends(topic: str, most: int, fewest: int, clients: tuple[str, str]) -> dict[str, Any]:
    return {"topic": topic, "most": most, "fewest": fewest, "most_client": clients[0], "fewest_client": clients[1]}


def test_the_worst_topics_are_named_by_skew_and_then_by_name_and_all_are_counted() -> None:
    one = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1], "d": [2], "e": [0]}
    other = {"a": [2], "c": [2, 3, 4, 5], "d": [0, 1, 3], "e": [1, 2, 3]}
    found = skewed_topics(observed(member("x-1", one) | ALL, member("y-1", other) | ALL))
    assert found == (4, [ends("b", 3, 0, ("x", "y")), ends("c", 4, 2, ("y", "x")), ends("d", 3, 1, ("y", "x"))])


def test_who_does_not_ask_for_a_topic_has_not_too_few_of_it() -> None:
    plan = [member("x-1", {"a": [0, 1]}), member("y-1", {"b": [0, 1]}), member("z-1", {"b": [2, 3]})]
    for mine in plan:
        mine["topics"] = [entry["topic"] for entry in mine["assigned"]]
    assert skewed_topics(observed(*plan)) == (0, [])
    uneven = [member("x-1", {}, topics=["a"]), *(member(f"{name}-1", held, topics=["b"]) for name, held in UNEVEN.items())]
    assert skewed_topics(observed(*uneven)) == (1, [ends("b", 4, 1, ("y", "z"))])
    plan[0]["topics"] = ["a", "b"]
    assert skewed_topics(observed(*plan)) == (1, [ends("b", 2, 0, ("y", "x"))])


def test_of_many_members_with_most_the_first_by_member_id_is_named() -> None:
    plan = [
        member(name, {"a": [at, at + 4]} if at < 2 else {"b": [at]}) | {"topics": ["a", "b"]} for at, name in enumerate("qpsr")
    ]
    found = skewed_topics(observed(*plan))
    assert found == (1, [ends("a", 2, 0, ("p", "r"))])


def test_only_observed_plans_have_skewed_topics_in_the_table() -> None:
    rows = [generation(1, member("x-1", {"a": [0, 1, 2]}), member("y-1", {"b": [0, 1, 2]}))]
    for mine in rows[0]["members"]:
        mine["topics"] = ["a", "b"]
    table = replay_batch(list(replays_of_group(rows, ("sticky", "range")))).to_pylist()
    skewed = {(row["strategy"], row["n_skewed_topics"]): row["skewed_topics"] for row in table}
    worst = [ends("a", 3, 0, ("x", "y")), ends("b", 3, 0, ("y", "x"))]
    assert skewed == {("observed", 2): worst, ("sticky", None): None, ("range", None): None}
