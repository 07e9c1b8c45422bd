"""What an assignor does when its host shows less than expected; capacities; settings; state per consumer."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer

from counterpoise.assignors import registry
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.clients import aiokafka, kafka_python
from counterpoise.clients.calling_host import calling_object, calling_variable
from counterpoise.clients.leader_side import group_to_lead, lead_group
from counterpoise.clients.member_side import MemberSide
from counterpoise.clients.own_fields import (
    HOSTS,
    assignment_user_data,
    capacity_of,
    generation_handed_out,
    host_of,
    with_capacity,
    with_host,
    withheld_of,
)
from counterpoise.errors import HostError, OptionError
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from counterpoise.wire.user_data import claims, decode_cooperative, decode_sticky, encode_cooperative, encode_sticky
from tests.clients.hosts import Answer, host_member

MODULES = [pytest.param(kafka_python, id="kafka-python"), pytest.param(aiokafka, id="aiokafka")]
CLUSTER: Any = SimpleNamespace(brokers=list, partitions_for_topic={"t": {0, 1, 2, 3}}.get, _partitions={}, topics=lambda: {"t"})
OWNED = (("t", (1, 3)),)


def decoded(metadata: bytes, version: int = 3) -> Any:
    """A member as kafka-python 2 and aiokafka hand it to assignors: version 0 of what it sent."""
    read = decode_subscription(metadata)
    return SimpleNamespace(version=version, subscription=list(read.topics), user_data=read.user_data)


@given(st.binary(max_size=40) | st.none(), st.integers(1, 2**31 - 1))
def test_a_capacity_comes_back_and_a_capacity_of_one_adds_nothing(user_data: bytes | None, capacity: int) -> None:
    assert capacity_of(with_capacity(user_data, capacity)) == (capacity if capacity > 1 else capacity_of(user_data))
    assert with_capacity(user_data, 1) == user_data


@given(st.integers(-1, 2**31 - 1), st.integers(2, 2**31 - 1), st.integers(0, 3))
def test_neither_host_nor_capacity_changes_a_claim(generation: int, capacity: int, topics: int) -> None:
    """Neither in sticky data nor behind a bare generation, whatever number of topics that generation looks like."""
    sticky = encode_sticky(tuple((f"t{at}", (0, at)) for at in range(topics)), generation)
    assert decode_sticky(with_capacity(sticky, capacity)) == decode_sticky(sticky)
    for written in (None, encode_cooperative(generation), encode_sticky((), generation)):
        for host in HOSTS:
            hosted = with_host(written, host)
            assert (
                decode_cooperative(hosted) == decode_cooperative(with_capacity(hosted, capacity)) == decode_cooperative(written)
            )
            assert decode_sticky(hosted) == decode_sticky(with_capacity(hosted, capacity)) == decode_sticky(written)
            assert (host_of(hosted), host_of(with_capacity(hosted, capacity)), capacity_of(hosted)) == (host, host, 1)


@given(st.binary(max_size=40))
def test_foreign_user_data_is_never_an_error(data: bytes) -> None:
    assert capacity_of(data) >= 1
    assert host_of(data) in (None, *HOSTS)
    assert generation_handed_out(data) >= -1
    assert withheld_of(data) >= 0


@given(st.integers(-1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_an_assignment_says_its_generation_and_how_many_partitions_wait(generation: int, withheld: int) -> None:
    data = assignment_user_data(generation, withheld)
    assert (generation_handed_out(data), withheld_of(data)) == (generation, withheld)


@pytest.mark.parametrize(
    ("strategy", "hands_out", "generation"),
    [("sticky", False, None), ("sticky", True, 8), *((plain, True, None) for plain in ("range", "roundrobin", "lag"))],
)
def test_only_a_leader_on_a_host_without_generations_hands_one_out(
    strategy: str, hands_out: bool, generation: int | None
) -> None:
    """A broker refuses members of the protocol `consumer` in a group whose assignments have user data."""
    cluster: Any = SimpleNamespace(brokers=lambda: (), partitions_for_topic=lambda _: {0, 1})
    joining = [JoinMember("a", MemberSide(strategy, "kafka-python").subscription(["t"], None))]
    given = group_to_lead(strategy, cluster, joining, group="g", generation=8, patience_s=None, hands_out_generation=hands_out)
    led = lead_group(given, {}, lambda *_: {"t": [0, 0]})
    data = decode_assignment(led.assignments["a"]).user_data
    assert (generation_handed_out(data) if data else None) == generation
    assert (kafka_python.StickyAssignor.hands_out_generation, aiokafka.StickyAssignor.hands_out_generation) == (False, True)


def test_a_leader_logs_subscriptions_to_topics_that_its_client_does_not_know(caplog: pytest.LogCaptureFixture) -> None:
    joining = [JoinMember("a", MemberSide("sticky", "kafka-python").subscription(["t", "ordres"], None))]
    lead_group(group_to_lead("sticky", CLUSTER, joining, group="g", generation=8, patience_s=None), {}, lambda *_: None)
    assert caplog.messages == ["sticky: topics that this leader does not know, so they are not assigned now: ordres"]


@pytest.mark.parametrize("capacity", [0, -1, 2**31, 1.5, True, "2"])
def test_a_capacity_that_is_none_is_refused(capacity: Any) -> None:
    with pytest.raises(OptionError, match="capacity: expected a whole number from 1 to 2147483647"):
        kafka_python.StickyAssignor(capacity=capacity)


@pytest.mark.parametrize("module", MODULES)
def test_numbers_of_numpy_are_settings(module: ModuleType) -> None:
    module.StickyAssignor(capacity=np.int64(2))
    assert with_capacity(None, np.int64(2)) == with_capacity(None, 2)  # type: ignore[arg-type]
    for seconds in (np.int64(2), np.float32(2)):
        assert module.LagAssignor(lag=dict, lag_within_s=seconds).lag_reader.bounded(None) == 2
    for name, wrong in (("capacity", np.timedelta64(2, "s")), ("lag_within_s", np.timedelta64(2, "s")), ("lag_within_s", 2j)):
        with pytest.raises(OptionError, match=name):
            (module.LagAssignor if name == "lag_within_s" else module.StickyAssignor)(**{"lag": dict, name: wrong})


@pytest.mark.parametrize("module", MODULES)
def test_settings_are_checked_at_once(module: ModuleType) -> None:
    with pytest.raises(OptionError, match=r"StickyAssignor: .*'rocks'; its settings, by name: rack, capacity"):
        module.StickyAssignor(rocks="after")
    with pytest.raises(OptionError, match="strategy 'lag-sticky', option 'tolerance': -1 does not fit"):
        module.LagStickyAssignor(lag=dict, tolerance=-1)
    with pytest.raises(OptionError, match="rack: expected a name, not 5"):
        module.StickyAssignor(rack=5)
    with pytest.raises(OptionError, match="on_lead: a plain function of one argument is expected, not 5"):
        module.StickyAssignor(on_lead=5)
    with pytest.raises(OptionError, match="LagAssignor needs a source of lag"):
        module.LagAssignor(lag={"t": [1]})
    with pytest.raises(OptionError, match="lag_within_s: expected more than 0 seconds, not 'x'"):
        module.LagAssignor(lag=dict, lag_within_s="x")
    with pytest.raises(OptionError, match=r"StickyAssignor was called on the class, but by no consumer: make an instance"):
        module.StickyAssignor.metadata(["t"])


@pytest.mark.parametrize("module", MODULES)
def test_rack_weight_and_topics_travel(module: ModuleType) -> None:
    sent = decode_subscription(module.StickyAssignor(rack="r1", capacity=3).metadata({"b", "a"}))
    assert (sent.version, sent.topics, sent.rack, capacity_of(sent.user_data)) == (3, ("a", "b"), "r1", 3)
    assert sent.owned == ()


@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_two_consumers_given_one_class_have_two_states(host: str) -> None:
    module = {"kafka_python": kafka_python, "aiokafka": aiokafka}[host]
    answer = Answer({"t": 2})
    members = [host_member(host, name, ["t"], [module.StickyAssignor], answer) for name in ("a", "b")]
    sent = [(member.id, member.join()["sticky"], None) for member in members]
    given_out = members[0].lead("sticky", 1, sent)
    for member in members:
        member.complete("sticky", 1, given_out[member.id])
    again = [claims(decode_subscription(member.join()["sticky"]), "eager") for member in members]
    assert [each.owned for each in again] == [(("t", (0,)),), (("t", (1,)),)]
    assert [each.generation for each in again] == [1, 1]


@pytest.mark.parametrize("module", MODULES)
def test_without_the_callers_generation_the_leaders_word_counts_and_a_foreign_leaders_silence_is_none(module: ModuleType) -> None:
    assignor = module.StickyAssignor()
    for user_data, generation in ((assignment_user_data(41, 0), 41), (None, -1), (b"", -1)):
        assignor.on_assignment(SimpleNamespace(partitions=lambda: [("t", 3), ("t", 1)], user_data=user_data))
        assert claims(decode_subscription(assignor.metadata(["t"])), "eager").generation == generation
        assert claims(decode_subscription(assignor.metadata(["t"])), "eager").owned == OWNED


@pytest.mark.parametrize("module", MODULES)
def test_an_assignor_that_no_consumer_calls_does_not_lead(module: ModuleType) -> None:
    """The members' owned partitions, racks and static ids are not in what it is given: a plan without them could be wrong."""
    member = module.StickyAssignor()
    members = {"a": decoded(member.metadata(["t"])), "b": decoded(module.StickyAssignor().metadata(["t"]))}
    with pytest.raises(HostError, match=r"the members that it passes to StickyAssignor cannot be read: "):
        member.assign(CLUSTER, members)


