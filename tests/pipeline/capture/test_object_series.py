"""A growing table and a capture on an S3-compatible server: whole at every moment, whatever step the writer is killed at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import CaptureError, SourceError, StorageError
from counterpoise.pipeline.capture import object_series, poller, recording, sampler, series
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from counterpoise.pipeline.capture.folder import CaptureFolder
from counterpoise.pipeline.capture.group_poll import GroupPoll, SeenGroup, SeenMember
from counterpoise.pipeline.capture.object_series import ObjectSeries, visible
from counterpoise.pipeline.capture.poller import Poller
from counterpoise.pipeline.capture.recorder import Recorder
from counterpoise.pipeline.capture.recording import Schedule
from counterpoise.pipeline.capture.sampler import Sample, sample, sample_batch
from counterpoise.pipeline.capture.series import Series
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.source.checks import parquet_files
from counterpoise.pipeline.storage.files import join, list_files, parquet_file, upload
from tests.pipeline.capture.test_series import SCHEMA, Killed

IDS = {"t": "AAECAwQFBgcICQoLDA0ODw", OFFSETS_TOPIC: "EBESExQVFhcYGRobHB0eHw"}


MERGE_AT = 4


@pytest.fixture(autouse=True)
def _few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge takes place sooner than it does for a user: each file is a request to the server."""
    monkeypatch.setattr(series, "MERGE_AT", MERGE_AT)


def opened(s3: str) -> ObjectSeries:
    return ObjectSeries(join(s3, "t.parquet"), SCHEMA, "timestamp", lambda: None)


def rows(*numbers: int, at: float = 1e9) -> list[pa.RecordBatch]:
    moment = datetime.fromtimestamp(at, UTC)
    return [pa.RecordBatch.from_pydict({"n": list(numbers), "timestamp": [moment] * len(numbers)}, SCHEMA)]


def seen(s3: str) -> list[int]:
    """The rows that a reader finds."""
    return sorted(row for file in parquet_files(join(s3, "t.parquet")) for row in parquet_file(file).read()["n"].to_pylist())


@contextmanager
def killed_at(step: int) -> Iterator[list[str]]:
    """The `step`-th request that changes the store is not made, nor any after it. Yields those that were made."""
    made: list[str] = []

    def guard(name: str) -> Any:
        real: Callable[..., Any] = getattr(object_series, name)

        def guarded(*arguments: Any) -> Any:
            if len(made) >= step:
                raise Killed
            made.append(name)
            return real(*arguments)

        return mock.patch.object(object_series, name, guarded)

    with guard("upload"), guard("delete"):
        yield made


def grown(s3: str, count: int) -> ObjectSeries:
    table = opened(s3)
    for n in range(count):
        table.append(rows(n), {"next": n + 1})
    return table


@pytest.mark.parametrize(
    ("already", "act"),
    [
        (2, lambda table: table.append(rows(2), {"next": 3})),
        (MERGE_AT, lambda table: table.merge()),
        (MERGE_AT, lambda table: (table.merge(), table.free())),
    ],
    ids=["append", "merge", "merge and free"],
)
def test_killed_at_any_step_nothing_is_lost_and_nothing_is_there_twice(
    s3: str, already: int, act: Callable[[Series], object]
) -> None:
    for step in (0, 1, 2, 3, 40):
        place = join(s3, str(step))
        table = grown(place, already)
        try:
            with killed_at(step) as made:
                act(table)
            break
        except Killed:
            assert seen(place) in (list(range(already)), list(range(already + 1))), made
            again = opened(place)
            assert again.state == {"next": len(seen(place))}
            again.append(rows(again.state["next"]), {"next": again.state["next"] + 1})
            again.merge()
            again.free()
            assert seen(place) == list(range(again.state["next"]))
            assert len(list_files(place)) == len(again.pieces)
    assert made, "never cut"


def test_a_merged_file_covers_the_others_at_once_and_they_go_after_their_time(s3: str) -> None:
    table = grown(s3, MERGE_AT)
    before = parquet_files(join(s3, "t.parquet"))
    assert table.merge() == MERGE_AT
    assert len(parquet_files(join(s3, "t.parquet"))) == 1
    assert [parquet_file(file).metadata.num_rows for file in before] == [1] * MERGE_AT
    with mock.patch.object(time, "time", return_value=time.time() + 7_200):
        assert opened(s3).state == {"next": MERGE_AT}
    assert len(list_files(s3)) == 1
    assert seen(s3) == list(range(MERGE_AT))


