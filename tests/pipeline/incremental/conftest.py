"""The shop capture, audited at once, and in pieces: four times by `--since last`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterpoise.pipeline.incremental.kept.stored_rows import Group
from counterpoise.pipeline.incremental.saved import load, moment
from counterpoise.pipeline.incremental.tasks import by_tasks
from counterpoise.pipeline.incremental.tasks.by_tasks import ByTasks
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from tests.pipeline.conftest import Audited
from tests.pipeline.incremental.pieces import cut, ragged, until
from tests.pipeline.laid_out import at_once, in_this_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""Few rows and many plans: a task more in each stage is what they cost."""
LAID_OUT = 300
"""Rows of a bucket that are laid out at once, where that is bounded."""


@dataclass
class Update:
    """One of the updates.

    Attributes
    ----------
    summary : dict
    positions : dict
        Log partition -> the offset after the last record read.
    settled : datetime, optional
        Up to when lag was final before.
    work : dict, optional
        How many records of commits were decoded, records of groups folded and generations replayed.
    redone : set
        Groups that were made again from their beginning.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    settled: datetime | None = None
    work: dict[str, int] | None = None
    redone: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Pieces:
    """What an audit in pieces left behind.

    Attributes
    ----------
    whole, out, folder : Path
        The audit in one go, the one in pieces, the capture.
    updates : list of Update
        Those that came to their end.
    sizes : list of int
        How many rows were laid out at once, each time, where that was bounded.
    """

    whole: Path
    out: Path
    folder: Path
    updates: list[Update]
    sizes: list[int] = field(default_factory=list)


class KilledError(Exception):
    """Stands for the end of the process."""


def killed_while_storing(monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """After so many files have come to their place, none does any more."""
    real, left = Path.replace, [moves]

    def replace(self: Path, target: Path) -> Path:
        if "staged" in self.parts:
            if not left[0]:
                raise KilledError
            left[0] -= 1
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)


def watched(monkeypatch: pytest.MonkeyPatch, told: Update) -> None:
    """What goes into the folds, and which groups are made again, is counted in `told`."""

    def redo(self: View, groups: Collection[Group]) -> None:
        told.redone.update(group for _, group in groups)
        real_redo(self, groups)

    def leave(self: ByTasks) -> Any:
        told.work, told.settled = self.work(), moment(self._was["default"].final_until)
        return real_leave(self)

    real_redo, real_leave = View.redo, ByTasks.leave
    monkeypatch.setattr(View, "redo", redo)
    monkeypatch.setattr(ByTasks, "leave", leave)


def in_pieces(spark: SparkSession, base: Path) -> tuple[Path, Path, list[Update]]:
    """To a moment, twice; then ragged by offsets with samples far ahead, killed while its files are moved; then the rest.

    Several buckets of groups are done together, but the second time.
    """
    out, folder = base / "out", base / "capture"
    updates = []

    def go_on(records: Any, ends: Any, moves: int | None = None, buckets: int | None = None) -> None:
        cut(folder, records, ends)
        told = Update()
        with pytest.MonkeyPatch.context() as patch:
            watched(patch, told)
            if buckets is not None:
                patch.setattr(by_tasks.ByTasks, "bytes_at_once", buckets)
            if moves is not None:
                killed_while_storing(patch, moves)
            told.summary = update(spark, {"default": folder}, out).summary
        saved = load(out / ".since" / "state.json")
        assert saved is not None
        assert saved.clusters["default"].buckets_at_once == (32 if buckets is None else 1)
        told.positions = saved.clusters["default"].positions
        updates.append(told)

    with configured(spark, ONE_PARTITION):
        go_on(until(0.1, "timestamp"), until(0.1, "sampled_at"))
        go_on(until(0.35, "timestamp"), until(0.4, "sampled_at"), buckets=1)
        with pytest.raises(KilledError):
            go_on(ragged, until(0.9, "sampled_at"), 9)
        assert (out / ".since" / "journal.json").exists()
        go_on(until(2.0, "timestamp"), until(2.0, "sampled_at"))
    return out, folder, updates


@pytest.fixture(scope="session")
def pieces(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    """The audit in pieces."""
    return Pieces(audited.result.out, *in_pieces(spark, tmp_path_factory.mktemp("pieces")))


@pytest.fixture(scope="session")
def sliced_pieces(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    """The same, with few rows laid out at once."""
    with pytest.MonkeyPatch.context() as patch:
        in_this_process(patch)
        sizes = at_once(patch, LAID_OUT)
        return Pieces(audited.result.out, *in_pieces(spark, tmp_path_factory.mktemp("sliced-pieces")), sizes)


@pytest.fixture(params=list(TABLES))
def name(request: pytest.FixtureRequest) -> str:
    """Every table."""
    found: str = request.param
    return found
