"""The vectorised reading and writing of a whole group says what the member-by-member one says."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.clients.member_side import MemberSide
from counterpoise.clients.own_fields import HOSTS, with_capacity, with_host
from counterpoise.errors import WireError
from counterpoise.wire import columns, join_metadata, subscription_fields, topic_lists
from counterpoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from counterpoise.wire.group_assignments import encode_assignments
from counterpoise.wire.join_metadata import JoinMetadata, decode_group, summarise
from counterpoise.wire.topic_lists import TopicIndex
from counterpoise.wire.user_data import claims, encode_cooperative, encode_sticky
from tests.wire.strategies import bent

NAMES = [
    "",
    "a",
    "a\0",
    "eightchr",
    "eightchr9",
    "nine chars",
    "topic-1",
    "topic-2",
    "été",
    "主题",
    "x" * 40,
    "x" * 41,
    "y" * 249,
]
INDEX = TopicIndex(NAMES)
SOME_NAMES = st.sampled_from([*NAMES, "unknown", "topic-3", "y" * 248 + "z"])
OWNED = st.lists(
    st.tuples(SOME_NAMES, st.lists(st.integers(0, 9), max_size=3).map(tuple)), max_size=4, unique_by=lambda entry: entry[0]
).map(tuple)
GENERATIONS = st.integers(-1, 9)
LAYOUTS = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.builds(encode_sticky, OWNED, st.none() | GENERATIONS),
    st.builds(lambda raw: b"\x00\x01" + raw, st.builds(encode_sticky, OWNED, st.none() | GENERATIONS)),
    st.builds(encode_cooperative, GENERATIONS),
)
HOST, CAPACITY = with_host(None, "aiokafka"), with_capacity(None, 7) or b""
TRAILERS = st.sampled_from([HOST, CAPACITY, HOST + CAPACITY, HOST * 3])
USER_DATA = LAYOUTS | st.builds(lambda layout, behind: (layout or b"") + behind, LAYOUTS, TRAILERS)
SUBSCRIPTIONS = st.builds(
    Subscription,
    st.just(("topic-1", "topic-2")) | st.lists(SOME_NAMES, max_size=4).map(tuple),
    USER_DATA,
    OWNED,
    GENERATIONS,
    st.none() | st.sampled_from(["", "r1", "räck"]),
    st.integers(0, 4),
)


def assert_equals_member_by_member(metadata: list[bytes], found: JoinMetadata, kind: Any) -> None:
    assert_summarises(metadata)
    code = {name: at for at, name in enumerate(NAMES)}
    errors = dict(found.errors)
    subscribed: Counter[tuple[int, int]] = Counter()
    claimed: Counter[tuple[int, int, int]] = Counter()
    unknown = 0
    for at, raw in enumerate(metadata):
        refused: WireError | None = None
        try:
            subscription = decode_subscription(raw)
        except WireError as error:
            refused = error
        if refused is not None:
            assert str(errors.pop(at)) == str(refused)
            assert (found.generation[at], found.rack[at], found.unreadable[at]) == (-1, None, False)
            continue
        wanted = claims(subscription, kind)
        assert (found.generation[at], found.rack[at]) == (wanted.generation, subscription.rack)
        assert found.unreadable[at] == wanted.unreadable
        subscribed.update((at, code[topic]) for topic in subscription.topics if topic in code)
        for topic, partitions in wanted.owned:
            if topic in code:
                claimed.update((at, code[topic], partition) for partition in partitions)
            else:
                unknown += len(partitions)
    assert not errors
    pairs = zip(found.subscription_member.tolist(), found.subscription_topic.tolist(), strict=True)
    assert Counter(pairs) == subscribed
    triples = zip(found.claim_member.tolist(), found.claim_topic.tolist(), found.claim_partition.tolist(), strict=True)
    assert Counter(triples) == claimed
    assert found.unknown_claims == unknown


def assert_summarises(metadata: list[bytes]) -> None:
    """What leaders need before they know topics, against the row-wise reader."""
    read: dict[int, Subscription] = {}
    for at, raw in enumerate(metadata):
        with suppress(WireError):
            read[at] = decode_subscription(raw)
    found = summarise(metadata)
    assert [at for at, _ in found.errors] == [at for at in range(len(metadata)) if at not in read]
    assert found.topics == {topic for subscription in read.values() for topic in subscription.topics}
    assert found.any_owned == any(subscription.owned for subscription in read.values())
    assert list(found.user_data) == [read[at].user_data or b"" if at in read else b"" for at in range(len(metadata))]


@pytest.fixture(params=[0, 10**9], ids=["step by step over all lists", "list by list"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "_FEW", request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_any_group_reads_as_its_members_do(kind: Any) -> None:
    @given(st.data(), st.lists(SUBSCRIPTIONS, max_size=6))
    def check(data: st.DataObject, subscriptions: list[Subscription]) -> None:
        metadata = [data.draw(bent(encode_subscription(each))) for each in subscriptions]
        assert_equals_member_by_member(metadata, decode_group(metadata, INDEX, kind), kind)

    check()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_a_member_cut_at_any_byte_does_not_disturb_the_others(kind: Any) -> None:
    owned = (("topic-1", (0, 1)), ("été", (5,)))
    whole = encode_subscription(Subscription(("a", "topic-1"), encode_sticky(owned, 4), owned, 4, "rack"))
    good = encode_subscription(Subscription(("topic-2",), encode_sticky((("topic-2", (1,)),), 3), (("topic-2", (1,)),), 3, None))
    metadata = [each for end in range(len(whole) + 1) for each in (whole[:end], good)]
    assert_equals_member_by_member(metadata, decode_group(metadata, INDEX, kind), kind)


GOOD = encode_subscription(Subscription(("topic-1",), encode_sticky((("a", (1, 2)), ("été", (3,))), 6), (("a", (1,)),), 6))
V1 = encode_sticky((("topic-1", (4,)), ("a", (0, 2))), 5)
TOPICS = "00000001 0001 61"


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", ["eager", "cooperative"])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(bytes.fromhex("ffff" + TOPICS + "ffffffff"), id="version -1"),
        pytest.param(bytes.fromhex("0000 00000001 ffff ffffffff"), id="null topic name"),
        pytest.param(bytes.fromhex("0000 00000002 0001 61 fffe 61 ffffffff"), id="topic name of length -2"),
        pytest.param(bytes.fromhex("0000 ffffffff ffffffff"), id="null topics"),
        pytest.param(bytes.fromhex("0000 00000003 0001 61 0001 61 ffff"), id="more topics than bytes"),
        pytest.param(bytes.fromhex("0000" + TOPICS + "00000005 01"), id="user data longer than the rest"),
        pytest.param(bytes.fromhex("0000" + TOPICS + "fffffffe"), id="user data of length -2 is null"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff 00000001 ffff 00000000"), id="null owned topic"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff 00000001 0001 61 ffffffff"), id="null owned partitions"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff 00000001 0001 61 fffffffe" + "00" * 8), id="owned count -2"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff 00000001 0001 61 7fffffff" + "00" * 8), id="owned count 2^31-1"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff ffffffff"), id="null owned"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "ffffffff"), id="version 1 ends behind null user data"),
        pytest.param(bytes.fromhex("0001" + TOPICS + "00000000"), id="version 1 ends behind empty user data"),
        pytest.param(encode_subscription(Subscription(("a",), V1, version=1))[:-4], id="version 1 ends behind a sticky list"),
        pytest.param(bytes.fromhex("0002" + TOPICS + "ffffffff"), id="version 2 ends behind the user data"),
        pytest.param(bytes.fromhex("0003" + TOPICS + "ffffffff 00000000 00000001 fffe"), id="rack of length -2 is null"),
        pytest.param(bytes.fromhex("0003" + TOPICS + "ffffffff 00000000 00000001 0004 72"), id="rack longer than the rest"),
        pytest.param(bytes.fromhex("0003" + TOPICS + "ffffffff 00000000 fffffff0 ffff"), id="generation -16 is none"),
        pytest.param(encode_subscription(Subscription(("a",), V1)), id="sticky v1"),
        pytest.param(encode_subscription(Subscription(("a",), V1[:-4])), id="sticky v0"),
        pytest.param(encode_subscription(Subscription(("a",), V1[:-1])), id="sticky v0 and three bytes"),
        pytest.param(encode_subscription(Subscription(("a",), V1 + b"\0\0")), id="sticky v1 and two bytes"),
        pytest.param(encode_subscription(Subscription(("a",), b"\0\1" + V1)), id="behind a stray 1"),
        pytest.param(encode_subscription(Subscription(("a",), b"\0\1" + V1[:-4])), id="v0 behind a stray 1"),
        pytest.param(encode_subscription(Subscription(("a",), b"\0\2" + V1)), id="behind a stray 2"),
        pytest.param(encode_subscription(Subscription(("a",), b"\0\1" + V1 + b"\0")), id="behind a stray 1, and a byte"),
        pytest.param(encode_subscription(Subscription(("a",), HOST)), id="only a host"),
        pytest.param(bytes.fromhex("0000 00000001 0003 ff6370 00000001 01"), id="a topic that ends as a host begins"),
        pytest.param(encode_subscription(Subscription(("a",), V1 + HOST)), id="v1 and a host"),
        pytest.param(encode_subscription(Subscription(("a",), V1[:-4] + CAPACITY)), id="v0 and a capacity"),
        pytest.param(encode_subscription(Subscription(("a",), V1 + HOST + CAPACITY)), id="v1, a host and a capacity"),
        pytest.param(encode_subscription(Subscription(("a",), b"\0\1" + V1 + HOST)), id="behind a stray 1, and a host"),
        pytest.param(encode_subscription(Subscription(("a",), V1 + HOST[4:])), id="v1 and half of a host"),
        pytest.param(encode_subscription(Subscription(("a",), V1 + b"\0" + HOST)), id="v1, a byte and a host"),
        pytest.param(encode_subscription(Subscription(("a",), V1[:-8] + HOST)), id="a list whose last claim is a host"),
        pytest.param(encode_subscription(Subscription(("a",), V1, version=0)), id="version 0 with a sticky list"),
        pytest.param(
            encode_subscription(Subscription(("a",), encode_sticky((("no", (1, 2)),), 5), version=0)), id="unknown topic"
        ),
    ],
)
def test_odd_members_among_good_ones(kind: Any, odd: bytes) -> None:
    metadata = [GOOD, odd, GOOD, odd + b"\0\0\0\0\0\0\0", GOOD]
    assert_equals_member_by_member(metadata, decode_group(metadata, INDEX, kind), kind)


@pytest.mark.parametrize("capacity", [1, 7])
@pytest.mark.parametrize("host", HOSTS)
def test_members_of_ours_are_not_read_one_by_one(host: str, capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    side = MemberSide("sticky", host, capacity=capacity)
    metadata = [side.subscription(["a"], None)]
    side.received([("a", 0), ("a", 1), ("topic-1", 3)], 7)
    metadata.append(side.subscription(["a"], None))
    monkeypatch.setattr(join_metadata, "decode_sticky", None)
    assert_equals_member_by_member(metadata, decode_group(metadata, INDEX, "eager"), "eager")


def test_a_summary_reads_each_topic_once_and_no_member_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 members with topic lists of their own: 1,827 names, 40 of them distinct."""
    topics = [f"topic-{'x' * (at % 3)}{at}" for at in range(40)]
    metadata = [encode_subscription(Subscription(tuple(topics[at % 21 :]), V1)) for at in range(60)]
    text_of = Mock(side_effect=bytes.decode)
    monkeypatch.setattr(columns, "_AT_ONCE", 7)
    monkeypatch.setattr(join_metadata, "decode_subscription", None)
    monkeypatch.setattr(subscription_fields, "java_text", text_of)
    assert summarise(metadata).topics == set(topics)
    assert text_of.call_count == len(topics)


