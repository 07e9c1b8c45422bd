"""Few rows laid out at once, as of a huge group: for tasks that are done in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.pipeline.direct import direct
from counterpoise.pipeline.direct.groups import slices, steps_taken
from counterpoise.pipeline.direct.groups.bucket import Bucket, laid_out
from counterpoise.pipeline.incremental.tasks import by_tasks


def at_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """No more rows are laid out at once; how many were, each time."""
    sizes: list[int] = []

    def counting(told: pa.Table, steps: pa.Table, *more: Any) -> Bucket:
        sizes.append(len(told) + len(more[0].step))
        return laid_out(told, steps, *more)

    for module in (slices, steps_taken):
        monkeypatch.setattr(module, "AT_ONCE", rows)
    monkeypatch.setattr(slices, "laid_out", counting)
    return sizes


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are done one after the other where they are asked for."""

    def work_on(_: object, count: int, work: Callable[[int], Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [json.loads(json.dumps({"task": number, **work(number)})) for number in range(count)]

    for module in (direct, by_tasks):
        monkeypatch.setattr(module, "work_on", work_on)
