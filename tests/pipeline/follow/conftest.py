"""The shop capture followed while it grows, stopped, and followed again; and audited at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.pipeline.follow.follower import Follow, Pace
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.stored.tables import folder_of
from tests.pipeline.conftest import Audited
from tests.pipeline.follow.growing import Growing
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import comparable_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN_S = 300.0


@dataclass(frozen=True)
class Followed:
    """What following left behind.

    Attributes
    ----------
    whole, out : Path
        The audit in one go; what was followed.
    live : list of str
        Rows of `rebalances` while it followed and no audit had gone over them, as `comparable_rows` gives them.
    streamed : int
        How many of them lay in live files.
    positions : dict
        Where the capture ends.
    follow : Follow
        The first run, stopped when it had followed to the end.
    """

    whole: Path
    out: Path
    live: list[str]
    streamed: int
    positions: dict[str, int]
    follow: Follow


@pytest.fixture(scope="session")
def followed(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Started on a third of the records, followed in three pieces of which the last comes in many files that are merged,
    stopped without a further audit, and started again.
    """
    base = tmp_path_factory.mktemp("follow")
    out = base / "out"
    capture = Growing(base / "capture")
    capture.grow(0.35)
    with configured(spark, ONE_PARTITION):
        first = Follow(spark, capture.folder, out, pace=Pace(report=1e9))
        with running(first):
            wait(lambda: first.status.doing == "following")
            capture.grow(0.6)
            wait(lambda: first.status.steps > 0)
            for at in range(16):
                capture.grow(0.6 + 0.3 * at / 15)
            capture.merge()
            end = dict(capture.grow(1.0))
            wait(lambda: first.reached == end)
        live = comparable_rows(out, "rebalances")
        streamed = sum(1 for _ in live_files(out))
        with running(Follow(spark, capture.folder, out)) as again:
            wait(lambda: again.status.doing == "following")
    return Followed(audited.result.out, out, live, streamed, end, first)


def live_files(out: Path) -> list[Path]:
    """Files with steps that no audit has gone over."""
    return sorted(folder_of(out, "rebalances").rglob("live-*.parquet"))


class running:  # noqa: N801
    """While within: a follow that runs in a thread of its own; stopped at the end, and what it raised comes out."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Follow:
        self._thread.start()
        return self._follow

    def __exit__(self, *_: object) -> None:
        self._follow.stop()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()
        if self._failed:
            raise self._failed[0]

    def _run(self) -> None:
        try:
            self._follow.run()
        except BaseException as error:  # noqa: BLE001
            self._failed.append(error)
            self._follow.status.doing = "failed"


def wait(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Until it holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.2)
