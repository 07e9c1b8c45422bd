"""The shop capture, audited at once, and in pieces: three times by `--since last`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterpoise.pipeline.incremental import increment, whole
from counterpoise.pipeline.incremental.folded import fold_replays, fold_steps
from counterpoise.pipeline.incremental.saved import load
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from tests.pipeline.conftest import Audited
from tests.pipeline.incremental.pieces import cut, ragged, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""Few rows and many plans: a task more in each stage is what they cost."""


@dataclass
class Update:
    """One of the updates.

    Attributes
    ----------
    summary : dict
    positions : dict
        Log partition -> the offset after the last record read.
    folded, replayed : dict
        Group -> how many records, and how many generations, went through the folds.
    redone : set
        Groups that were made again from their beginning.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    folded: dict[str, int] = field(default_factory=dict)
    replayed: dict[str, int] = field(default_factory=dict)
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
    """

    whole: Path
    out: Path
    folder: Path
    updates: list[Update]


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

    def counting(fold: Any, into: dict[str, int]) -> Any:
        def call(rows: DataFrame, *others: Any) -> DataFrame:
            into.update((row["group_id"], row["count"]) for row in rows.groupBy("group_id").count().collect())
            return fold(rows, *others)

        return call

    def redo(self: View, groups: DataFrame) -> None:
        told.redone.update(row["group_id"] for row in groups.collect())
        real_redo(self, groups)

    real_redo = View.redo
    monkeypatch.setattr(View, "redo", redo)
    monkeypatch.setattr(increment, "fold_steps", counting(fold_steps, told.folded))
    monkeypatch.setattr(increment, "fold_replays", counting(fold_replays, told.replayed))


@pytest.fixture(scope="session")
def pieces(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    """To a moment; then ragged by offsets with samples far ahead, killed while its files are moved; then the rest.

    Before that a little of it at once, as small captures are: that leaves no states, so what follows makes all groups again.
    """
    base = tmp_path_factory.mktemp("pieces")
    out, folder = base / "out", base / "capture"
    updates = []

    def go_on(records: Any, ends: Any, most: int = 0) -> None:
        cut(folder, records, ends)
        told = Update()
        with pytest.MonkeyPatch.context() as patch:
            watched(patch, told)
            patch.setattr(whole, "WHOLE", most)
            told.summary = update(spark, {"default": folder}, out).summary
        saved = load(out / ".since" / "state.json")
        assert saved is not None
        told.positions = saved.clusters["default"].positions
        updates.append(told)

    with configured(spark, ONE_PARTITION):
        go_on(until(0.1, "timestamp"), until(0.1, "sampled_at"), whole.WHOLE)
        go_on(until(0.35, "timestamp"), until(0.4, "sampled_at"))
        with pytest.MonkeyPatch.context() as patch:
            killed_while_storing(patch, 9)
            with pytest.raises(KilledError):
                go_on(ragged, until(0.9, "sampled_at"))
        assert (out / ".since" / "journal.json").exists()
        go_on(until(2.0, "timestamp"), until(2.0, "sampled_at"))
    return Pieces(audited.result.out, out, folder, updates)


@pytest.fixture(params=list(TABLES))
def name(request: pytest.FixtureRequest) -> str:
    """Every table."""
    found: str = request.param
    return found
