"""The samples in an `EndsFile` as `LogEnds`: nothing is read before it is asked for, and what was read the system may forget."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.pipeline.fold.ends_file import END, START, TIME, EndsFile
from counterpoise.pipeline.fold.log_ends import LogEnds

__all__ = ["mapped_lives"]


def mapped_lives(ends: EndsFile) -> LogEnds:
    """The samples."""
    rows = ends.rows()
    begins = ends.first[ends.life_log] + ends.life_at
    follows = np.append(ends.life_log[1:] == ends.life_log[:-1], False)[: len(begins)]
    after = np.where(follows, np.append(begins[1:], 0)[: len(begins)], (ends.first + ends.count)[ends.life_log])
    most = ends.lives_of_topics()
    newest = np.array([most[ends.logs[log][0]] for log in ends.life_log.tolist()], np.int64) == ends.life_number
    bounds = zip(ends.first.tolist(), (ends.first + ends.count).tolist(), strict=True)
    return LogEnds(
        log=dict(zip(ends.logs, bounds, strict=True)),
        time=rows[:, TIME],
        start=rows[:, START],
        end=rows[:, END],
        life_first=_OfLife(begins, begins),
        newest_life=_OfLife(begins, newest),
        next_end=rows[1:, END],
        next_time=rows[1:, TIME],
        has_next=_HasNext(begins, after),
    )


class _OfLife:
    """A figure of the life that a sample belongs to."""

    def __init__(self, begins: Int64, figures: npt.NDArray[Any]) -> None:
        self._begins, self._figures = begins, figures

    def __getitem__(self, rows: Int64, /) -> Any:
        return self._figures[np.searchsorted(self._begins, rows, "right") - 1]


class _HasNext(_OfLife):
    """Whether another sample of the same life follows."""

    def __getitem__(self, rows: Int64, /) -> Any:
        return rows + 1 < super().__getitem__(rows)
