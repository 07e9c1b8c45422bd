"""Figures of strategies, and client libraries, of a group that changed both: those of the present ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.fold.group_state import _libraries
from counterpoise.pipeline.fold.strategy_figures import METRICS_COLUMNS, StrategyFigures, add_metrics
from counterpoise.pipeline.history.replay_fold import CLOSED_LOOP, OBSERVED, REPLAY
from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.rows import member


def metrics(generation: int, protocol: str, strategy: str, moved: int, kind: str = "eager") -> dict[str, Any]:
    mode = REPLAY if strategy == OBSERVED else CLOSED_LOOP
    row: dict[str, Any] = dict.fromkeys(METRICS_COLUMNS)
    row |= {"group_id": "g", "incarnation": 0, "generation": generation, "log_offset": generation, "protocol": protocol}
    row |= {"log_ts": datetime(2026, 1, 1, 0, generation, tzinfo=UTC), "protocol_kind": kind, "strategy": strategy, "mode": mode}
    row |= {"declared": False, "moved": moved, "min_moves": 0, "revoked": moved, "spread": 0, "max_topic_spread": 0}
    return row | {"balanced": True, "matches_observed": False, "kip54_score": 0, "n_partitions": 4, "unassigned": 0}


@pytest.mark.parametrize("before", [("roundrobin", "eager"), ("cooperative-sticky", "cooperative"), ("sticky", "server")])
def test_figures_are_those_of_generations_under_the_present_protocol(before: tuple[str, str]) -> None:
    """What an earlier strategy moved is no fault of the present one; stops are of both, so `n_protocols` is reported."""
    rows = [metrics(number, before[0], name, 5, before[1]) for number in (1, 2, 3) for name in (OBSERVED, "sticky")]
    rows += [metrics(number, "sticky", name, 0) for number in (4, 5) for name in (OBSERVED, "sticky")]
    fields = [TABLES["metrics"].field(name) if name != "protocol" else pa.field(name, pa.string()) for name in METRICS_COLUMNS]
    whole, cut = StrategyFigures(), StrategyFigures()
    table = pa.Table.from_pylist(rows, pa.schema(fields))
    add_metrics({"g": whole}, table)
    for start in range(0, len(rows), 4):
        add_metrics({"g": cut}, table.slice(start, 4))
    assert whole.figures == cut.figures
    figures = whole.figures
    assert (figures["observed_moved"], figures["needless_moves"], figures["n_protocols"]) == (0, 0, 2)
    assert [(run["strategy"], run["generations"], run["moved"]) for run in figures["strategies"]] == [
        (OBSERVED, 2, 0),
        ("sticky", 2, 0),
    ]


def test_libraries_are_those_of_the_last_members() -> None:
    """A subscription that shows none, or only that it is Python, does not hide what the client id showed before."""
    first = _libraries([member("a-1", {}, library="kafka-go"), member("b-1", {}, library="java")], {})
    assert first == {"a": ["kafka-go"], "b": ["java"]}
    assert _libraries([member("b-2", {}, library="unknown"), member("c-1", {}, library="unknown")], first) == {
        "b": ["java"],
        "c": ["unknown"],
    }
    mixed = [member("b-1", {}, library="java"), member("b-2", {}, library="librdkafka")]
    assert _libraries(mixed, first) == {"b": ["java", "librdkafka"]}
