"""Members that polled too late, by hand (`test_same_tables` holds a recorded group to Spark): when one counts, and when not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.direct.groups.kicks import Kicks
from counterpoise.pipeline.direct.groups.stop_rows import COLUMNS

SECOND = 1_000_000


def member(name: str, client: str | None = "c", interval: int | None = 10_000) -> dict[str, Any]:
    return {"member_id": name, "client_id": client, "rebalance_timeout_ms": interval}


def kicks(*members: dict[str, Any], back_after: int = 5, silent_for: int = 30) -> dict[str, dict[str, Any]]:
    """Member m-1 left at second 100 and m-2 came; when m-1 had committed last."""
    found = Kicks()
    found.generation("g", list(members))
    found.step("g", {"generation": 4, "left": ["m-1"], "joined": []}, 100 * SECOND)
    found.step("g", {"generation": 5, "left": [], "joined": ["m-2"]}, (100 + back_after) * SECOND)
    blank = dict.fromkeys(COLUMNS.names)
    last = (100 - silent_for) * SECOND
    stopped = {**blank, "group_id": "g", "log_ts": 100 * SECOND, "owner_before": "m-1", "last_before": last}
    return dict(found.groups(pa.RecordBatch.from_pylist([stopped], schema=COLUMNS)))


def test_a_silent_member_whose_client_came_back_was_kicked_out() -> None:
    told = {"poll_kicks": 1, "poll_kick_clients": ["c"], "poll_kick_generation": 4, "poll_interval_ms": 10_000}
    assert kicks(member("m-1"), member("m-2")) == {"g": told}


def test_the_longest_interval_and_the_last_name_of_a_member_count() -> None:
    found = kicks(member("m-1", None, None), member("m-1", "b", 9_000), member("m-1", "c", 8_000), member("m-2"))
    assert found["g"]["poll_interval_ms"] == 9_000
    assert found["g"]["poll_kick_clients"] == ["c"]


@pytest.mark.parametrize(
    "about",
    [{"back_after": 61}, {"silent_for": 9}],
    ids=["back too late", "it had committed within its interval"],
)
def test_others_stopped_of_themselves(about: dict[str, int]) -> None:
    assert kicks(member("m-1"), member("m-2"), **about) == {}


def test_another_client_is_not_the_one_that_left() -> None:
    assert kicks(member("m-1"), member("m-2", "d")) == {}
    assert kicks(member("m-1", None), member("m-2", None)) == {}


def test_a_client_with_a_long_interval_has_as_long_to_come_back() -> None:
    assert kicks(member("m-1", interval=90_000), member("m-2"), back_after=80, silent_for=95)["g"]["poll_kicks"] == 1
