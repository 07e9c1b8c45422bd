"""`audit`, `audit --since last` and `audit --follow` killed at random moments of an update, on a disk and on an object store.

Minutes: in the long profile.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.commands import WITHIN_S, family, is_jvm, python_workers, started, wait_for_the_end, wait_or_end
from tests.java import java_home
from tests.pipeline.follow.conftest import reached
from tests.pipeline.follow.growing import Growing
from tests.pipeline.incremental.pieces import comparable_rows

from counterpoise.errors import CaptureError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import join, list_files
from counterpoise.pipeline.tables.manifest import load_manifest

pytestmark = [pytest.mark.spark, pytest.mark.kills]
SEED, MOST_MISSES = 20_261_123, 20
MODES = {"audit": (), "update": ("--since", "last"), "follow": ("--follow", "--report-every", "3600")}
VICTIMS = ("driver", "JVM", "worker")
FIRST, MORE = 0.3, 0.02
"""Shares of the recording: what the first update reads, and each later one."""
REFUSED = "another audit is writing there"
ERRORS = {
    "driver": "",
    "JVM": "counterpoise: (?!unexpected error).*",
    "worker": "counterpoise: .*: a Python worker of Spark was killed.*",
}
"""What is said of the death of each; no more than one line."""
PROGRESS = re.compile(r"reading what is recorded: |following: |stopping: |.*, so everything is read$")
PYSPARK = re.compile(
    r"-{40}$|Exception occurred during processing of request|Traceback|  |EOFError$|ConnectionResetError: "
    r"|ERROR:root:Exception while sending command|$|During handling of the above exception|py4j\.protocol\.Py4JNetworkError: "
)
"""What PySpark's server of accumulators, its workers and Py4J print when the other side of a connection is gone."""
EVENTS = """
spark.eventLog.enabled true
spark.eventLog.dir {place}
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
"""
"""Spark writes a line when a job starts."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """An audit of all records."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        runs = Runs(folder, str(folder), "audit", patch)
        runs.complete()
        yield runs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", ["local", "s3"])
def test_killed_at_random_moments_the_tables_are_those_of_an_undisturbed_audit(
    request: pytest.FixtureRequest, undisturbed: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, mode: str
) -> None:
    """The driver, its JVM, its Python workers. What they have started ends with them.

    Every second kill hits the run that repeats the killed update; with `--follow` the others hit a process that follows.
    """
    root, rng = str(tmp_path) if place == "local" else request.getfixturevalue("s3"), random.Random(SEED)
    runs = Runs(tmp_path, root, mode, monkeypatch, undisturbed.took)
    killed, misses = list[str](), 0
    for number, victim in enumerate(rng.sample(VICTIMS, len(VICTIMS))):
        more = number % 2 == 0
        while (moment := runs.killed(victim, rng, more=more)) is None:
            misses, more = misses + 1, True
            assert misses <= MOST_MISSES, f"most updates were stored before the kill; killed: {killed}"
        killed.append(f"{victim} after {moment:.1f} s")
    runs.grow(1.0)
    runs.complete()
    for name in TABLES:
        assert comparable_rows(runs.out, name) == comparable_rows(undisturbed.out, name), (name, killed)
    there = {file.removeprefix(f"{runs.out}/") for each in ("tables", ".state") for file in list_files(join(runs.out, each))}
    manifest = load_manifest(runs.out)
    assert manifest is not None
    assert there == manifest.files
    print(f"{misses} misses; killed: {', '.join(killed)}")  # noqa: T201


