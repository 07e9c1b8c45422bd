"""Progress inside a stage of the audit: tasks of a real Spark job, their rate, and the time left."""

from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from counterpoise.cli.audit_command import TaskColumn
from counterpoise.pipeline import session


def shown(bar: Progress) -> str:
    bar.refresh()
    assert isinstance(bar.console.file, io.StringIO)
    text = bar.console.file.getvalue()
    bar.console.file.seek(0)
    bar.console.file.truncate()
    return text


def test_rate_and_time_left_count_from_when_a_stage_was_first_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]
    now = [100.0]
    monkeypatch.setattr(session, "running_tasks", lambda: counts[-1])
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    column = TaskColumn()
    task: Any = None
    seen = []
    for at, stages, done, total in (
        (100.0, (), 0, 0),
        (110.0, (3,), 0, 8),
        (114.0, (3,), 2, 8),
        (130.0, (4,), 4, 8),
        (132.0, (4,), 6, 8),
        (133.0, (), 0, 0),
    ):
        counts.append((stages, done, total))
        now.append(at)
        seen.append(column.render(task).plain)
    assert seen == [
        "",
        "0 of 8 tasks",
        "2 of 8 tasks, 0.5 a second, 12 s left",
        "4 of 8 tasks",
        "6 of 8 tasks, 1.0 a second, 2 s left",
        "",
    ]


def test_the_column_shows_the_tasks_of_a_running_spark_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that wait for a pipe to be written: of four, two run at once, and none, two, all are done."""
    monkeypatch.setattr(TaskColumn, "max_refresh", None)
    for number in range(4):
        os.mkfifo(tmp_path / str(number))
    names = [str(tmp_path / str(number)) for number in range(4)]
    job = threading.Thread(target=lambda: spark.sparkContext.parallelize(names, 4).foreach(_wait))
    assert session.running_tasks() == ((), 0, 0)
    with Progress(TaskColumn(), console=Console(file=io.StringIO(), force_terminal=True), auto_refresh=False) as bar:
        bar.add_task("fold", total=None)
        job.start()
        for number, words in enumerate(("0 of 4 tasks", "1 of 4 tasks, ", "2 of 4 tasks, ", "3 of 4 tasks, ")):
            while words not in (text := shown(bar)):
                assert job.is_alive(), text
                time.sleep(0.05)
            Path(names[number]).write_text("go")
        job.join()
        assert "tasks" not in shown(bar)


def _wait(pipe: str) -> None:
    Path(pipe).read_text()


def test_without_spark_and_with_a_jvm_that_ends_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending:
        def statusTracker(self) -> None:
            raise ConnectionError

    for context in (None, Ending()):
        monkeypatch.setattr("pyspark.SparkContext._active_spark_context", context)
        assert session.running_tasks() == ((), 0, 0)
