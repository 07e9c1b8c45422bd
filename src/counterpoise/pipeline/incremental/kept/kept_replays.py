"""One group's replays between two audits: where its fold stands, and the generations that are to be replayed once more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.replay_fold import Replay, ReplayFold
from counterpoise.pipeline.folds.replay_memo import Plans
from counterpoise.pipeline.incremental.kept.kept_file import Kept, kept_rows

__all__ = ["REPLAYS_KEPT", "Again", "asked_again", "read_again", "replays_on"]

REPLAYS_KEPT = pa.schema(
    [("group_id", pa.string()), ("fold", pa.string()), ("rows", pa.string()), ("times", pa.list_(pa.int64()))]
)
"""Per group: the state of its `ReplayFold`, the generations that come after it, and when those were that have members."""
Row = Mapping[str, Any]


@dataclass
class Again:
    """Where one group's replays stand.

    Attributes
    ----------
    fold : str, optional
        The state before `rows`.
    rows : sequence of mapping
        Generations whose replays may still change: the last one, and those for which lag is not settled; with their `lag`.
    """

    fold: str | None = None
    rows: Sequence[Row] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Again:
        """From a row of `REPLAYS_KEPT`."""
        return cls(kept["fold"], from_text(kept["rows"])["rows"])

    def kept(self, group: str) -> dict[str, Any]:
        """As a row of `REPLAYS_KEPT`."""
        times = [micros(row["log_ts"]) for row in self.rows if row["members"]]
        return {"group_id": group, "fold": self.fold, "rows": to_text({"rows": list(self.rows)}), "times": times}


def read_again(kept: Kept, bucket: int, but: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Group -> its row of `REPLAYS_KEPT`; without some groups."""
    rows = kept_rows(kept, "replays", REPLAYS_KEPT, bucket).to_pylist()
    return {row["group_id"]: row for row in rows if row["group_id"] not in but}


def asked_again(kept: Kept, bucket: int, settled: int | None, but: Collection[str]) -> Iterator[tuple[str, int]]:
    """Generations of earlier audits whose lag was not settled then: group and time."""
    for row in kept_rows(kept, "replays", REPLAYS_KEPT, bucket).select(["group_id", "times"]).to_pylist():
        if row["group_id"] not in but:
            yield from ((row["group_id"], at) for at in row["times"] if settled is None or at > settled)


def replays_on(
    again: Again,
    rows: Iterable[Row],
    names: Sequence[str],
    plans: Plans,
    settled: int | None,
    tell: Callable[[Replay, bool], None],
) -> Again:
    """Replay one group's generations in log order; where its replays stand then.

    Parameters
    ----------
    again : Again
        Its `rows` are not looked at.
    rows : iterable of mapping
        Generations with their `lag`: those of `again`, and new ones.
    names : sequence of str
        Strategies.
    plans : Plans
    settled : int, optional
        Up to then lag is final, in microseconds.
    tell : callable
        Is given each replay, and whether it is final.
    """
    fold = ReplayFold(names, None if again.fold is None else from_text(again.fold), plans)
    state: str | None = None
    left: list[Row] = []
    for row in rows:
        last = fold.last
        if last is not None and state is None and (settled is None or micros(last["log_ts"]) > settled):
            state, left = to_text(fold.state), [last]
        for replay in fold.feed(row):
            tell(replay, state is None)
        if state is not None:
            left.append(row)
    if state is None:
        state, left = to_text(fold.state), [] if fold.last is None else [fold.last]
    for replay in fold.close():
        tell(replay, False)
    return Again(state, left)
