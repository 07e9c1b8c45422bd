"""The shop capture, audited at once, and in pieces: four times by `--since last`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.storage import files
from counterpoise.pipeline.tables import transaction
from tests.pipeline.conftest import Audited
from tests.pipeline.incremental.pieces import cut, ragged, saved_in, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""Few rows and many plans: a task more in each stage is what they cost."""


@dataclass(frozen=True)
class Update:
    """One of the updates: its summary, and log partition -> the offset after the last record read."""

    summary: dict[str, Any]
    positions: dict[int, int]


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
    """After so many files have got their names, none does any more, and nobody sweeps up."""
    real, left = files.move, [moves]

    def move(uri: str, to: str) -> None:
        if not left[0]:
            raise KilledError
        left[0] -= 1
        real(uri, to)

    monkeypatch.setattr(transaction, "move", move)
    monkeypatch.setattr(transaction.TableTransaction, "discard", lambda _: None)


@pytest.fixture(scope="session")
def pieces(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    """To a moment, three times; then ragged by offsets with samples far ahead, killed while files are moved; then the rest."""
    base = tmp_path_factory.mktemp("pieces")
    out, folder = base / "out", base / "capture"
    updates = []

    def go_on(records: Any, ends: Any, moves: int | None = None) -> None:
        cut(folder, records, ends)
        with pytest.MonkeyPatch.context() as patch:
            if moves is not None:
                killed_while_storing(patch, moves)
            summary = audit(spark, {"default": folder}, out, since_last=True).summary
        saved = saved_in(out)
        assert saved is not None
        updates.append(Update(summary, saved.clusters["default"].positions))

    with configured(spark, ONE_PARTITION):
        for share in (0.1, 0.2):
            go_on(until(share, "timestamp"), until(share, "sampled_at"))
        go_on(until(0.35, "timestamp"), until(0.4, "sampled_at"))
        with pytest.raises(KilledError):
            go_on(ragged, until(0.9, "sampled_at"), 9)
        assert len(list(out.rglob("*-0000000004-*.parquet"))) > 9
        go_on(until(2.0, "timestamp"), until(2.0, "sampled_at"))
    return Pieces(audited.result.out, out, folder, updates)


@pytest.fixture(params=list(TABLES))
def name(request: pytest.FixtureRequest) -> str:
    """Every table."""
    found: str = request.param
    return found
