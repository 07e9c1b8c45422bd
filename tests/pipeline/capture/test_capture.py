"""`counterpoise capture` against a broker: killed, cut off and out of space, it records every visible record exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from counterpoise.pipeline.capture.folder import missing_of
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.storage.files import exists, is_local, join, parquet_file, read_bytes
from counterpoise.pipeline.tables.paths import dataset
from tests.kafka_broker import Broker
from tests.pipeline.capture.traffic import Busy, Where, commit, held, open_transaction, transact
from tests.pipeline.rows import commit_batch

pytestmark = pytest.mark.kafka
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
SEED = 20_260_721
WITHIN_S = 180.0
Fill = Callable[[int, bool], None]
"""Fills the disk of a process, or frees it."""


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic that groups consume and commit."""
    broker.create_topic("recorded", 2)
    return "recorded"


def command(broker: Broker, out: Path | str, *more: str) -> list[str]:
    quick = ["--flush-every", "0.2", "--sample-every", "0.5"]
    run = [sys.executable, "-m", "counterpoise", "capture"]
    return [*run, "--bootstrap-server", broker.bootstrap, "--out", str(out), *quick, *more]


def once(broker: Broker, out: Path | str, *more: str) -> dict[str, object]:
    done = subprocess.run(command(broker, out, "--json", *more), capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    status: dict[str, object] = json.loads(done.stdout)
    return status


@contextmanager
def following(broker: Broker, out: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A capture that follows; killed at the end if the test has not ended it."""
    process = subprocess.Popen(
        command(broker, out, "--follow", "--json", *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def recorded(out: Path | str) -> list[Where]:
    """Partition and offset of every record: in a folder as any reader sees it, on an object store in the files of the capture."""
    records = join(str(out), "consumer_offsets.parquet")
    if not exists(records):
        return []
    files = [str(Path(records).resolve())] if is_local(records) else read_capture(str(out)).files.records
    tables = [dataset(file).to_table(columns=["partition", "offset"]) for file in files]
    return [(row["partition"], row["offset"]) for table in tables for row in table.to_pylist()]


def eventually(holds: Callable[[], bool], what: str, process: subprocess.Popen[str]) -> None:
    """Wait for something that a running capture brings about; fails at once when that has ended."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def grows(out: Path, process: subprocess.Popen[str]) -> None:
    """Wait until more is recorded than now."""
    size = len(recorded(out))
    eventually(lambda: len(recorded(out)) > size, "nothing more was recorded", process)


def fill_up(process: subprocess.Popen[str], fill: Fill) -> None:
    """Fill the disk of a capture that follows with ``--json`` until it says that it cannot write; what it gives back too."""
    line = ""
    while "cannot write" not in line:
        fill(process.pid, True)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "it ended"


def assert_exact(broker: Broker, out: Path | str) -> None:
    """What is recorded is what the topic shows: nothing missing, nothing twice."""
    there = recorded(out)
    assert len(there) == len(set(there))
    assert set(there) == held(broker)


@contextmanager
def small_disk(folder: Path, megabytes: int = 3) -> Iterator[tuple[Path, Fill]]:
    """A folder and a way to fill its disk for a process and to free it: a small tmpfs, or a file size limit of 0 without root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False)

    def limit(pid: int, full: bool) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def ballast(_: int, full: bool) -> None:
        if not full:
            (folder / "ballast").unlink()
            return
        with (folder / "ballast").open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    try:
        yield folder / "out", limit if mounted.returncode else ballast
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_to_an_object_store_every_record_is_written_once_and_the_ends_of_the_topic_itself_are_sampled(
    broker: Broker, topic: str, s3: str
) -> None:
    for at in (1, 2):
        commit(broker, f"to-a-store-{at}", topic, [1, 2, 3])
        once(broker, s3)
    files = read_capture(s3).files
    assert len(files.records) == 2
    there = [(r["partition"], r["offset"]) for file in files.records for r in parquet_file(file).read().to_pylist()]
    assert (len(there), set(there)) == (len(set(there)), held(broker))
    last = parquet_file(files.ends[-1]).read().to_pylist()
    ends = {row["partition"]: row["log_end"] for row in last if row["topic"] == OFFSETS_TOPIC}
    assert all(offset < ends[partition] for partition, offset in there)
    assert files.topics is not None
    assert len(ends) == json.loads(read_bytes(files.topics))[OFFSETS_TOPIC]["partitions"]


def test_a_full_disk_is_waited_for(broker: Broker, topic: str, tmp_path: Path) -> None:
    """While the disk is full nothing is written and nothing is lost; with space again it goes on by itself."""
    with small_disk(tmp_path / "disk") as (out, fill), following(broker, out) as process:
        commit(broker, "steady-0", topic, [1, 2, 3])
        eventually(lambda: set(recorded(out)) == held(broker), "it never caught up", process)
        fill(process.pid, True)
        before = recorded(out)
        commit(broker, "steady-0", topic, [4, 5, 6])
        fill_up(process, fill)
        assert recorded(out) == before
        fill(process.pid, False)
        eventually(lambda: set(recorded(out)) == held(broker), "it never went on", process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
        assert_exact(broker, out)
        with following(broker, out) as process:
            fill(process.pid, True)
            _, err = process.communicate(timeout=WITHIN_S)
        assert (process.returncode, err.count("\n")) == (3, 1), err
        assert re.match(r"counterpoise: .*/out: (No space left on device|File too large); make room", err)
        assert_exact(broker, out)


def test_a_hidden_tail_and_markers_at_the_end(broker: Broker, topic: str, tmp_path: Path) -> None:
    """An open transaction is reported, a snapshot ends before it. Markers at the end do not hang it, nor count as missing."""
    transact(broker, "exact-0", topic, 5, abort=True)
    once(broker, tmp_path)
    producer = open_transaction(broker, "exact-0", topic, 6)
    try:
        commit(broker, "exact-0", topic, [7])
        status = once(broker, tmp_path)
        assert status["records"] == 0
        assert len(status["hidden"]) == 1  # type: ignore[arg-type]
        assert f"{OFFSETS_TOPIC} partition" in str(status["hidden"])
        assert any("an open transaction hides offsets" in note for note in missing_of(tmp_path).notes)
    finally:
        producer.commit_transaction(60)
    status = once(broker, tmp_path)
    assert (status["records"], status["passed"]) == (2, 1)
    transact(broker, "exact-0", topic, 8, abort=True)
    status = once(broker, tmp_path)
    assert (status["records"], status["passed"], status["hidden"]) == (0, 2, [])
    assert_exact(broker, tmp_path)


def test_a_folder_keeps_to_its_cluster_and_isolation(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Another topic id, or another isolation level, is refused with one line; the old history stays as it is."""
    commit(broker, "settled", topic, [1])  # the first commit of all creates the offsets topic
    out = tmp_path / "out"
    once(broker, out)
    config = tmp_path / "client.properties"
    config.write_text("isolation.level=read_uncommitted\n")
    done = subprocess.run(command(broker, out, "--command-config", str(config)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "was recorded read_committed" in done.stderr
    about = json.loads((out / "capture.json").read_text())
    (out / "capture.json").write_text(json.dumps({**about, "topic_id": "another"}))
    done = subprocess.run(command(broker, out), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "holds a capture of another cluster" in done.stderr
    assert_exact(broker, out)


def test_log_ends_and_topics_are_sampled(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Ends of every topic that is not internal and of the offsets topic, and the metadata of all."""
    once(broker, tmp_path)
    samples = pq.read_table(tmp_path / "log_offsets.parquet").to_pylist()
    assert [(row["partition"], row["log_start"], row["log_end"]) for row in samples if row["topic"] == topic] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert {row["topic"] for row in samples if row["topic"].startswith("__")} == {OFFSETS_TOPIC}
    topics = json.loads((tmp_path / "topics.json").read_text())
    assert topics[topic]["partitions"] == 2
    assert topics[OFFSETS_TOPIC]["internal"]


def test_ids_of_topics_are_written_as_commits_have_them(broker: Broker, tmp_path: Path) -> None:
    """One topic in two has a sign in its id that librdkafka writes another way than Kafka."""
    names = [f"named-{at}" for at in range(8)]
    for name in names:
        broker.create_topic(name)
        commit(broker, "steady-0", name, [1])
    once(broker, tmp_path)
    topics = json.loads((tmp_path / "topics.json").read_text())
    records = pq.read_table(tmp_path / "consumer_offsets.parquet").combine_chunks().to_batches()[0]
    ids = {row["topic"]: row["topic_id"] for row in commit_batch(records).to_pylist()}
    assert {name: topics[name]["topic_id"] for name in names} == {name: ids[name] for name in names}


def test_retention_and_what_is_said_on_a_terminal(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Old files go, the position stays; a terminal shows records, lag and groups while it runs, and at the end."""
    for at in range(3):
        commit(broker, "steady-0", topic, [at])
        once(broker, tmp_path)
    before = recorded(tmp_path)
    commit(broker, "steady-0", topic, [9])
    seen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    done = subprocess.run(
        command(broker, tmp_path, "--keep-days", "1e-7"), stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True
    )
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says EIO where the other end of a terminal is closed
        while part := os.read(seen, 65536):
            shown += part
    os.close(seen)
    assert re.search(rb"\d+ records written, \d+ behind, \d+ groups seen", shown)
    assert re.match(rb"1 records written, 0 behind, 1 groups seen", done.stdout)
    assert len(recorded(tmp_path)) == 1
    assert set(recorded(tmp_path)).isdisjoint(before)
    assert once(broker, tmp_path)["records"] == 0


def test_a_capture_that_has_ended_is_not_behind_whatever_it_read_at_a_time(broker: Broker, topic: str, tmp_path: Path) -> None:
    commit(broker, "steady-0", topic, [1, 2])
    _, _, _, *words = command(broker, tmp_path, "--json")
    program = (
        "from counterpoise.cli import main; from counterpoise.pipeline.capture import recorder; recorder.CONSUME = 1; main()"
    )
    by_ones = [sys.executable, "-c", program, *words]
    done = subprocess.run(by_ones, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert json.loads(done.stdout)["behind"] == 0


def test_a_broker_that_goes_away_is_waited_for_and_sigterm_stops_cleanly(own_broker: Broker, tmp_path: Path) -> None:
    """The broker crashes (in the long profile it is also restarted in order) while it is followed; then a clean stop."""
    own_broker.create_topic("recorded", 2)
    commit(own_broker, "steady-0", "recorded", [1])  # the first commit of all creates the offsets topic
    busy = Busy(own_broker, "recorded", SEED + 1)
    try:
        with following(own_broker, tmp_path) as process:
            grows(tmp_path, process)
            if LONG:
                own_broker.restart()
                grows(tmp_path, process)
            own_broker.kill()
            own_broker.start()
            grows(tmp_path, process)
            busy.stop()
            eventually(lambda: set(recorded(tmp_path)) == held(own_broker), "it never caught up", process)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0, err
    finally:
        busy.stop()
    statuses = [json.loads(line) for line in out.splitlines()]
    assert statuses[-1]["records"] == len(recorded(tmp_path))
    assert statuses[-1]["groups"] >= 4
    assert_exact(own_broker, tmp_path)