@pytest.mark.parametrize(("name", "generation"), [("RangeAssignor", -1), ("StickyAssignor", 4), ("CooperativeStickyAssignor", 4)])
def test_what_kafka_python_3_passes_is_enough_to_lead(name: str, generation: int) -> None:
    """Its decoded subscriptions have owned partitions, racks and static ids; only the generation is not."""
    if version("kafka-python").startswith("2."):
        return  # it passes a subscription of version 0 to assignors, as `decoded` does
    metadata = import_module("kafka.protocol.consumer.metadata")
    new = Subscription(("t",))
    sent = {"a": new if generation < 0 else Subscription(("t",), encode_sticky(OWNED, generation), OWNED, generation), "b": new}
    members = [
        SimpleNamespace(
            member_id=member,
            metadata=metadata.ConsumerProtocolSubscription.decode(encode_subscription(each)),
            group_instance_id=f"static-{9 - at}",
        )
        for at, (member, each) in enumerate(sent.items())
    ]
    given_out = getattr(kafka_python, name)().assign(CLUSTER, members)
    read = {member: decode_assignment(data).partitions for member, data in given_out.items()}
    if name == "RangeAssignor":
        assert read == {"a": (("t", (2, 3)),), "b": (("t", (0, 1)),)}
    else:
        assert read == {"a": OWNED, "b": (("t", (0, 2)),)}


