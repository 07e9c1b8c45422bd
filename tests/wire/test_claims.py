"""What a member claims: the table of client libraries, row by row, and the corners between them."""

from __future__ import annotations

import pytest

from counterpoise.wire.consumer_protocol import Subscription
from counterpoise.wire.user_data import (
    Claims,
    StickyData,
    claims,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)

OWNED = (("orders", (0, 3)), ("returns", (1,)))
OLD = (("orders", (7,)),)
STRAY = b"\x00\x01"


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        pytest.param(Subscription(("orders",), None, (), -1), Claims((), -1, False), id="Java, first join"),
        pytest.param(
            Subscription(("orders",), encode_sticky(OWNED, 6), (), 6), Claims(OWNED, 6, False), id="Java: both in the user data"
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OWNED, 6), (), 8),
            Claims(OWNED, 6, False),
            id="the user data's generation is the claim's, whatever the field says",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OWNED, None), (), 8),
            Claims(OWNED, -1, False),
            id="user data without generation claims with none",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky((), 4), OLD, 4),
            Claims((), 4, False),
            id="an eager member's owned field does not count",
        ),
        pytest.param(Subscription(("orders",), b"", version=0), Claims((), -1, False), id="kafka-python, first join"),
        pytest.param(
            Subscription(("orders",), STRAY + encode_sticky(OWNED, 3), version=0),
            Claims(OWNED, 3, False),
            id="kafka-python: behind a stray int16",
        ),
        pytest.param(
            Subscription(("orders",), STRAY + encode_sticky((), 3), version=0),
            Claims((), 3, False),
            id="kafka-python: nothing owned, behind a stray int16",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OWNED, -1), version=0),
            Claims(OWNED, -1, False),
            id="aiokafka: never a generation",
        ),
        pytest.param(Subscription(("orders",), b"\xde\xad\xbe\xef\x01", OLD, 5), Claims((), -1, True), id="unreadable, counted"),
        pytest.param(Subscription(("orders",), b"\x01", version=1), Claims((), -1, True), id="one byte, counted"),
    ],
)
def test_eager_sticky_claims(subscription: Subscription, expected: Claims) -> None:
    assert claims(subscription, "eager") == expected


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        pytest.param(Subscription(("orders",), encode_cooperative(-1), (), -1), Claims((), -1, False), id="Java, first join"),
        pytest.param(Subscription(("orders",), encode_cooperative(6), OWNED, 6), Claims(OWNED, 6, False), id="Java"),
        pytest.param(
            Subscription(("orders",), encode_cooperative(5), OWNED, 6),
            Claims(OWNED, 6, False),
            id="the field wins over the user data",
        ),
        pytest.param(
            Subscription(("orders",), encode_cooperative(5), OWNED, -1),
            Claims(OWNED, 5, False),
            id="-1 in the field: look into the user data",
        ),
        pytest.param(
            Subscription(("orders",), encode_cooperative(5), OWNED, version=1),
            Claims(OWNED, 5, False),
            id="Java, version 1: generation from the user data",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OWNED, 9), OWNED, 9), Claims(OWNED, 9, False), id="librdkafka: sticky layout"
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OLD, 9), OWNED, -1),
            Claims(OWNED, 9, False),
            id="librdkafka: generation from the sticky layout, owned from the field",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OLD, 9), (), -1),
            Claims((), 9, False),
            id="librdkafka after a lost membership: the empty field wins over the old list",
        ),
        pytest.param(
            Subscription(("orders",), b"", OWNED, version=1),
            Claims(OWNED, -1, False),
            id="kafka-python: owned, no generation anywhere",
        ),
        pytest.param(
            Subscription(("orders",), encode_sticky(OLD, 2), version=0),
            Claims(OLD, 2, False),
            id="version 0 has no owned field: the user data's list counts",
        ),
        pytest.param(
            Subscription(("orders",), encode_cooperative(2), version=0), Claims((), 2, False), id="version 0, only a generation"
        ),
        pytest.param(
            Subscription(("orders",), b"\xde\xad\xbe\xef\x01", OWNED, 6),
            Claims(OWNED, 6, False),
            id="garbage that does not matter",
        ),
        pytest.param(
            Subscription(("orders",), b"\xde\xad\xbe\xef\x01", OWNED, -1),
            Claims(OWNED, -1, True),
            id="garbage that matters, counted",
        ),
        pytest.param(Subscription(("orders",), b"\x00", OWNED, version=1), Claims(OWNED, -1, True), id="one byte, counted"),
    ],
)
def test_cooperative_claims(subscription: Subscription, expected: Claims) -> None:
    assert claims(subscription, "cooperative") == expected


def test_a_layout_that_fits_to_the_last_byte_wins() -> None:
    v1 = encode_sticky(OWNED, 6)
    assert decode_sticky(v1) == StickyData(OWNED, 6)
    assert decode_sticky(v1[:-4]) == StickyData(OWNED, None)
    assert decode_sticky(STRAY + v1) == StickyData(OWNED, 6)
    assert decode_sticky(STRAY + v1[:-4]) == StickyData(OWNED, None)
    assert decode_sticky(v1 + b"\x00\x00") == StickyData(OWNED, 6)
    assert decode_sticky(STRAY + v1 + b"\x00") == StickyData(readable=False)
    assert decode_cooperative(v1) == StickyData(OWNED, 6)
    assert decode_cooperative(v1 + b"\x00") == StickyData((), 2), "not the sticky layout: a leading generation, as Java reads it"


def test_null_and_empty_user_data_mean_the_same() -> None:
    for kind in ("eager", "cooperative"):
        null, empty = (claims(Subscription(("t",), data, OWNED, 3), kind) for data in (None, b""))
        assert null == empty
