"""One group's fold between two calls: its state as text, new records in, finished and unfinished steps out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.rebalances import StepsFold

__all__ = ["STEP_STATES", "step_rows"]

STEP_STATES = StructType(
    [
        *(StructField(name, StringType()) for name in ("cluster", "group_id", "state")),
        StructField("unnamed", ArrayType(StringType())),
    ]
)
"""One row per group: `state` of its `StepsFold`, and topic ids in its steps that nobody has named."""


def step_rows(group: tuple[str, str], rows: Iterable[Mapping[str, Any]], saved: str | None) -> Iterator[dict[str, Any]]:
    """Rows of `rebalances`, with `open` if later records may change them: finished steps, unfinished ones, and the state last."""
    fold = StepsFold(None if saved is None else from_text(saved))
    key = {"cluster": group[0], "group_id": group[1]}
    for row in rows:
        for step in fold.feed(row):
            yield {**key, **step, "open": False}
    for step in fold.unfinished():
        yield {**key, **step, "open": True}
    yield {**key, "state": to_text(fold.state), "unnamed": fold.unnamed}