def test_a_cooperative_assignor_that_no_consumer_calls_does_not_join() -> None:
    """Claiming too little would give a partition two owners."""
    with pytest.raises(HostError, match="CooperativeStickyAssignor: no consumer of kafka-python is calling"):
        kafka_python.CooperativeStickyAssignor().metadata(["t"])


def test_kafka_python_2_passes_the_generation_afterwards() -> None:
    assignor = kafka_python.StickyAssignor()
    assignor.on_assignment(SimpleNamespace(partitions=lambda: [("t", 1)], user_data=None))
    assignor.on_generation_assignment(12)
    assert claims(decode_subscription(assignor.metadata(["t"])), "eager").generation == 12


def test_the_rack_of_a_kafka_python_consumer_is_read_while_it_is_being_made() -> None:
    """Its own `client_rack`, unless the assignor was given another; nothing where the consumer has none."""

    class Consumer(KafkaConsumer):  # type: ignore[misc]
        def __init__(self, rack: str, assignor: Any) -> None:
            self.config = {"client_rack": rack}
            assignor.supported_protocols()

        def __del__(self) -> None:
            pass

    for client_rack, chosen, wanted in (("r1", None, "r1"), ("r1", "r2", "r2"), ("", None, None)):
        assignor = kafka_python.StickyAssignor(rack=chosen)
        Consumer(client_rack, assignor)
        assert decode_subscription(assignor.metadata(["t"])).rack == wanted


