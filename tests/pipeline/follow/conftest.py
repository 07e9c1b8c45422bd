"""The shop capture followed while it grows, stopped, and followed again; and audited at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.pipeline.follow.follower import Follow
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.tables.manifest import load_manifest
from tests.pipeline.conftest import Audited
from tests.pipeline.follow.growing import Growing
from tests.pipeline.incremental.pieces import comparable_rows, saved_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
WITHIN_S = 300.0


@dataclass(frozen=True)
class Followed:
    """What following left behind.

    Attributes
    ----------
    whole, out : Path
        The audit in one go; what was followed.
    rebalances : list of str
        Rows of that table before the restart, as `comparable_rows` gives them.
    positions : dict
        Where the capture ends.
    first, again : Follow
        The run that followed to the end, and the one after it.
    pages : list of int
        How many updates there were when the first run wrote its reports.
    """

    whole: Path
    out: Path
    rebalances: list[str]
    positions: dict[int, int]
    first: Follow
    again: Follow
    pages: list[int]


@pytest.fixture(scope="session")
def followed(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Started on a third of the records, followed in three pieces of which the last comes in many files that are merged,
    stopped at the end of the capture, and started again.
    """
    base = tmp_path_factory.mktemp("follow")
    out, sources = base / "out", {"default": base / "capture"}
    capture = Growing(base / "capture")
    capture.grow(0.35)
    pages: list[int] = []
    with configured(spark, ONE_PARTITION):
        first = Follow(
            spark, sources, out, trigger=0.2, report_every=1e9, write_report=lambda: pages.append(first.status.updates)
        )
        with running(first):
            wait(lambda: first.status.doing == "following")
            capture.grow(0.6)
            wait(lambda: first.status.updates > 1)
            for at in range(16):
                capture.grow(0.6 + 0.3 * at / 15)
            capture.merge()
            end = capture.grow(1.0)
            wait(lambda: reached(out) == end and first.status.updates == number(out))
        rebalances = comparable_rows(out, "rebalances")
        again = Follow(spark, sources, out, trigger=0.2)
        with running(again):
            wait(lambda: again.status.doing == "following")
    return Followed(audited.result.out, out, rebalances, end, first, again, pages)


def number(out: Path | str) -> int:
    """Of the last update that was stored."""
    found = load_manifest(str(out))
    return 0 if found is None else found.number


def reached(out: Path | str) -> dict[int, int]:
    """Log partition -> the offset after the last record that the tables have."""
    saved = saved_in(out)
    return {} if saved is None else saved.clusters["default"].positions


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
        self._follow._stopped.set()
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
