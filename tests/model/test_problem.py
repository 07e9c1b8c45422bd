"""Problem: what it accepts, what it refuses, and that nobody can change it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from counterpoise.errors import ProblemError
from counterpoise.model.assemble import assemble, rack_codes, static_rank, subscriber_csr
from counterpoise.model.problem import CONTESTED, UNOWNED, Problem, Racks
from counterpoise.model.withhold import withhold
from counterpoise.wire.primitives import java_order


def _racks(of_member: list[int], start: list[int], of_replica: list[int]) -> Racks:
    return Racks(np.array(of_member, np.int32), np.array(start, np.int64), np.array(of_replica, np.int32))


REFUSED = [
    ("negative members", {"n_members": -1}, "n_members: -1 is negative"),
    ("half a member", {"n_members": 2.5}, "n_members: expected a whole number, not 2.5"),
    ("yes for a number", {"n_members": True}, "n_members: expected a whole number, not True"),
    ("nothing for a number", {"n_members": None}, "n_members: expected a whole number, not None"),
    ("more members than codes", {"n_members": 2**31}, "n_members: 2147483648 are more than the"),
    (
        "owners in lists of different lengths",
        {"previous_owner": [[0], [1, 0]]},
        "previous_owner: expected a flat list of integers",
    ),
    ("lags in lists of different lengths", {"lag": [[0], [1, 0]]}, "lag: expected a flat list of integers"),
    ("a word for racks", {"racks": "a"}, "racks: expected a Racks, not str"),
    ("topics that fall", {"topic_start": [0, 3, 2]}, "topic_start: must start at 0 and never fall"),
    ("topics that do not start at 0", {"topic_start": [1, 3, 4]}, "topic_start: must start at 0"),
    ("no topics at all", {"topic_start": []}, "topic_start: expected at least the leading 0"),
    ("an unknown member code", {"subscriber": [0, 2, 1]}, "subscriber: codes must lie in 0..1"),
    ("subscribers out of order", {"subscriber": [1, 0, 1]}, r"subscriber\[1\]: codes must rise strictly"),
    ("a repeated subscriber", {"subscriber": [0, 0, 1]}, r"subscriber\[1\]: codes must rise strictly"),
    ("too few subscriber starts", {"subscriber_start": [0, 3]}, "subscriber_start: expected length 3"),
    ("too few owners", {"previous_owner": [0]}, "previous_owner: expected length 4"),
    ("fractions", {"previous_owner": [0.5, 1, 1, 1]}, "previous_owner: expected integers"),
    ("a capacity of zero", {"capacity": [1, 0]}, "capacity: every member needs at least 1"),
    ("a huge capacity", {"capacity": [1, 2**31]}, "capacity: every member needs at least 1 and at most"),
    ("a member code beyond int32", {"subscriber": np.array([0, 1, 2**32 + 1])}, "subscriber: a value lies beyond"),
    ("numbers beyond int64", {"lag": [2**70, 0, 0, 0]}, "lag: expected integers"),
    ("lags beyond any cluster", {"lag": [2**61, 2**61, 0, 0]}, "lag: the lags sum up to"),
    ("ranks that repeat", {"static_rank": [0, 0]}, "static_rank: expected each of 0..n_members-1 once"),
    (
        "racks of the wrong length",
        {"racks": Racks(np.zeros(2, np.int32), np.zeros(2, np.int64), np.zeros(2, np.int32))},
        "replica_start: expected len",
    ),
    ("a rack below none", {"racks": _racks([0, -2], [0] * 5, [])}, "racks.rack_of_member: a rack code is at least 0, or -1"),
    (
        "replicas' racks out of order",
        {"racks": _racks([0, 1], [0, 1, 3, 3, 3], [2, 1, 0])},
        r"racks\.replica_rack\[2\]: codes must rise strictly within a partition",
    ),
    ("a rack twice", {"racks": _racks([0, 1], [0, 1, 3, 3, 3], [2, 1, 1])}, r"racks\.replica_rack\[2\]: codes must rise"),
    ("a number for a list", {"subscriber_start": 5}, "subscriber_start: expected at least the leading 0, in a list"),
    ("a negative lag", {"lag": [0, -1, 0, 0]}, "lag: a lag is never negative"),
]


def build(**changes: object) -> Problem:
    arguments: dict[str, object] = {
        "n_members": 2,
        "topic_start": [0, 3, 4],
        "subscriber_start": [0, 2, 3],
        "subscriber": [0, 1, 1],
        "previous_owner": [0, 1, UNOWNED, CONTESTED],
    }
    return Problem(**{**arguments, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("changes", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_wrong_arrays_are_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        build(**changes)


def test_a_problem_cannot_be_changed() -> None:
    problem = build()
    with pytest.raises(ValueError, match="read-only"):
        problem.previous_owner[0] = 1
    with pytest.raises(AttributeError, match="read-only"):
        problem.lag = None


def test_racks_are_kept_as_read_only_arrays_of_their_own() -> None:
    of_member = np.array([0, 1], np.int64)
    racks = build(racks=Racks(of_member, [0, 1, 1, 1, 1], [1])).racks  # type: ignore[arg-type]
    of_member[0] = 1
    assert racks is not None
    assert [part.tolist() for part in vars(racks).values()] == [[0, 1], [0, 1, 1, 1, 1], [1]]
    assert [str(part.dtype) for part in vars(racks).values()] == ["int32", "int64", "int32"]
    assert not any(part.flags.writeable for part in vars(racks).values())


def test_a_problem_does_not_follow_later_edits_of_its_input() -> None:
    owners = np.array([0, 1, -1, -1], np.int32)
    problem = build(previous_owner=owners)
    owners[0] = 1
    assert problem.previous_owner.tolist() == [0, 1, -1, -1]


def test_a_read_only_view_of_an_array_that_changes_is_copied() -> None:
    owners = np.array([0, 1, -1, -1], np.int32)
    view = owners[:]
    view.flags.writeable = False
    problem = build(previous_owner=view)
    owners[0] = 1
    assert problem.previous_owner.tolist() == [0, 1, -1, -1]


def test_owners_beyond_int32_have_left_and_never_wrap_onto_a_member() -> None:
    assert all(code not in (0, 1) for code in build(previous_owner=np.array([2**32, 2**32 + 1, -(2**40), 2**33])).previous_owner)


def test_pickling_keeps_every_array() -> None:
    problem = build(lag=[1, 2, 3, 4], capacity=[2, 1], holder=[1, 1, 0, 0], static_rank=[1, 0])
    again = pickle.loads(pickle.dumps(problem))
    for name in Problem.__slots__:
        assert np.array_equal(getattr(again, name), getattr(problem, name)) or name == "racks"


def test_replacing_the_previous_owner_replaces_the_holder() -> None:
    replaced = build(holder=[1, 1, 0, 0]).replace(previous_owner=[1, 1, 1, 1])
    assert replaced.holder.tolist() == [1, 1, 1, 1]
    assert build().replace(n_members=3, capacity=[1, 1, 1], static_rank=[0, 1, 2]).n_members == 3


def test_ids_sort_as_java_sorts_them() -> None:
    beyond, private = "\U00010000", "\uff00"
    assert java_order([private, beyond, "a", "B"]) == ["B", "a", beyond, private]
    assert sorted([private, beyond]) == [private, beyond]


def test_static_members_come_first_by_instance_id() -> None:
    assert static_rank(["a", "b", "c", "d"], [None, "z", None, "y"]).tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("dense_cells", [50_000_000, 0], ids=["dense table", "sparse sort"])
def test_subscriptions_become_rows_by_topic(dense_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpoise.model.assemble.DENSE_CELLS", dense_cells)
    start, subscriber = subscriber_csr(3, 3, [2, 0, 0, 2], [0, 0, 2, 0])
    assert (start.tolist(), subscriber.tolist()) == ([0, 2, 2, 3], [0, 2, 0])


def test_racks_are_coded_by_sorted_name() -> None:
    racks = rack_codes(["b", None, ""], [[["c", "b"], ["a", "a"]], None], [2, 1])
    assert racks is not None
    assert racks.rack_of_member.tolist() == [1, -1, -1]
    assert (racks.replica_start.tolist(), racks.replica_rack.tolist()) == ([0, 2, 3, 3], [1, 2, 0])
    assert rack_codes([None], [[["a"]]], [1]) is None
    assert rack_codes(["a"], [None], [1]) is None


def test_assemble_settles_claims() -> None:
    problem = assemble(
        2, [2, 1], [0, 1], [0, 1], np.array([0, 1], np.int32), np.array([0, 1], np.int64), np.array([1, 1], np.int64)
    )
    assert problem.holder.tolist() == [0, 1, UNOWNED]
    assert problem.previous_owner.tolist() == [0, UNOWNED, UNOWNED]


def test_a_departed_holder_keeps_nobody_waiting() -> None:
    assert withhold(build(holder=[7, 1, 0, 0]), np.array([1, 1, 0, 1], np.int32)).tolist() == [1, 1, 0, UNOWNED]


def test_a_round_withholds_what_another_member_holds() -> None:
    problem = build(previous_owner=[0, 1, UNOWNED, CONTESTED], holder=[0, 1, UNOWNED, CONTESTED])
    assert withhold(problem, np.array([1, 1, 0, 1], np.int32)).tolist() == [UNOWNED, 1, 0, UNOWNED]
