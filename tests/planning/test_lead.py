"""Leading a group: bytes in, bytes out; the vectorised reader and the one for people agree on every case of Kafka's."""

from __future__ import annotations

import os
import re
import warnings
from cProfile import Profile
from typing import Any

import numpy as np
import pytest

from counterpoise import lead
from counterpoise.errors import SnapshotError, SubscriptionWarning
from counterpoise.model.problem import CONTESTED, Problem
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.joined import JoinMember, join_problem
from counterpoise.wire.consumer_protocol import Subscription, decode_assignment, encode_subscription
from tests.planning.join import join
from tests.planning.vectors import cases, group_of

SHARE = 1 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 4
"""Of Kafka's cases every one, or every fourth; whole plans are compared with all of them in tests/assignors."""
FIELDS = ("topic_start", "subscriber_start", "subscriber", "previous_owner", "holder", "capacity", "static_rank")


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky", "java-faults"])
def test_metadata_and_snapshots_give_the_same_problem(name: str) -> None:
    for case in cases(name)[::SHARE]:
        racks = case.get("racks") or {}
        topics = {topic: Topic(count, racks.get(topic)) for topic, count in case["topics"].items()}
        members = [JoinMember(m["id"], bytes.fromhex(m["metadata"]), m.get("instance")) for m in case["members"]]
        kind = "cooperative" if case["assignor"] == "cooperative-sticky" else "eager"
        joined = join_problem(topics, members, kind)  # type: ignore[arg-type]
        group = group_of(case)
        assert joined.member_ids == group.member_ids
        for field in FIELDS:
            assert getattr(joined.problem, field).tolist() == getattr(group.problem(), field).tolist(), (case["id"], field)
        assert racks_of(joined.problem) == racks_of(group.problem()), case["id"]
        settled = group.settled
        assert (joined.unknown_topic, joined.vanished_partition) == (settled.unknown_topic, settled.vanished_partition)
        assert list(joined.missing_topics.items()) == list(group.missing_topics.items()), case["id"]


def test_on_the_wire_a_generation_below_none_is_none() -> None:
    """It neither loses to a claim without generation nor wins: two such claims on one partition are a dispute."""
    written = encode_subscription(Subscription(("t",), None, (("t", (0,)),), -1, None, 2))
    assert written.endswith(b"\xff\xff\xff\xff")  # the generation
    members = [JoinMember("a", written[:-4] + (-5).to_bytes(4, "big", signed=True)), JoinMember("b", written)]
    joined = join_problem({"t": Topic(1)}, members, "cooperative").problem
    read = join({"t": 1}, members, "cooperative").group.problem()
    assert joined.holder.tolist() == read.holder.tolist() == [CONTESTED]


def test_lag_that_was_read_before_topics_changed_counts_for_the_partitions_that_are_left() -> None:
    """Partitions that came since count as 0, also those of a topic that came."""
    topics = {"grown": Topic(3), "new": Topic(1), "smaller": Topic(1)}
    joined = join_problem(topics, [], "eager", lag={"grown": [5, 7], "smaller": [2, 9], "gone": [4]})
    assert np.asarray(joined.problem.lag).tolist() == [5, 7, 0, 0, 2]


def test_a_topic_name_longer_than_kafkas_is_refused() -> None:
    """Names are compared in words of the longest one: a single long one would cost its length for every subscription."""
    member = {"a": encode_subscription(Subscription(("t" * 249,)))}
    assert decode_assignment(lead("range", {"t" * 249: 1}, member)["a"]).partitions == (("t" * 249, (0,)),)
    for length in (250, 70_000):
        with pytest.raises(SnapshotError, match="characters; a topic name in Kafka has at most 249") as caught:
            lead("range", {"a": 1, "t" * length: 1}, member)
        assert len(str(caught.value)) < 2_000


def racks_of(problem: Problem) -> list[list[int]] | None:
    racks = problem.racks
    return None if racks is None else [np.asarray(part).tolist() for part in vars(racks).values()]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_kafkas_assignments_come_out_of_its_bytes(name: str) -> None:
    for case in cases(name)[::SHARE]:
        racks = case.get("racks") or {}
        topics = {t: {"partitions": n, "racks": racks[t]} if t in racks else n for t, n in case["topics"].items()}
        members = [{"id": m["id"], "instance_id": m.get("instance"), "metadata": m["metadata"]} for m in case["members"]]
        answer = lead(name, topics, members)
        given = {member: {t: list(p) for t, p in decode_assignment(raw).partitions} for member, raw in answer.items()}
        assert given == {m: {t: sorted(p) for t, p in of.items()} for m, of in case["assignment"].items()}, case["id"]


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "constrained-cooperative-sticky"])
def test_the_order_of_members_and_topics_changes_no_byte(name: str) -> None:
    for case in cases("cooperative-sticky")[:200]:
        members = {m["id"]: bytes.fromhex(m["metadata"]) for m in case["members"]}
        forward = lead(name, case["topics"], members)
        backward = lead(name, dict(reversed(case["topics"].items())), dict(reversed(members.items())))
        assert forward == backward, case["id"]