def test_retention_covers_what_is_old_and_keeps_the_position(s3: str) -> None:
    table = opened(s3)
    for n, at in enumerate((100.0, 200.0, 300.0, 400.0)):
        table.append(rows(n, at=at), {"next": n + 1})
    assert table.drop_before(150.0) == 1
    assert table.drop_before(150.0) == 0
    assert seen(s3) == [1, 2, 3]
    assert table.drop_before(350.0) == 3
    table.free()
    assert (seen(s3), len(list_files(s3))) == ([3], 2)
    table.append(rows(4), {"next": 5})
    assert (opened(s3).state, seen(s3)) == ({"next": 5}, [3, 4])


def test_only_files_of_a_growing_table_cover_others() -> None:
    """Files that are named by day are all read."""
    days = ["a/2026-11-20.parquet", "a/2026-11-21.parquet", "a/1-2-3.parquet"]
    merged = [f"a/{1:012d}-{4:012d}-1.parquet", f"a/{2:012d}-{2:012d}-0.parquet", f"a/{5:012d}-{5:012d}-0.parquet"]
    assert visible([*merged, *days]) == sorted([*days, merged[0], merged[2]])


def test_a_folder_with_files_of_another_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part-00000-ab-c000.snappy.parquet").touch()
    with pytest.raises(CaptureError, match=r"part-00000-ab-c000.snappy.parquet: was not written by .*; move it away"):
        ObjectSeries(str(tmp_path), SCHEMA, "timestamp", lambda: None)


class FakeCluster:
    """A cluster of one topic whose offsets topic can be listed."""

    cluster_id = "c"

    def topics(self) -> dict[str, dict[str, Any]]:
        return {name: {"partitions": 2, "topic_id": text, "internal": name == OFFSETS_TOPIC} for name, text in IDS.items()}

    def offsets(self, places: list[tuple[str, int]], which: str) -> dict[tuple[str, int], int]:
        return {place: {"start": 5, "stable": 90, "end": 100}[which] + place[1] for place in places}


def test_a_partition_of_the_offsets_topic_without_a_leader_is_said_before_anything_is_recorded(tmp_path: Path) -> None:
    class WithoutLeader(FakeCluster):
        def partitions(self, _: list[str]) -> list[tuple[str, int]]:
            return [(OFFSETS_TOPIC, index) for index in range(2)]

        def offsets(self, places: list[tuple[str, int]], which: str) -> dict[tuple[str, int], int]:
            return {place: at for place, at in super().offsets(places, which).items() if place != (OFFSETS_TOPIC, 1)}

    recorder, folder = Recorder(Settings({"bootstrap.servers": "x"}), tmp_path / "c", Schedule()), CaptureFolder(tmp_path / "c")
    recorder._cluster, recorder._folder = WithoutLeader(), folder  # type: ignore[assignment]
    with folder.held(), pytest.raises(SourceError, match="partition 1 has no leader, so its groups cannot be") as raised:
        recorder._begin()
    assert exit_code_of(raised.value) == 3


def test_the_ends_of_the_offsets_topic_are_sampled_beside_the_others() -> None:
    taken: Sample = sample(FakeCluster())  # type: ignore[arg-type]
    samples = [tuple(row.values())[:4] for row in sample_batch(taken).to_pylist()]
    assert samples == [("t", 0, 5, 100), ("t", 1, 6, 101), (OFFSETS_TOPIC, 0, 5, 100), (OFFSETS_TOPIC, 1, 6, 101)]


