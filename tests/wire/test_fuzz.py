"""What row-wise decoders make of changed bytes, and what is written reads back (tests/fuzz: any bytes, of every reader)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    grouped,
)
from counterpoise.wire.offsets_topic.keys import RecordType, decode_key
from counterpoise.wire.offsets_topic.records import Fault, Record, Undecodable, decode_record, decode_value, encode_value
from counterpoise.wire.user_data import (
    Claims,
    StickyData,
    claims,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from tests.wire.strategies import bent, raw_records, texts, typed_values, versions

partitions = st.integers(0, 2**31 - 1)
owned = st.dictionaries(texts, st.lists(partitions, min_size=1, max_size=4).map(tuple), max_size=3).map(
    lambda entries: tuple(entries.items())
)
generations = st.integers(-1, 2**31 - 1)
user_data = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(encode_sticky, owned, st.none() | generations),
    st.builds(lambda data: b"\x00\x01" + data, st.builds(encode_sticky, owned, generations)),
    st.builds(encode_cooperative, generations),
)
subscriptions = st.builds(
    Subscription, st.lists(texts, max_size=4).map(tuple), user_data, owned, generations, st.none() | texts, st.integers(0, 5)
)
assignments = st.builds(Assignment, owned, st.none() | st.binary(max_size=8), st.integers(0, 5))


@given(st.data(), user_data)
def test_any_user_data_is_history_or_flagged_and_writing_it_again_reads_the_same(data: st.DataObject, raw: bytes | None) -> None:
    bytes_ = data.draw(bent(raw or b""))
    for decode in (decode_sticky, decode_cooperative):
        found = decode(bytes_)
        assert found.readable or found == StickyData(readable=False)
    sticky = decode_sticky(bytes_)
    if sticky.readable:
        assert decode_sticky(encode_sticky(sticky.owned, sticky.generation)) == sticky


@given(st.data(), subscriptions, st.sampled_from(["eager", "cooperative"]))
def test_claims_never_raise_and_an_unreadable_history_claims_nothing_of_the_user_data(
    data: st.DataObject, subscription: Subscription, kind: Any
) -> None:
    try:
        decoded = decode_subscription(data.draw(bent(encode_subscription(subscription))))
    except WireError:
        return
    found = claims(decoded, kind)
    assert isinstance(found, Claims)
    assert found.generation >= -1
    if found.unreadable:
        assert found == Claims(() if kind == "eager" else decoded.owned, -1, True)


@given(subscriptions)
def test_a_written_subscription_reads_back_sorted_as_far_as_its_version_carries(subscription: Subscription) -> None:
    raw = encode_subscription(subscription)
    found = decode_subscription(raw)
    version = min(subscription.version, 3)
    assert sorted(found.topics) == sorted(subscription.topics)
    assert dict(found.owned) == ({topic: tuple(sorted(each)) for topic, each in subscription.owned} if version >= 1 else {})
    assert found.generation == (subscription.generation if version >= 2 else -1)
    assert found.rack == (subscription.rack or None if version >= 3 else None)
    assert (found.user_data, found.version) == (subscription.user_data, version)
    if subscription.rack != "":
        assert encode_subscription(found) == raw


@given(assignments)
def test_a_written_assignment_reads_back(assignment: Assignment) -> None:
    found = decode_assignment(encode_assignment(assignment))
    assert found == Assignment(tuple(grouped(assignment.partitions)), assignment.user_data, min(assignment.version, 3))


@given(st.data(), versions)
def test_every_value_of_every_type_and_version_reads_back(data: st.DataObject, kind: tuple[RecordType, int]) -> None:
    record_type, version = kind
    value = data.draw(typed_values(record_type, version))
    raw = encode_value(record_type, value, version)
    assert decode_value(record_type, raw) == (version, value)


@given(st.data(), versions)
def test_every_type_and_version_cut_at_any_byte_or_lengthened_is_a_wire_error(
    data: st.DataObject, kind: tuple[RecordType, int]
) -> None:
    record_type, version = kind
    whole = encode_value(record_type, data.draw(typed_values(record_type, version)), version)
    for wrong in (*(whole[:end] for end in range(len(whole))), whole + b"\x00"):
        with pytest.raises(WireError):
            decode_value(record_type, wrong)


@given(st.data(), raw_records())
def test_any_record_bytes_are_a_record_a_tombstone_or_a_reason(data: st.DataObject, raw: tuple[bytes, bytes | None]) -> None:
    key = data.draw(bent(raw[0]))
    value = None if raw[1] is None else data.draw(bent(raw[1]))
    found = decode_record(key, value)
    if isinstance(found, Undecodable):
        assert found.fault is not Fault.NONE
        assert found.reason
    else:
        assert decode_key(key) == (found.record_type, found.key)
        assert isinstance(found, Record) == (value is not None)
