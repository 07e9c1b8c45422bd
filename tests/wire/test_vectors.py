"""The consumer protocol against what Kafka's own classes write and read, byte for byte, both ways."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    grouped,
)
from counterpoise.wire.user_data import StickyData, decode_cooperative, decode_sticky, encode_cooperative, encode_sticky

VECTORS = Path(__file__).resolve().parent.parent / "data" / "vectors" / "wire.jsonl.gz"
CASES: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]
NOTHING_OWNED = {"wire-147", "wire-205"}
"""Version 1 ends behind the user data. kafka-go joins so; Java refuses it."""


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    found = [case for case in CASES if case["kind"] in kinds]
    assert found
    return found


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def entries(pairs: list[list[Any]]) -> tuple[TopicPartitions, ...]:
    return tuple((topic, (partition,)) for topic, partition in pairs)


def flat(owned: tuple[TopicPartitions, ...]) -> list[list[Any]]:
    return [[topic, partition] for topic, partitions in owned for partition in partitions]


def test_every_vector_is_of_a_kind_that_is_checked() -> None:
    kinds = {"subscription", "assignment", "sticky-userdata", "cooperative-userdata"}
    assert {case["kind"] for case in CASES} == kinds | {f"{kind}-decode" for kind in kinds}
    assert len(CASES) == 2158


def test_subscriptions_are_written_as_java_writes_them() -> None:
    for case in of_kind("subscription"):
        given = Subscription(
            tuple(case["topics"]),
            raw(case["user_data"]),
            entries(case["owned"]),
            case["generation"],
            case["rack"],
            case["version"],
        )
        if "error" in case:
            with pytest.raises(WireError):
                encode_subscription(given)
        else:
            assert encode_subscription(given).hex() == case["hex"], case["id"]


def test_assignments_are_written_as_java_writes_them() -> None:
    for case in of_kind("assignment"):
        given = Assignment(entries(case["partitions"]), raw(case["user_data"]), case["version"])
        assert encode_assignment(given).hex() == case["hex"], case["id"]


def test_subscriptions_are_read_as_java_reads_them() -> None:
    for case in of_kind("subscription", "subscription-decode"):
        if "hex" not in case:
            continue
        data = bytes.fromhex(case["hex"])
        if case["id"] in NOTHING_OWNED:
            assert decode_subscription(data) == Subscription(("a", "m", "z"), b"\7", version=1)
            continue
        if "error" in case:
            with pytest.raises(WireError):
                decode_subscription(data)
            continue
        found, wanted = decode_subscription(data), case["decoded"]
        assert list(found.topics) == wanted["topics"], case["id"]
        assert found.user_data == raw(wanted["user_data"]), case["id"]
        assert flat(found.owned) == wanted["owned"], case["id"]
        assert found.generation == (-1 if wanted["generation"] is None else wanted["generation"]), case["id"]
        assert found.rack == wanted["rack"], case["id"]
        assert found.version == int.from_bytes(data[:2], "big", signed=True), case["id"]


def test_assignments_are_read_as_java_reads_them() -> None:
    for case in of_kind("assignment", "assignment-decode"):
        data = bytes.fromhex(case["hex"])
        if not data:  # Java refuses it; here it is the assignment of a member that the leader left out
            assert decode_assignment(data) == Assignment()
        elif "error" in case:
            with pytest.raises(WireError):
                decode_assignment(data)
        else:
            found = decode_assignment(data)
            # Java groups by topic in order of first appearance when it reads.
            assert flat(tuple(grouped(found.partitions))) == case["decoded"]["partitions"], case["id"]
            assert found.user_data == raw(case["decoded"]["user_data"]), case["id"]


def test_sticky_user_data_is_read_as_java_reads_it() -> None:
    for case in of_kind("sticky-userdata", "sticky-userdata-decode"):
        found, wanted = decode_sticky(bytes.fromhex(case["hex"])), case["decoded"]
        assert sorted(flat(found.owned)) == sorted(wanted["owned"]), case["id"]
        # Java says -1 for bytes it cannot read; here there is no generation and a flag.
        if found.readable:
            assert found.generation == wanted["generation"], case["id"]
        else:
            assert (found.generation, wanted["generation"]) == (None, -1), case["id"]


def test_sticky_user_data_is_written_with_the_bytes_java_writes() -> None:
    for case in of_kind("sticky-userdata"):
        # Java's order of topics is a HashMap's: take it from the bytes, the rest from the fields.
        data = bytes.fromhex(case["hex"])
        order = [topic for topic, _ in decode_sticky(data).owned]
        owned = sorted(grouped(entries(case["owned"])), key=lambda entry: order.index(entry[0]))
        assert encode_sticky(tuple(owned), case["generation"] if case["version"] else None) == data, case["id"]


def test_cooperative_user_data_is_read_and_written_as_java_does() -> None:
    for case in of_kind("cooperative-userdata", "cooperative-userdata-decode"):
        found = decode_cooperative(bytes.fromhex(case["hex"]))
        generation = -1 if found.generation is None else found.generation
        assert ([], generation) == (case["decoded"]["owned"], case["decoded"]["generation"]), case["id"]
        if case["kind"] == "cooperative-userdata":
            assert encode_cooperative(case["generation"]).hex() == case["hex"], case["id"]


def test_user_data_cut_short_is_flagged_and_gives_no_history() -> None:
    whole = encode_sticky((("t", (0, 1)), ("u", (2,))), 7)
    for end in range(len(whole)):
        found = decode_sticky(whole[:end])
        if end in (0, *range(len(whole) - 4, len(whole))):
            assert found.readable
        else:
            assert found == StickyData(readable=False)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_cut_anywhere_is_an_error_and_never_a_value(version: int) -> None:
    sent = Subscription(("t", "ü"), b"data", (("t", (1, 5)),), 9, "rack", version)
    whole, of_version_0 = encode_subscription(sent), encode_subscription(replace(sent, version=0))
    assert decode_subscription(whole).version == version
    for end in range(len(whole)):
        if version == 1 and end == len(of_version_0):
            continue
        with pytest.raises(WireError) as caught:
            decode_subscription(whole[:end])
        assert 0 <= caught.value.offset <= end


@pytest.mark.parametrize(("tail", "user_data"), [("ffffffff", None), ("00000000", b""), ("00000002 7231", b"r1")])
def test_version_1_may_end_behind_the_user_data_and_later_versions_may_not(tail: str, user_data: bytes | None) -> None:
    data = bytes.fromhex("0001 00000001 0006 6f7264657273" + tail)
    assert decode_subscription(data) == Subscription(("orders",), user_data, version=1)
    for wrong in (data + b"\0", data + bytes(3), b"\0\2" + data[2:], b"\0\3" + data[2:]):
        with pytest.raises(WireError, match="owned"):
            decode_subscription(wrong)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_cut_anywhere_but_at_its_start_is_an_error(version: int) -> None:
    whole = encode_assignment(Assignment((("t", (1, 5)), ("u", (0,))), b"data", version))
    for end in range(1, len(whole)):
        with pytest.raises(WireError):
            decode_assignment(whole[:end])


@pytest.mark.parametrize("version", [4, 9, 32767])
def test_a_future_version_is_read_as_the_newest_known_and_the_rest_is_ignored(version: int) -> None:
    known = Subscription(("t",), None, (("t", (0,)),), 4, "r")
    data = version.to_bytes(2, "big") + encode_subscription(known)[2:] + b"\x00\x01\x02"
    assert decode_subscription(data) == Subscription(("t",), None, (("t", (0,)),), 4, "r", version)


def test_a_declared_length_of_two_gigabytes_allocates_nothing() -> None:
    data = bytes.fromhex("0000" + "7fffffff" + "00" * 8)
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(WireError, match="exceeds the 8 bytes left"):
            decode(data)
