"""What a leader reads from the bytes of each library is what the simulator says the member claims."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.clients.member_side import MemberSide
from counterpoise.simulation.dialects import DIALECTS, Statement
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, TopicPartitions, encode_subscription
from counterpoise.wire.user_data import encode_cooperative, encode_sticky
from tests.planning.join import read_member

KEYS = {"nothing": [], "two": [0, 2]}


def said(dialect: str, protocol: str, owned: list[int], remembered: list[int], generation: int, old: int) -> Statement:
    keys = [np.array(listed, np.int64) for listed in (owned, remembered)]
    return Statement(0, "m", None, 1, DIALECTS[dialect], protocol, ("sticky",), ("t",), keys[0], generation, keys[1], old)


def pairs(keys: list[int]) -> tuple[TopicPartitions, ...]:
    return (("t", tuple(keys)),) if keys else ()


def bytes_of(statement: Statement) -> bytes:
    """The subscription as the library writes it, first join and later ones."""
    owned, remembered = pairs(statement.owned.tolist()), pairs(statement.remembered.tolist())
    name, cooperative = statement.dialect.name, statement.protocol == "cooperative"
    sticky = encode_sticky(remembered, statement.remembered_generation) if remembered else b""
    if name == "java":
        data = encode_cooperative(statement.remembered_generation) if cooperative else sticky or None
        return encode_subscription(Subscription(("t",), data, owned, statement.generation, None, 3))
    if name.startswith("counterpoise"):
        side = MemberSide("cooperative-sticky" if cooperative else "sticky", name.split("(")[1].strip(")"))
        side.assigned, side.generation = remembered, statement.remembered_generation
        return side.subscription(["t"], owned if cooperative else None)
    if name == "librdkafka":
        generation = statement.generation if cooperative else -1
        return encode_subscription(Subscription(("t",), sticky if cooperative else b"", owned, generation, "", 3))
    if name == "kafka-python" and cooperative:
        return encode_subscription(Subscription(("t",), b"", owned, version=1))
    if name == "kafka-python":
        return encode_subscription(Subscription(("t",), sticky and b"\x00\x01" + sticky, version=0))
    return encode_subscription(Subscription(("t",), encode_sticky(remembered, -1) if remembered else b"", version=0))


CASES = [
    ("the first join", [], [], -1, -1),
    ("a later join, everything revoked", [], [0, 2], 5, 5),
    ("a later join with partitions", [0, 2], [0, 2], 5, 5),
    ("after a lost membership", [], [0, 2], -1, 5),
]


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_claims_are_what_a_leader_reads(name: str, protocol: str, case: tuple[str, list[int], list[int], int, int]) -> None:
    _, owned, remembered, generation, old = case
    if protocol not in DIALECTS[name].protocols or (protocol == "eager" and owned):
        return
    statement = said(name, protocol, owned, remembered, generation, old)
    member, unreadable = read_member(JoinMember("m", bytes_of(statement)), protocol)  # type: ignore[arg-type]
    keys, claimed = statement.claims(protocol)
    assert not unreadable
    assert sorted(member.owned.get("t", ())) == keys.tolist()
    assert member.generation == claimed or not len(keys)


def test_librdkafka_after_a_lost_membership_claims_nothing_though_its_user_data_does() -> None:
    """The trap: who believed the user data would wait for a revocation that never comes."""
    statement = said("librdkafka", "cooperative", [], [0, 2], -1, 5)
    assert statement.claims("cooperative")[0].tolist() == []
    assert b"\x00\x00\x00\x02" in bytes_of(statement)


def test_an_eager_member_claims_nothing_from_a_cooperative_leader() -> None:
    assert said("aiokafka", "eager", [], [0, 2], 5, 5).claims("cooperative")[0].tolist() == []
