"""Folds put away after any record and gone on with elsewhere give what they give in one go."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.history.causes import Difference
from counterpoise.pipeline.history.fold_state import decode_state, encode_state, restored
from counterpoise.pipeline.history.steps import StepsFold, steps_of_group
from tests.pipeline.pieces_of_folds import ASKED, comparable, replayed_in_pieces, replays_of_group
from tests.pipeline.rows import NAMED, epoch, generation, generation_batches, member, member_848, modern, modern_batches


@pytest.fixture(scope="module")
def histories(raw: pa.RecordBatch) -> dict[str, list[dict[str, Any]]]:
    """Group -> its records in log order, as the folds get them."""
    found = defaultdict(list)
    for batch in generation_batches([raw]):
        for row in batch.to_pylist():
            found[row["group_id"]].append({**row, "record_type": None})
    for batch in modern_batches([raw]):
        for row in batch.to_pylist():
            found[row["group_id"]].append(row)
    return {group: sorted(rows, key=lambda row: row["log_offset"]) for group, rows in found.items()}


def test_steps_in_pieces_are_the_steps_in_one_go(histories: dict[str, list[dict[str, Any]]]) -> None:
    assert {kind for rows in histories.values() for kind in {row["record_type"] is None for row in rows}} == {True, False}
    for group, rows in histories.items():
        found: list[dict[str, Any]] = []
        fold = StepsFold()
        for row in rows:
            found += fold.feed(row)
            fold = StepsFold(decode_state(encode_state(fold.state)))
        assert [*found, *fold.unfinished()] == list(steps_of_group(rows)), group


def test_an_epoch_that_never_settles_keeps_no_generation_of_the_classic_protocol_waiting() -> None:
    """Its tombstone is missing, as after a gap in the capture: the classic record says that the epoch has ended."""
    epoch_of_broker = [NAMED, modern(5, member_848("m1", "t"), "m1"), *epoch(2, {"m1": [0, 1]})]
    rows = [*epoch_of_broker, *(generation(number, member("a-1", {"t": [0, 1]})) for number in range(1, 501))]
    fold, found, sizes = StepsFold(), list[dict[str, Any]](), list[int]()
    for row in rows:
        found += fold.feed(row)
        state = encode_state(fold.state)
        sizes.append(len(state))
        fold = StepsFold(decode_state(state))
    assert fold.unfinished() == []
    assert found == list(steps_of_group(rows))
    assert [(step["group_type"], step["generation"], step["settle_ms"]) for step in found[:1]] == [("consumer", 2, None)]
    assert [step["generation"] for step in found[1:]] == list(range(1, 501))
    assert sizes[-1] < sizes[len(epoch_of_broker)] + 64


def test_looking_at_what_is_unfinished_changes_nothing(histories: dict[str, list[dict[str, Any]]]) -> None:
    for group, rows in histories.items():
        fold = StepsFold()
        found: list[dict[str, Any]] = []
        for row in rows:
            found += fold.feed(row)
            for step in fold.unfinished():
                step["detail"] = "spoilt"
        assert [*found, *fold.unfinished()] == list(steps_of_group(rows)), group


def test_replays_in_pieces_are_the_replays_in_one_go(histories: dict[str, list[dict[str, Any]]]) -> None:
    busiest = sorted(histories, key=lambda group: -len(histories[group]))[:12]
    for group in busiest:
        rows = [row for row in histories[group] if row["record_type"] is None][:12]
        assert replayed_in_pieces(rows) == [comparable(one) for one in replays_of_group(rows, ASKED)], group


def test_every_kind_of_value_comes_back_as_it_was() -> None:
    state = {
        "nothing": None,
        "bytes": b"\x00\xff",
        "time": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "counted": Counter({("a", 1): 2}),
        "nested": [{"topic": "\u2028", "partitions": [1, 2]}],
    }
    array = np.array([1, -1, 2**31 - 1], np.int32)
    back = decode_state(encode_state({**state, "array": array}))
    assert back["array"].dtype == np.int32
    assert back.pop("array").tolist() == array.tolist()
    assert back == state


def test_what_is_restored_has_the_types_that_it_had() -> None:
    class Fold:
        def __init__(self) -> None:
            self.why, self.counted, self.seen, self.last = Difference(), Counter[str](), set[int](), ("x", 1)

    fold = Fold()
    fold.why, fold.counted["a"], fold.seen = Difference("join", ["a"], [], ["ü"], "joined: a"), 3, {1, 2}
    other = restored(Fold(), decode_state(encode_state(vars(fold))))
    assert vars(other) == {**vars(fold), "last": ["x", 1]}
    assert list(map(type, vars(other).values())) == [Difference, Counter, set, list]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\xa1", b"\x91\x01", encode_state({"a": np.zeros(3)})[:-1]])
def test_a_damaged_state_is_said_to_be_damaged(data: bytes) -> None:
    with pytest.raises(CaptureError, match=r"damaged .*to audit from the start, give another --out"):
        decode_state(data)