def test_a_subscription_that_cannot_be_read_names_member_byte_and_field() -> None:
    with pytest.raises(SnapshotError, match=r"member 'b', metadata: byte \d+, .*"):
        lead("sticky", {"t": 1}, {"a": bytes.fromhex("000000000001000174ffffffff"), "b": b"\x00\x03\x7f"})


def test_unreadable_user_data_is_no_history_and_never_fatal() -> None:
    garbage = bytes.fromhex("000000000001000174") + b"\x00\x00\x00\x03\xff\x00\x01"
    joined = join_problem({"t": Topic(2)}, [JoinMember("a", garbage)], "eager")
    assert joined.unreadable == ("a",)
    assert lead("sticky", {"t": 2}, {"a": garbage})


def test_subscriptions_to_topics_that_the_leader_does_not_know_are_counted_and_warned_of() -> None:
    asked = {"a": ("t", "ordres"), "b": ("ordres", "t"), "c": ("t", "ordres"), "d": ("t",), "e": ("u", "u")}
    written = {member: encode_subscription(Subscription(topics, None, (), -1, None, 3)) for member, topics in asked.items()}
    with pytest.warns(SubscriptionWarning, match=r"do not exist: ordres \(3 members\), u \(1 member\)") as caught:
        assert decode_assignment(lead("sticky", {"t": 2}, written)["e"]).partitions == ()
    assert caught[0].message.subscribers == {"ordres": 3, "u": 1}  # type: ignore[union-attr]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lead("sticky", {"t": 2, "u": 1, "ordres": 1}, written)


def test_a_topic_that_nobody_knows_costs_no_step_per_topic_and_member() -> None:
    """Five hundred members with the same hundred topics, one of them unknown."""
    names = tuple(f"t{at}" for at in range(100))
    owned = tuple((name, (0, 1)) for name in names)
    members = [JoinMember(f"m{at}", encode_subscription(Subscription(names, None, owned, 1, None, 3))) for at in range(500)]
    profile = Profile()
    joined = profile.runcall(join_problem, {name: Topic(2) for name in names[1:]}, members, "cooperative")
    assert joined.missing_topics == {"t0": 500}
    assert sum(entry.callcount for entry in profile.getstats()) <= 20_000


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([{"id": "a", "metadata": "zz"}], "member 'a', metadata: not hex"),
        ([JoinMember("a", b""), JoinMember("a", b"")], r"members\[1\]\.id: 'a' is also members\[0\]"),
        ([{"id": "a"}], r"members\[0\]: Object missing required field `metadata`; a member has id, instance_id and metadata"),
        ({"a": None}, "member 'a', metadata: expected bytes or hex text, not NoneType"),
        ({"a": 50}, "member 'a', metadata: expected bytes or hex text, not int"),
        ([{"id": 5, "metadata": b""}], r"members\[0\]\.id: Expected `str`, got `int`"),
        ([JoinMember("a", b"", 5)], r"members\[0\]\.instance_id: Expected `str"),  # type: ignore[arg-type]
        ([b""], r"members\[0\]: Expected `object`, got `bytes`"),
        (None, "members: Expected `array`, got `null`"),
    ],
    ids=["not hex", "an id twice", "no metadata", "nothing", "a number", "no text", "no instance", "bytes alone", "nobody"],
)
def test_wrong_members_are_named(members: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        lead("sticky", {"t": 1}, members)


def test_topics_are_wanted_by_name() -> None:
    with pytest.raises(SnapshotError, match="topics: Expected `object`, got `array`"):
        lead("sticky", ["t"], {})  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [-3, 2.5, True, 10**12, {}, {"racks": []}, {"partitions": 2, "racks": [["a"]]}])
def test_wrong_topics_are_named(count: object) -> None:
    with pytest.raises(SnapshotError, match=r"topics\.t"):
        lead("sticky", {"t": count}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("lag", "capacity", "message"),
    [
        ({"t": {1, 2}}, None, "lag.t: expected a list of records behind, one per partition, not {1, 2}"),
        ({"t": [1]}, None, "lag.t: 1 numbers, t has 2 partitions"),
        ({"u": [1]}, None, "lag.u: topic does not exist"),
        ([1, 2], None, "lag: Expected `object | null`, got `array`"),
        (None, {"b": 2}, "capacity.b: no such member; members are a"),
        (None, {"a": 0}, "capacity.a: Expected `int` >= 1"),
        (None, {"a": "2"}, "capacity.a: Expected `int`, got `str`"),
        (None, ["a"], "capacity: Expected `object | null`, got `array`"),
    ],
)
def test_a_wrong_lag_or_weight_is_named(lag: Any, capacity: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=re.escape(message)):
        lead("sticky", {"t": 2}, {"a": bytes.fromhex("000000000001000174ffffffff")}, lag=lag, capacity=capacity)