def test_topics_of_members_that_are_read_one_by_one_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [encode_sticky((("a", (at,)), ("no", (1, 2))), at) + b"\0" for at in range(9)]
    metadata = [encode_subscription(Subscription(("a",), each)) for each in data]
    real, sizes = TopicIndex.find, []

    def find(self: TopicIndex, data: Any, start: Any, length: Any) -> Any:
        sizes.append(len(start))
        return real(self, data, start, length)

    monkeypatch.setattr(TopicIndex, "find", find)
    found = decode_group(metadata, INDEX, "eager")
    assert sizes.count(18) == 1
    assert len(sizes) < 9
    assert_equals_member_by_member(metadata, found, "eager")


def test_more_distinct_topic_lists_than_are_remembered() -> None:
    metadata = [encode_subscription(Subscription((NAMES[at % 13], NAMES[at // 13]))) for at in range(169)]
    assert_equals_member_by_member(metadata, decode_group(metadata, INDEX, "eager"), "eager")


def test_no_member_and_no_topic() -> None:
    assert len(decode_group([], INDEX, "eager").generation) == 0
    assert_summarises([])
    nothing = decode_group([encode_subscription(Subscription(("t",), None, (("t", (1, 2)),), 3))], TopicIndex([]), "cooperative")
    assert (len(nothing.subscription_topic), nothing.unknown_claims, nothing.generation.tolist()) == (0, 2, [3])


def test_a_count_of_two_billion_is_not_believed() -> None:
    liar = b"\x00\x03" + b"\x7f\xff\xff\xff" + b"\x00" * 50
    found = decode_group([liar, liar], INDEX, "cooperative")
    assert [at for at, _ in found.errors] == [0, 1]


def test_names_are_distinguished_by_every_byte() -> None:
    names = sorted({f"{'p' * width}{digit}{'s' * tail}" for width in range(18) for digit in range(3) for tail in range(3)})
    index = TopicIndex(names)
    raw = [name.encode() for name in names] + [b"p" * 18, b"", b"p\0"]
    data, starts = topic_lists.padded(raw)
    assert index.find(data, starts[:-1], np.diff(starts)).tolist() == [*range(len(names)), -1, -1, -1]


def test_a_name_is_not_another_that_ends_in_zeros() -> None:
    data, starts = topic_lists.padded([b"a", b"a\0", b""])
    assert TopicIndex(["a"]).find(data, starts[:-1], np.diff(starts)).tolist() == [0, -1, -1]
    assert TopicIndex([""]).find(data, starts[:-1], np.diff(starts)).tolist() == [-1, -1, 0]


def test_colliding_hashes_are_seeded_away(monkeypatch: pytest.MonkeyPatch) -> None:
    real, multipliers = TopicIndex._hash, []

    def hash_(self: TopicIndex, words: Any, length: Any) -> Any:
        multipliers.append(int(self._multiplier))
        return np.zeros(len(length), np.uint64) if len(multipliers) == 1 else real(self, words, length)

    monkeypatch.setattr(TopicIndex, "_hash", hash_)
    index = TopicIndex(["b", "a"])
    assert len(set(multipliers)) == 2
    data, starts = topic_lists.padded([b"a", b"b", b"c"])
    assert index.find(data, starts[:-1], np.diff(starts)).tolist() == [1, 0, -1]


@given(st.data(), st.lists(st.integers(0, 4), max_size=13), st.integers(0, 5), st.none() | st.binary(max_size=5))
def test_assignments_are_written_as_member_by_member(
    data: st.DataObject, sizes: list[int], n_members: int, user_data: bytes | None
) -> None:
    sizes = [*sizes, *[0] * (len(NAMES) - len(sizes))]
    owner = data.draw(st.lists(st.integers(-1, n_members - 1), min_size=sum(sizes), max_size=sum(sizes)))
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    found = encode_assignments(INDEX, start, np.array(owner, np.int32), n_members, user_data=user_data)
    assert len(found) == n_members
    for member, raw in enumerate(found):
        given_ = tuple(
            (name, tuple(at for at in range(sizes[topic]) if owner[start[topic] + at] == member))
            for topic, name in enumerate(NAMES)
        )
        assert raw == encode_assignment(Assignment(given_, user_data))


def test_more_members_than_sixteen_bits_tell() -> None:
    owner = np.array([70_000, 3, 65_536, 3, 0, -1], np.int32)
    found = encode_assignments(TopicIndex(["t"]), np.array([0, 6]), owner, 70_001)
    assert {at: decode_assignment(raw).partitions for at, raw in enumerate(found) if len(raw) > 10} == {
        0: (("t", (4,)),),
        3: (("t", (1, 3)),),
        65_536: (("t", (2,)),),
        70_000: (("t", (0,)),),
    }
