"""Claims settled: the rules of KIP-341 and KIP-429, each by name, and against a direct transcription."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.model.claims import settle
from counterpoise.model.problem import CONTESTED, UNOWNED, Problem
from tests.strategies import problems, subscribers_of


def holders(n_partitions: int, claims: list[tuple[int, int]], generation: list[int]) -> list[int]:
    member = np.array([m for m, _ in claims], np.int32)
    partition = np.array([p for _, p in claims], np.int64)
    return settle(n_partitions, member, partition, np.array(generation, np.int64)).tolist()


CASES = [
    ("one claim wins", 1, [(0, 0)], [5], [0]),
    ("nobody claims", 1, [], [5], [UNOWNED]),
    ("the higher generation wins", 1, [(0, 0), (1, 0)], [5, 3], [0]),
    ("an older claim nobody disputes counts", 2, [(0, 0), (1, 1)], [5, 3], [0, 1]),
    ("two claims in one generation: neither owns it", 1, [(0, 0), (1, 0)], [5, 5], [CONTESTED]),
    ("a newer claim settles an older dispute", 1, [(0, 0), (1, 0), (2, 0)], [3, 3, 5], [2]),
    ("a dispute in the newest generation beats an older claim", 1, [(0, 0), (1, 0), (2, 0)], [5, 5, 3], [CONTESTED]),
    ("a claim repeated by one member is one claim", 1, [(0, 0), (0, 0)], [5], [0]),
    ("no generation is the lowest", 1, [(0, 0), (1, 0)], [-1, 0], [1]),
    ("no generation counts where nobody disputes", 1, [(0, 0)], [-1], [0]),
    ("two claims without generation: neither owns it", 1, [(0, 0), (1, 0)], [-1, -1], [CONTESTED]),
]


@pytest.mark.parametrize(("n", "claims", "generation", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_claims_are_settled(n: int, claims: list[tuple[int, int]], generation: list[int], expected: list[int]) -> None:
    assert holders(n, claims, generation) == expected
    assert holders(n, claims[::-1], generation) == expected


@given(st.data())
def test_settlement_agrees_with_the_rules_written_out(data: st.DataObject) -> None:
    n_members, n_partitions = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    generation = data.draw(st.lists(st.integers(-1, 6), min_size=n_members, max_size=n_members))
    pair = st.tuples(st.integers(0, n_members - 1), st.integers(0, n_partitions - 1))
    claims = data.draw(st.lists(pair, max_size=25))
    expected = []
    for partition in range(n_partitions):
        claimants = {member for member, claimed in claims if claimed == partition}
        newest = max((generation[member] for member in claimants), default=None)
        winners = [member for member in claimants if generation[member] == newest]
        expected.append(UNOWNED if not winners else winners[0] if len(winners) == 1 else CONTESTED)
    assert holders(n_partitions, claims, generation) == expected


CLEANED = [
    ("a member that subscribes keeps its claim", 1, 1, 1),
    ("a member that no longer subscribes keeps nothing, and still holds it", 0, UNOWNED, 0),
    ("a disputed partition stays so: nobody may keep it", CONTESTED, CONTESTED, CONTESTED),
    ("nobody claims it", UNOWNED, UNOWNED, UNOWNED),
    ("a member that has left neither keeps nor holds it", 7, UNOWNED, UNOWNED),
    ("nor does any other code", -9, UNOWNED, UNOWNED),
]


@pytest.mark.parametrize("replaced", [False, True], ids=["when a problem is made", "when its claims are replaced"])
@pytest.mark.parametrize("size", [2, 500], ids=["few partitions", "many partitions"])
@pytest.mark.parametrize(("claim", "keeper", "holder"), [case[1:] for case in CLEANED], ids=[case[0] for case in CLEANED])
def test_claims_are_cleaned(claim: int, keeper: int, holder: int, size: int, replaced: bool) -> None:
    """Topic 0 belongs to both members, topic 1 to the second alone; every partition is claimed alike."""
    claims = np.full(2 * size, claim, np.int32)
    made = Problem(2, [0, size, 2 * size], [0, 2, 3], [0, 1, 1], None if replaced else claims)
    problem = made.replace(previous_owner=claims) if replaced else made
    assert problem.previous_owner[size:].tolist() == [keeper] * size
    assert problem.previous_owner[:size].tolist() == [holder] * size
    assert problem.holder.tolist() == [holder] * 2 * size
    alike = Problem(2, [0, size], [0, 2], [0, 1], claims[:size])
    assert alike.previous_owner.tolist() == [holder] * size
    assert claims.tolist() == [claim] * 2 * size


@given(problems())
def test_cleaned_claims_are_those_of_members_that_subscribe(problem: Problem) -> None:
    """Against a loop over partitions; what is clean stays the same object's worth when it is cleaned again."""
    expected = [
        member if member == CONTESTED or member in subscribers_of(problem, at) else UNOWNED
        for at, member in enumerate(problem.holder.tolist())
    ]
    again = problem.replace(previous_owner=problem.holder)
    assert again.previous_owner.tolist() == expected
    assert again.replace(previous_owner=again.previous_owner).previous_owner.tolist() == expected


@pytest.mark.parametrize("dense_cells", [50_000_000, 0], ids=["dense table", "sparse look-up"])
def test_members_that_subscribe_keep_their_claims(dense_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member claims one partition of every topic."""
    monkeypatch.setattr("counterpoise.model.problem.DENSE_CELLS", dense_cells)
    rng = np.random.default_rng(7)
    table = rng.random((6, 9)) < 0.4
    start = np.concatenate(([0], np.cumsum(table.sum(axis=1))))
    member = np.tile(np.arange(9), 6)
    problem = Problem(9, np.arange(7) * 9, start, np.nonzero(table)[1], member)
    assert problem.previous_owner.tolist() == np.where(table.ravel(), member, UNOWNED).tolist()