def test_of_samples_that_nobody_takes_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a disk is full for days their number is limited."""
    numbers, waited = iter(range(25)), [False] * 25 + [True]
    monkeypatch.setattr(sampler, "sample", lambda _: next(numbers))
    made = sampler.Sampler(7, 60)  # type: ignore[arg-type]
    made.stop()
    made._thread.join(10)
    monkeypatch.setattr(made, "_done", SimpleNamespace(wait=lambda _: waited.pop(0)))
    made._run()
    assert (made.taken(), made.taken()) == ([*range(15, 25)], [])


def test_a_capture_is_recorded_to_an_object_store_and_continued(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = join(s3, "history")
    looks = [look_at(10, 20), look_at(11, 20), look_at(11, 25)]
    monkeypatch.setattr(recording, "Cluster", lambda _: FakeCluster())
    monkeypatch.setattr(poller, "poll_groups", lambda _: looks.pop(0))
    for written in (3, 1, 1):
        assert Poller(Settings({"bootstrap.servers": "nowhere:1"}), out, Schedule(poll=1.0)).run(follow=False).records == written
    capture = read_capture(out)
    files = capture.files
    assert (len(files.records), len(files.ends), capture.n_records) == (3, 3, 5)
    assert [file is not None for file in (files.topics, files.aborted)] == [True, True]
    assert capture.notes[0].startswith("complete=false: made from polls every 1.0 s")
    offsets = [row for file in files.records for row in parquet_file(file).read()["offset"].to_pylist()]
    assert offsets == list(range(5))


def look_at(*committed: int) -> GroupPoll:
    members = (SeenMember("m-id", "m", "/10.0.0.1", None, (("t", 0), ("t", 1))),)
    commits = {("t", index): (offset, -1, "") for index, offset in enumerate(committed)}
    return GroupPoll([SeenGroup("g", False, True, "range", members, commits)], {"g"}, [])


def test_a_following_poll_waits_if_no_coordinator_can_say_whether_a_group_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker goes away between the list of groups and the question; then it is back, and the group is deleted."""
    looks, asked = [look_at(10), GroupPoll([], set(), []), GroupPoll([], set(), [])], []

    def unconfirmed(_cluster: Any, lost: set[str], _poll: GroupPoll) -> set[str]:
        asked.append(lost)
        if len(asked) == 1:
            raise SourceError("nowhere:9092 does not answer", transient=True)
        following.stop()
        return set()

    monkeypatch.setattr(recording, "Cluster", lambda _: FakeCluster())
    monkeypatch.setattr(poller, "poll_groups", lambda _: looks.pop(0))
    monkeypatch.setattr(poller, "unconfirmed", unconfirmed)
    following = Poller(Settings({"bootstrap.servers": "nowhere:9092"}), tmp_path / "c", Schedule(poll=0.01))
    written = following.run(follow=True).records
    assert (asked, written > 2) == ([{"g"}, {"g"}], True)


def test_one_capture_at_a_time_writes_to_a_place_of_an_object_store(s3: str) -> None:
    out = join(s3, "history")
    first = CaptureFolder(out)
    with pytest.raises(CaptureError, match=r"another capture is writing there; stop it \(if it was killed, wait a min") as raised:
        CaptureFolder(out)
    assert exit_code_of(raised.value) == 3
    first.close()
    CaptureFolder(out).close()


def test_an_append_that_fails_leaves_no_trace_and_can_be_tried_again(s3: str) -> None:
    table = grown(s3, 1)
    away = StorageError(s3, "AWS Error NETWORK_CONNECTION", "check the network")
    with mock.patch.object(object_series, "upload", side_effect=away), pytest.raises(StorageError, match="NETWORK"):
        table.append(rows(1), {"next": 2})
    assert (seen(s3), table.state) == ([0], {"next": 1})
    table.append(rows(1), {"next": 2})
    assert seen(s3) == [0, 1]


@contextmanager
def answers_lost(s3: str) -> Iterator[None]:
    """A PUT takes effect, but its answer is lost, and the store does not list its files either."""
    away = StorageError(s3, "AWS Error NETWORK_CONNECTION", "check the network")

    def written(place: str, file: Any) -> None:
        upload(place, file)
        raise away

    with mock.patch.object(object_series, "upload", written), mock.patch.object(object_series, "file_infos", side_effect=away):
        yield


def test_a_merged_file_whose_answer_is_lost_counts_before_the_next_merge(s3: str) -> None:
    table = grown(s3, MERGE_AT)
    with answers_lost(s3), pytest.raises(StorageError, match="NETWORK"):
        table.merge()
    table.append(rows(MERGE_AT), {"next": MERGE_AT + 1})
    assert table.merge() == 0
    assert (seen(s3), len(table.pieces)) == (list(range(MERGE_AT + 1)), 2)


def test_dropped_files_whose_answer_is_lost_stay_dropped(s3: str) -> None:
    table = opened(s3)
    for n in range(3):
        table.append(rows(n, at=100.0 * (n + 1)), {"next": n + 1})
    with answers_lost(s3), pytest.raises(StorageError, match="NETWORK"):
        table.drop_before(150.0)
    assert (table.drop_before(150.0), seen(s3), len(table.pieces)) == (0, [1, 2], 3)


def test_an_append_whose_answer_is_lost_is_not_made_twice(s3: str) -> None:
    """Records are tried again with the same position; a sample is followed by another one, which does not replace it."""
    table = grown(s3, 1)
    with answers_lost(s3), pytest.raises(StorageError, match="NETWORK"):
        table.append(rows(1), {"next": 2})
    table.append(rows(1), {"next": 2})
    assert (seen(s3), table.state, opened(s3).state) == ([0, 1], {"next": 2}, {"next": 2})
    with answers_lost(s3), pytest.raises(StorageError, match="NETWORK"):
        table.append(rows(2), {})
    table.append(rows(3), {})
    assert seen(s3) == [0, 1, 2, 3]
