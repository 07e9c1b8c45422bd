"""Replays of a group, left off after any generation and gone on with: what is final stays, what may change is made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.folds.replay_fold import Replay, replays_of_group
from counterpoise.pipeline.folds.replay_memo import Plans
from counterpoise.pipeline.incremental.kept.kept_replays import Again, replays_on
from counterpoise.pipeline.records.generations import generation_rows

NAMES = ("range", "sticky")
Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def generations(raw: pa.RecordBatch) -> list[Row]:
    """Those of a group that rebalances often, with members."""
    of: dict[str, list[Row]] = {}
    for row in sorted(generation_rows(raw), key=lambda row: (row["log_partition"], row["log_offset"])):
        of.setdefault(row["group_id"], []).append(row)
    return max(of.values(), key=lambda rows: len({row["log_ts"] for row in rows if row["members"]}))[:8]


def told(replay: Replay) -> tuple[Any, ...]:
    return replay.row["log_offset"], replay.name, replay.mode, replay.owner.tolist(), replay.matches


@pytest.mark.parametrize("settled", range(8))
@pytest.mark.parametrize("cut", range(1, 8))
def test_replays_go_on_where_they_were_left(generations: list[Row], cut: int, settled: int) -> None:
    """After the first `cut` generations, with lag that is settled up to one of them."""
    final: list[Replay] = []
    still: list[Replay] = []

    def tell(replay: Replay, is_final: bool) -> None:
        (final if is_final else still).append(replay)

    until = micros(generations[settled]["log_ts"])
    again = replays_on(Again(), generations[:cut], NAMES, Plans(), until, tell)
    assert all(micros(replay.row["log_ts"]) <= until for replay in final)
    assert generations[cut - 1] in again.rows
    assert [micros(row["log_ts"]) > until for row in again.rows[:-1]] == [True] * (len(again.rows) - 1)
    again = Again.of(again.kept("g"))
    still.clear()
    replays_on(again, [*again.rows, *generations[cut:]], NAMES, Plans(), until, tell)
    assert [*map(told, final), *map(told, still)] == list(map(told, replays_of_group(generations, NAMES)))
