"""The capacity of a member, from the user data it joins with to the capacities that its leader plans with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors.registry import strategies
from counterpoise.clients.leader_side import group_to_lead, lead_group
from counterpoise.clients.member_side import MemberSide
from counterpoise.clients.own_fields import capacity_of, with_capacity
from counterpoise.errors import OptionError, SnapshotError
from counterpoise.laws.lag_bound import lag_report
from counterpoise.planning.lead import Lead
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.user_data import encode_cooperative, encode_sticky

CLUSTER: Any = SimpleNamespace(brokers=lambda: (), partitions_for_topic=lambda _: set(range(12)))
LAG = {"t": [800, 400, 200, 100, 50, 25, 0, 0, 0, 0, 0, 0]}


def joining(name: str, capacities: dict[str, int], *, cooperative: bool) -> list[JoinMember]:
    """Members that held four partitions each."""
    members = []
    for at, (member, capacity) in enumerate(capacities.items()):
        side = MemberSide(name, "kafka-python", capacity=capacity)
        side.received([("t", 4 * at + index) for index in range(4)], 7)
        members.append(JoinMember(member, side.subscription(["t"], side.assigned if cooperative else None)))
    return members


def led_by(name: str, capacities: dict[str, int], *, cooperative: bool) -> Lead:
    members = joining(name, capacities, cooperative=cooperative)
    given = group_to_lead(name, CLUSTER, members, group="g", generation=8, patience_s=None)
    return lead_group(given, {}, lambda topics, patience_s: LAG)  # noqa: ARG005 - called by position


def test_of_metadata_that_cannot_be_read_the_member_is_named() -> None:
    with pytest.raises(SnapshotError, match=r"member 'bad', metadata: .*; it is no ConsumerProtocolSubscription"):
        group_to_lead("sticky", CLUSTER, [JoinMember("bad", b"\0\1\0", None)], group="g", generation=8, patience_s=None)


@pytest.mark.parametrize("name", strategies())
@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_capacities_reach_the_leaders_capacities_whatever_the_strategy(name: str, cooperative: bool) -> None:
    led = led_by(name, {"a": 1, "b": 2, "c": 3}, cooperative=cooperative)
    assert led.joined.problem.capacity.tolist() == [1, 2, 3]
    assert led.joined.unreadable == (), "what a member writes is never an unreadable history"
    if name not in ("range", "roundrobin", "lag", "sticky-first"):
        assert np.bincount(led.target_owner).tolist() == [2, 4, 6]


def test_lag_is_balanced_per_weight() -> None:
    """The member of capacity 3 takes the partition of 800; nobody is above the bound by more than the tolerance."""
    led = led_by("lag-sticky", {"a": 1, "b": 3}, cooperative=True)
    behind = np.bincount(led.target_owner, weights=LAG["t"]).tolist()
    assert behind[1] > 2 * behind[0]
    assert lag_report(led.joined.problem, led.target_owner, counts="balanced").gap <= 0.1


def test_a_weight_changes_nothing_of_what_stands_before_it() -> None:
    """Every layout of user data keeps its bytes; a capacity of one adds none; nonsense counts as one."""
    for data in (None, b"", encode_cooperative(3), encode_sticky((("t", (0, 1)),), 3)):
        assert with_capacity(data, 1) == data
        heavy = with_capacity(data, 5)
        assert heavy is not None
        assert (heavy[:-8], capacity_of(heavy)) == (data or b"", 5)
        assert capacity_of(data) == 1
        assert capacity_of(heavy[:-1]) == 1
    assert capacity_of(b"\xffcpw\xff\xff\xff\xff") == 1
    for wrong in (0, -1, 2**31, 1.5, True):
        with pytest.raises(OptionError, match="a whole number from 1"):
            with_capacity(None, wrong)  # type: ignore[arg-type]