def test_leaders_know_racks_of_replicas() -> None:
    """A member in the rack of a partition's replica gets it under `range`, as KIP-881 has it."""
    answer = Answer({"t": 2}, {"t": [[2], [1]]}, {1: "r1", 2: "r2"})
    members = [
        host_member("kafka_python", name, ["t"], [kafka_python.RangeAssignor(rack=rack)], answer)
        for name, rack in (("a", "r1"), ("b", "r2"))
    ]
    sent = [(member.id, member.join()["range"], None) for member in members]
    given_out = {member: decode_assignment(data).partitions for member, data in members[0].lead("range", 1, sent).items()}
    assert given_out == {"a": (("t", (1,)),), "b": (("t", (0,)),)}


def test_what_a_caller_knows_is_found_and_what_it_does_not_is_none() -> None:
    class Host:
        def asks(self) -> tuple[Any, Any, Any]:
            secret = 7
            assert secret
            return calling_object((Host,)), calling_variable("asks", "secret"), calling_variable("nobody", "secret")

    host = Host()

    def plug_in() -> Any:
        return calling_object((Host,))

    class Caller(Host):
        def calls(self) -> Any:
            return plug_in()

    caller = Caller()
    assert caller.calls() is caller
    assert host.asks() == (host, 7, None)
    assert plug_in() is None


def test_a_newcomer_that_got_nothing_begins_the_second_round_with_a_changed_subscription() -> None:
    """A coordinator answers an unchanged one with the present generation, and the newcomer would wait a heartbeat interval."""
    member = host_member("kafka_python", "a", ["t"], [kafka_python.CooperativeStickyAssignor], Answer({"t": 2}))
    first = member.join()["cooperative-sticky"]
    member.complete("cooperative-sticky", 5, encode_assignment(Assignment((), assignment_user_data(5, 1))))
    second = member.join()["cooperative-sticky"]
    assert second != first
    assert (decode_subscription(second).owned, decode_subscription(second).generation) == ((), 5)


@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_who_revoked_nothing_joins_again_at_once_if_partitions_wait_and_not_if_the_same_number_still_does(host: str) -> None:
    module = {"kafka_python": kafka_python, "aiokafka": aiokafka}[host]
    member: Any = host_member(host, "a", ["t"], [module.CooperativeStickyAssignor], Answer({"t": 2}))
    member.join()
    asked: list[int] = []
    member.coordinator.request_rejoin = lambda: asked.append(member.generation)
    for generation, withheld in enumerate((0, 2, 2, 1, 0), start=1):
        member.generation = generation
        data = encode_assignment(Assignment((("t", (0,)),), assignment_user_data(generation, withheld)))
        member.complete("cooperative-sticky", generation, data)
    assert asked == [2, 4]


@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_a_strategy_that_is_only_cooperative_is_led_so_also_if_nobody_owns_anything(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(registry.strategy("cooperative-sticky"), name="own", protocols=(COOPERATIVE,))
    monkeypatch.setitem(registry._BY_NAME, "own", own)
    module = {"kafka_python": kafka_python, "aiokafka": aiokafka}[host]
    assignor = type("Own", (module.CooperativeStickyAssignor,), {"name": "own"})
    leader = host_member(host, "a", ["t"], [assignor], Answer({"t": 4}))
    given_out = leader.lead("own", 1, [("a", leader.join()["own"], None)])
    assert decode_assignment(given_out["a"]).partitions == (("t", (0, 1, 2, 3)),)


@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_a_leader_says_how_many_partitions_wait(host: str) -> None:
    module = {"kafka_python": kafka_python, "aiokafka": aiokafka}[host]
    leader = host_member(host, "a", ["t"], [module.CooperativeStickyAssignor], Answer({"t": 4}))
    owner = encode_subscription(Subscription(("t",), None, (("t", (0, 1, 2, 3)),), 7))
    newcomer = encode_subscription(Subscription(("t",), None))
    given_out = leader.lead("cooperative-sticky", 8, [("a", owner, None), ("b", newcomer, None)])
    assert {withheld_of(decode_assignment(data).user_data) for data in given_out.values()} == {2}