class Runs:
    """Runs one command again and again on a capture below `root` that grows; a plain audit has the whole capture from the start.

    `folder` has what the command says, and Spark's events. `took`: seconds that the last update took from its first task on.
    """

    def __init__(self, folder: Path, root: str, mode: str, patch: pytest.MonkeyPatch, took: float = 0.0) -> None:
        self.out, self.took = join(root, "out"), took
        self._mode, self._log, self._events = mode, folder / "log", folder / "events"
        self._capture, self._share = Growing(join(root, "capture")), 0.0
        self._command = ("audit", self._capture.folder, "--out", self.out, "--strategies", "sticky,lag", *MODES[mode])
        self._events.mkdir()
        (folder / "spark-defaults.conf").write_text(EVENTS.format(place=self._events.as_uri()))
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("JAVA_HOME", java_home())
        self.grow(1.0 if mode == "audit" else FIRST)

    def grow(self, share: float) -> None:
        """Let the capture grow to this share of the recording."""
        if share > self._share:
            self._capture.grow(share)
            self._share = share

    def complete(self) -> None:
        """Run it until all is stored."""
        with self._begun() as process:
            began, before = time.monotonic(), self._stored()
            wait_or_end(self._stored, process)
            if not before:
                self.took = time.monotonic() - began
            wait_or_end(self._follows, process)
            self._stop_following(process)
            assert process.wait(WITHIN_S) == (0 if self._mode == "follow" else 1), self._log.read_text()

    def killed(self, victim: str, rng: random.Random, *, more: bool) -> float | None:
        """Kill the driver, its JVM or its Python workers while it audits, and wait until all have ended.

        Returns how many seconds after the first task that was.
        None: nothing was hit, because all was stored by then, or no worker had a task. With `more` all is stored before, then
        the capture grows; while it runs, if it follows.
        """
        follows = more and self._mode == "follow"
        if more and self._mode == "update":
            self.complete()
            self.grow(self._share + MORE)
        with self._begun() as process:
            moment = self._moment(process, rng, follows)
            while self._stored():
                self.took = moment  # at most
                if not follows:
                    break
                moment = self._moment(process, rng, follows)
            everyone, ended = family(process.pid), process.poll()
            pids = {"driver": [process.pid], "JVM": [*filter(is_jvm, everyone)], "worker": python_workers(process.pid)}[victim]
            killed_at = time.monotonic()
            for pid in pids if ended is None else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_or_end(self._stored, process)
            if ended is None and process.poll() is None:  # no worker was busy
                self.took = moment + time.monotonic() - killed_at
            self._stop_following(process)
            code, said = process.wait(WITHIN_S), self._log.read_text()
        wait_for_the_end(everyone)
        hit = ended is None and code == (-signal.SIGKILL if victim == "driver" else 3)
        if not hit or self._stored():
            assert hit or code in (0, 1), said
            return None
        errors = [line for line in said.splitlines() if not (PROGRESS.match(line) or PYSPARK.match(line))]
        assert re.fullmatch(ERRORS[victim], "\n".join(errors)), said
        return moment

    def _moment(self, process: subprocess.Popen[bytes], rng: random.Random, follows: bool) -> float:
        """Wait for a random time after the first task of an update: of this run, or of the next one when it `follows`."""
        if follows:
            wait_or_end(lambda: self._stored() and self._follows(), process)
            jobs = self._jobs()
            self.grow(self._share + MORE)
            wait_or_end(lambda: self._jobs() > jobs, process)
        moment = rng.uniform(0, self.took)
        time.sleep(moment)
        return moment

    def _stored(self) -> bool:
        """Whether the tables have all records of the capture; of a plain audit, whether this run has replaced them."""
        if self._mode == "audit":
            return self._files() != self._before
        with suppress(CaptureError, FileNotFoundError):  # the next update deletes the state while it is read
            return reached(self.out) == self._capture.positions
        return False

    def _files(self) -> frozenset[str]:
        manifest = load_manifest(self.out)
        return manifest.files if manifest else frozenset()

    @contextmanager
    def _begun(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start the command, and yield its process when its first job has started, or when there is nothing to do.

        It is started again while the lock of a killed writer on a store refuses it.
        """
        while True:
            for file in self._events.iterdir():
                file.unlink()
            self._log.write_text("")
            self._before = self._files()
            with started(self._log, *self._command) as process:
                wait_or_end(lambda: self._jobs() > 0 or self._follows(), process)
                if REFUSED not in self._log.read_text():
                    yield process
                    return
            time.sleep(5)

    def _stop_following(self, process: subprocess.Popen[bytes]) -> None:
        if self._mode == "follow":
            process.send_signal(signal.SIGINT)

    def _follows(self) -> bool:
        return "following: " in self._log.read_text()

    def _jobs(self) -> int:
        """How many jobs Spark has started in this run."""
        with suppress(FileNotFoundError):  # renamed when Spark ends
            return sum(file.read_text().count('"SparkListenerJobStart"') for file in self._events.iterdir())
        return 0
