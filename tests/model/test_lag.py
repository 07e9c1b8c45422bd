"""Lag from offsets: every rule of KAFKA-5337, clamping, and errors that name the partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpoise.errors import OptionError, ProblemError
from counterpoise.model.lag import BELOW_BEGIN, BEYOND_END, EXACT, RESET_POLICY, partition_lag


@pytest.mark.parametrize(
    ("committed", "reset", "lag", "quality"),
    [
        pytest.param(30, "latest", 70, EXACT, id="end minus committed"),
        pytest.param(100, "latest", 0, EXACT, id="all read"),
        pytest.param(10, "latest", 90, EXACT, id="at the first offset"),
        pytest.param(-1, "latest", 0, RESET_POLICY, id="nothing committed, latest: nothing to read"),
        pytest.param(None, "earliest", 90, RESET_POLICY, id="nothing committed, earliest: all that is there"),
        pytest.param(-1, "by_duration:PT1H", 90, RESET_POLICY, id="nothing committed, any other policy: all"),
        pytest.param(101, "earliest", 0, BEYOND_END, id="committed beyond the end"),
        pytest.param(9, "latest", 90, BELOW_BEGIN, id="committed below the first offset"),
        pytest.param(30, "none", 70, EXACT, id="policy none does not matter where something is committed"),
    ],
)
def test_the_lag_of_a_partition_with_offsets_10_to_100(committed: int | None, reset: str, lag: int, quality: int) -> None:
    found = partition_lag([committed], [10], [100], reset=reset)
    assert (found.lag.tolist(), found.quality.tolist()) == ([lag], [quality])


def test_policy_none_names_the_partitions_without_a_commit() -> None:
    with pytest.raises(OptionError, match=r"orders-1, orders-2 and auto\.offset\.reset is none"):
        partition_lag([5, -1, None], [0, 0, 0], [9, 9, 9], reset="none", names=["orders-0", "orders-1", "orders-2"])
    with pytest.raises(OptionError, match=r"partition 0, 1, 2, 3, 4 and 3 more"):
        partition_lag([-1] * 8, [0] * 8, [9] * 8, reset="none")


def test_offsets_that_are_no_range_are_refused() -> None:
    with pytest.raises(ProblemError, match="partition 1: begin 7 and end 6"):
        partition_lag([0, 0], [0, 7], [6, 6])
    with pytest.raises(ProblemError, match="equal lengths"):
        partition_lag([0], [0, 7], [6, 6])
    with pytest.raises(ProblemError, match="begin: expected one integer per partition"):
        partition_lag([0], [0.5], [6])
    nested: Any = [[1], [2, 3]]
    for committed, end in ((nested, [5]), ([1], nested)):
        with pytest.raises(ProblemError, match=r"(committed|end): expected a flat list of integers"):
            partition_lag(committed, [0], end)
    with pytest.raises(ProblemError, match="names: 1 for 2 partitions"):
        partition_lag([0, 0], [0, 0], [6, 6], names=["t-0"])


def test_an_offset_beyond_int64_is_refused_and_not_taken_for_none() -> None:
    for committed, end in ((2**63, 5), (0, 2**63)):
        with pytest.raises(ProblemError, match=r"(committed|end): 9223372036854775808 is no offset"):
            partition_lag([committed], [0], [end])


def test_a_policy_is_text() -> None:
    with pytest.raises(OptionError, match="reset: None is no policy"):
        partition_lag([1], [0], [5], reset=None)  # type: ignore[arg-type]


def test_arrays_are_not_changed() -> None:
    committed = np.array([200, -1])
    partition_lag(committed, np.array([0, 0]), np.array([100, 100]))
    assert committed.tolist() == [200, -1]
