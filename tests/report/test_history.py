"""One group's life as arrays: every partition under its own topic, whatever numbers the records hold."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.pipeline.schemas import ASSIGNMENT
from counterpoise.report.audit_output import open_audit
from counterpoise.report.history import history_of
from tests.report import fleet
from tests.work import lines_of


@pytest.mark.parametrize(
    ("held", "partitions"),
    [
        ([("u", [0, 2]), ("t", [1])], [("t", 1), ("u", 0), ("u", 2)]),
        ([("t", [-1])], [("t", -1)]),  # a damaged record: no number that is really one
        ([("u", [-1, 4]), ("t", [4, 2**31 - 1])], [("t", 4), ("t", 2**31 - 1), ("u", -1), ("u", 4)]),
        ([("t", [])], []),
    ],
)
def test_every_partition_stands_under_its_topic(held: list[tuple[str, list[int]]], partitions: list[tuple[str, int]]) -> None:
    pairs = [{"topic": topic, "partitions": numbers} for topic, numbers in held]
    assignment = pa.array([[{"member_id": "a-1", "client_id": "a", "assigned": pairs}]], ASSIGNMENT)
    history = history_of([{}], 0, assignment)
    assert history.partitions == partitions
    assert sorted(history.partitions[code] for code in history.held.partition.tolist()) == partitions


def test_bars_count_rebalances_and_offsets_are_those_of_all_steps(tmp_path: Path) -> None:
    kinds = ("created", "rebalance", "cooperative_followup", "rebalance")
    steps = [fleet.step("g", at, at, {"m": {"t": [0]}}, kind=kind) for at, kind in enumerate(kinds, 1)]
    audit, end = open_audit(fleet.write(tmp_path, rebalances=steps)), fleet.START + 9 * fleet.MINUTE
    bars, offsets = audit.rhythm(1, fleet.START, end)["g"]
    assert (bars.tolist(), offsets.tolist()) == ([2], [10, 20, 30, 40])


def test_only_lag_at_the_last_sample_of_the_cluster_is_lag_now(tmp_path: Path) -> None:
    """A group whose topics were deleted has none, as in the table."""
    rows = [("old", 1, 130), ("g", 1, 7), ("g", 9, 5), ("g", 9, None)]
    lags = [
        {"cluster": "default", "group_id": name, "topic": "t", "partition": number, "owner": "m", "lag": lag, "time_lag_ms": 4000}
        | {"at": fleet.START + minute * fleet.MINUTE}
        for number, (name, minute, lag) in enumerate(rows)
    ]
    now = open_audit(fleet.write(tmp_path, partition_lag=lags)).lags_now()
    assert {name: (one.owners, one.seconds, one.topics) for name, one in now.items()} == {
        "old": ({}, None, ["t"]),
        "g": ({"m": 5}, 4.0, ["t"]),
    }


def test_without_samples_no_state_of_an_earlier_audit_is_read(tmp_path: Path) -> None:
    fleet.write(tmp_path, health=[fleet.state("g", "stalled", 1, 3)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    for sampled, found in ((("2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"), ["g"]), ((None, None), [])):
        about = {"days": {"default": None}, "sampled_from": sampled[0], "sampled_to": sampled[1]}
        (tmp_path / "summary.json").write_text(json.dumps(summary | about))
        assert list(open_audit(tmp_path).health(["g"])) == found


def test_no_loop_over_the_members_of_all_steps_makes_a_history() -> None:
    members = {f"m-{at}#1": {"t": [at]} for at in range(50)}

    def work(n: int) -> int:
        column = pa.array([fleet.assignment(members)] * n, ASSIGNMENT)
        return lines_of(lambda: history_of([{}] * n, 0, column))

    assert work(40) - work(10) < 50 * 30
