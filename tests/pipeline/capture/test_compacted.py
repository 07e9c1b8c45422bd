"""A recording that continues after the topic was compacted: the range is noted, and no rebalance is called failed for it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture import recorder, recording
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.capture.folder import CaptureFolder, missing_of
from counterpoise.pipeline.capture.recorder import Recorder
from counterpoise.pipeline.capture.recording import Schedule
from counterpoise.pipeline.capture.sampler import Sample
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.fold.group_state import GroupState
from counterpoise.pipeline.history.fold_state import decode_state, encode_state
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.wire.offsets_topic.keys import GroupKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import GroupMember, GroupMetadataValue
from tests.pipeline.in_process import audited_in_process
from tests.pipeline.rows import epoch, generation, member, member_848, modern, tombstone

PARTITION = ("__consumer_offsets", 0)
START = datetime(2026, 1, 1, tzinfo=UTC)
ABOUT = {"__consumer_offsets": {"partitions": 1, "topic_id": "x", "internal": True}}


class Topic:
    """The offsets topic of a made-up cluster, with one partition: offset -> generation of group g."""

    def __init__(self) -> None:
        self.generations: dict[int, int] = {}
        self.end = 0
        self.now = START.timestamp()

    def partitions(self, _topics: Any) -> list[Any]:
        return [PARTITION]

    def offsets(self, _partitions: Any, which: str) -> dict[Any, int]:
        return {PARTITION: 0 if which == "start" else self.end}

    def assign(self, places: Any) -> None:
        self.at = places[0].offset

    def consume(self, _count: int, _seconds: float) -> list[Any]:
        found = [row(offset, number) for offset, number in self.generations.items() if offset >= self.at]
        self.at = self.end
        return found

    def close(self) -> None:
        pass


def row(offset: int, generation: int) -> tuple[int, int, int, int, bytes, bytes]:
    members = (
        GroupMember(
            member_id=f"m{generation}", client_id="m", client_host="h", session_timeout=1, subscription=b"", assignment=b""
        ),
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=generation, protocol="range", leader="m", members=members)
    key = encode_key(RecordType.GROUP_METADATA, GroupKey("g"))
    return 0, offset, int(START.timestamp() * 1000) + offset * 1000, 0, key, encode_value(RecordType.GROUP_METADATA, value, 3)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(recording, "Cluster", lambda _settings: topic)
    monkeypatch.setattr(recorder, "sample", lambda _: Sample(topic.now, ABOUT, {}, {PARTITION: topic.end}, []))
    monkeypatch.setattr(recorder, "open_consumer", lambda _settings: topic)
    monkeypatch.setattr(recorder, "split_events", lambda found: (found, []))
    monkeypatch.setattr(recorder, "to_batch", lambda found: next(in_batches(iter(found))))
    return topic


def record(topic: Topic, out: Path, pause: float = 3600) -> dict[str, Any]:
    topic.now += pause
    Recorder(Settings({"bootstrap.servers": "nowhere:1"}), out, Schedule()).run(follow=False)
    about: dict[str, Any] = json.loads((out / "capture.json").read_text())
    return about


def test_records_compacted_between_two_runs_are_a_gap_and_no_failed_generations(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets 6 to 40 are compacted away, with 35 generations; later three are skipped, which nothing explains."""
    out = tmp_path / "capture"
    topic.generations, topic.end = {at: at for at in range(1, 6)}, 6
    assert record(topic, out)["gaps"] == []
    topic.generations, topic.end = {41: 41, 42: 42, 43: 46}, 44
    about = record(topic, out)
    assert (about["gaps"], about["missing_before"]) == ([[0, 6, 41]], 1)
    source = read_capture(out)
    assert any("log partition 0: offsets 6 to 40" in note for note in source.notes)
    audited_in_process(source.files, tmp_path / "audited", monkeypatch, gaps=source.gaps)
    files = (tmp_path / "audited" / "tables" / "rebalances").rglob("*.parquet")
    by_generation = {
        one["generation"]: (one["missed_generations"], one["complete"]) for f in files for one in pq.read_table(f).to_pylist()
    }
    assert [by_generation[number] for number in (5, 41, 42, 46)] == [(0, True), (None, False), (0, True), (3, True)]


def test_a_cluster_whose_topics_get_ids_by_an_upgrade_is_the_same_cluster(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics have ids since Kafka 2.8; brokers of before, or with an older inter.broker.protocol.version, answer zeros."""
    topic.generations, topic.end = {0: 1}, 1
    begun = []
    for one in ("A" * 22, "A" * 22, "_4ZRmhSnSlGqGzRlsL8c-w"):
        monkeypatch.setitem(ABOUT["__consumer_offsets"], "topic_id", one)
        begun.append(record(topic, tmp_path / "capture")["started_at"])
    assert begun == [begun[0]] * 3
    monkeypatch.setitem(ABOUT["__consumer_offsets"], "topic_id", "x")
    record(topic, tmp_path / "other")
    monkeypatch.setitem(ABOUT["__consumer_offsets"], "topic_id", "A" * 22)
    with pytest.raises(CaptureError, match="holds a capture of another cluster's offsets topic"):
        record(topic, tmp_path / "other")


def test_ranges_of_later_runs_are_added_and_one_that_is_read_again_is_not(topic: Topic, tmp_path: Path) -> None:
    """One missing offset, or any after a short pause, is a transaction's; a run after a kill notes the same or a longer range."""
    topic.generations, topic.end = {0: 1}, 1
    record(topic, tmp_path)
    topic.generations, topic.end = {5: 2, 6: 3, 9: 4}, 10
    assert record(topic, tmp_path)["gaps"] == [[0, 1, 9]]
    topic.generations, topic.end = {10: 5, 12: 6, 15: 7}, 16
    assert record(topic, tmp_path)["gaps"] == [[0, 1, 9], [0, 13, 15]]
    topic.generations, topic.end = {17: 8}, 18
    assert len(record(topic, tmp_path)["gaps"]) == 2
    topic.generations, topic.end = {27: 9}, 28
    assert len(record(topic, tmp_path, pause=60)["gaps"]) == 2
    assert recorder._with_gap([[0, 1, 9], [0, 13, 15]], 0, 13, 17) == [[0, 1, 9], [0, 13, 17]]


def test_after_a_first_run_that_was_killed_a_range_is_a_gap_only_beyond_its_end(topic: Topic, tmp_path: Path) -> None:
    """What is missing below that end is counted as before the recording."""
    topic.generations, topic.end = {at: at for at in range(1, 6)}, 6
    record(topic, tmp_path)
    about = json.loads((tmp_path / "capture.json").read_text())
    (tmp_path / "capture.json").write_text(
        json.dumps({k: v for k, v in about.items() if k not in ("missing_before", "complete")})
    )
    topic.generations, topic.end = {41: 41, 42: 42}, 43
    again = record(topic, tmp_path)
    assert (again["gaps"], again["missing_before"]) == ([[0, 6, 41]], 1)


def test_a_run_that_was_killed_before_it_had_caught_up_hides_no_gap(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run starts a moment later, but what it has to read is older; once it is read, a short pause is a short one."""
    topic.generations, topic.end = {0: 1}, 1
    record(topic, tmp_path)
    topic.generations, topic.end = {9: 2}, 10
    with monkeypatch.context() as killed:
        killed.setattr(Recorder, "_consume", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            record(topic, tmp_path)
    assert record(topic, tmp_path, pause=5)["gaps"] == [[0, 1, 9]]
    topic.generations, topic.end = {19: 3}, 20
    assert record(topic, tmp_path, pause=60)["gaps"] == [[0, 1, 9]]


def test_a_run_that_ends_with_a_marker_after_its_last_write_has_caught_up(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the partition, behind the marker at offset 2, is reported after both records are written."""
    topic.end = 3
    marker = SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF), partition=lambda: 0, offset=lambda: 3)
    looks: list[tuple[list[Any], list[Any]]] = [([row(0, 1), row(1, 2)], []), ([], [marker])]
    monkeypatch.setattr(topic, "consume", lambda *_: looks.pop(0))
    monkeypatch.setattr(recorder, "split_events", lambda found: found)
    following = Recorder(Settings({"bootstrap.servers": "nowhere:1"}), tmp_path, Schedule(flush=0))
    assert following.run(follow=False).behind == 0
    about = json.loads((tmp_path / "capture.json").read_text())
    assert (about["missing_before"], about["complete"]) == (1, False)
    assert not any("caught up" in note for note in missing_of(tmp_path).notes)


def test_what_retention_deletes_is_not_counted_as_missing_from_before_the_recording(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records are older than --keep-days; each is a file of its own, and a sample comes after each."""
    topic.end, offsets = 4, [0, 1, 2, 3]

    def consume(_count: int, _seconds: float) -> list[Any]:
        assert "deleted_before" not in json.loads((tmp_path / "capture.json").read_text())
        offset = offsets.pop(0)
        if not offsets:
            following.stop()
        return [row(offset, offset + 1)]

    monkeypatch.setattr(topic, "consume", consume)
    taken = lambda: [Sample(topic.now, ABOUT, {}, {PARTITION: topic.end}, [])]  # noqa: E731
    monkeypatch.setattr(recorder, "Sampler", lambda *_: SimpleNamespace(taken=taken, stop=lambda: None))
    following = Recorder(Settings({"bootstrap.servers": "nowhere:1"}), tmp_path, Schedule(flush=0, keep_days=1))
    following.run(follow=True)
    about = json.loads((tmp_path / "capture.json").read_text())
    assert (about["missing_before"], about["complete"]) == (0, True)
    assert pq.read_table(tmp_path / "consumer_offsets.parquet")["offset"].to_pylist() == [3]
    (note,) = (one for one in missing_of(tmp_path).notes if "records from before" in one)
    assert f"{datetime.fromtimestamp(about['deleted_before'], UTC):%Y-%m-%d %H:%M} UTC were deleted" in note


@pytest.mark.parametrize("sample_first", [False, True])
def test_records_compacted_while_a_following_recording_could_not_read_are_a_gap(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sample_first: bool
) -> None:
    """The cluster was out of reach for an hour. Markers of transactions before it, and after the first sample, are no gap."""
    back: list[Any] = [({}, 10, 3600), ({9: 3}, 10, 0)] if sample_first else [({9: 3}, 10, 3600)]
    looks = [({0: 1, 5: 2}, 6, 0), *back, ({10: 4, 15: 5}, 16, 1), ({19: 6}, 20, 3600)]
    real, passed = time.time, [0]
    monkeypatch.setattr(recorder, "time", SimpleNamespace(time=lambda: real() + passed[0], monotonic=time.monotonic))

    class Taken:
        def taken(self) -> list[Sample]:
            return [Sample(topic.now, ABOUT, {}, {PARTITION: topic.end}, [])]

        def stop(self) -> None:
            pass

    def consume(_count: int, _seconds: float) -> list[Any]:
        generations, topic.end, later = looks.pop(0)
        passed[0] += later
        topic.now += later
        if not looks:
            following.stop()
        return [row(offset, number) for offset, number in generations.items()]

    monkeypatch.setattr(topic, "consume", consume)
    monkeypatch.setattr(recorder, "Sampler", lambda *_: Taken())
    following = Recorder(Settings({"bootstrap.servers": "nowhere:1"}), tmp_path, Schedule(flush=0))
    following.run(follow=True)
    assert json.loads((tmp_path / "capture.json").read_text())["gaps"] == [[0, 6, 9], [0, 16, 19]]


def test_a_log_that_was_truncated_and_has_grown_again_is_not_read_twice(tmp_path: Path) -> None:
    """librdkafka reports a truncation (KIP-320) like a position that is gone; a broker that is away is asked again."""
    about, read, ends = CaptureFolder(tmp_path), Recorder(Settings({"bootstrap.servers": "x"}), tmp_path, Schedule()), [(0, 9)]
    assigned: list[int] = []
    consumer = SimpleNamespace(
        get_watermark_offsets=lambda *_, **__: ends.pop(0) if ends else raised(KafkaException(KafkaError(KafkaError._TRANSPORT))),
        incremental_unassign=lambda _: None,
        incremental_assign=lambda places: assigned.append(places[0].offset),
    )
    read._at, read._folder = {PARTITION: 7}, about
    with about.held():
        read._skip(consumer, PARTITION)
        read._skip(consumer, PARTITION)
        ends = [(8, 9), (0, 6)]
        read._skip(consumer, PARTITION)
        with pytest.raises(CaptureError, match="now ends at 6, before position 8: it was truncated"):
            read._skip(consumer, PARTITION)
    assert (assigned, about.about["gaps"]) == ([7, 7, 8], [[0, 7, 8]])
    assert read.status.trouble == "partition 0 was truncated before position 7: records after it may be missing"


def raised(error: Exception) -> Any:
    raise error


def test_a_gap_that_is_known_only_at_the_next_update_is_seen_by_it() -> None:
    """The offset before it is in the saved state, although there was no gap then."""
    state = None
    for rows, gaps in (
        (generation(1, member("a-1", {"t": [0]})), ()),
        (generation(9, member("a-2", {"t": [0]})), ((0, 0, 1 << 40),)),
    ):
        group = GroupState("g", (), PlanCache(), state)
        steps = list(group.feed([rows], {}, lambda *_: None, gaps))
        state = decode_state(encode_state(group.state))
    assert [(step["generation"], step["missed_generations"]) for step in steps] == [(9, None)]


def fed(rows: list[dict[str, Any]], missing: range) -> list[tuple[int, bool, int | None, str]]:
    """Generation, `complete`, `missed_generations` and detail of the steps of these records, without those at some places.

    The state is saved between any two records.
    """
    gap = rows[0]["log_partition"], rows[missing[0]]["log_offset"], rows[missing[-1]]["log_offset"] + 1
    state = None
    steps: list[Any] = []
    for at, row in enumerate(rows):
        if at not in missing:
            group = GroupState("g", (), PlanCache(), state)
            steps += group.feed([{"client_id": None, "rebalance_timeout_ms": None, **row}], {}, lambda *_: None, (gap,))
            state = decode_state(encode_state(group.state))
    steps += group.steps.unfinished()
    return [(one["generation"], one["complete"], one["missed_generations"], one["detail"]) for one in steps]


def test_the_first_epoch_after_a_gap_is_not_complete() -> None:
    joined = modern(5, member_848("a", "t"), "a")
    rows = [joined, *(record for number in (2, 3, 7, 9, 10) for record in epoch(number, {"a": [0]}))]
    found = fed(rows, range(5, 7))
    assert [step[:3] for step in found] == [(2, True, 0), (3, True, 0), (9, False, None), (10, True, 0)]
    assert not any("at once" in step[3] for step in found)


@pytest.mark.parametrize("kinds", [(5, 3, 6, 7), (19, 17, 20, 21)], ids=["consumer", "streams"])
def test_the_first_target_after_a_gap_is_not_complete_even_if_the_first_epoch_is_recorded(kinds: tuple[int, ...]) -> None:
    of_member, of_group, of_target, of_assignment = kinds
    begin = [modern(of_member, member_848("a"), "a"), modern(of_group, json.dumps({"epoch": 1}))]
    targets = [
        record
        for number in (1, 5, 9)
        for record in (
            modern(of_group, json.dumps({"epoch": number})),
            modern(of_assignment, json.dumps({"topic_partitions": [], "active_tasks": []}), "a"),
            modern(of_target, json.dumps({"assignment_epoch": number})),
        )
    ]
    assert [step[:3] for step in fed([*begin, *targets], range(2, 8))] == [(9, False, None)]


def test_a_group_that_was_emptied_after_a_gap_is_not_complete() -> None:
    joined, left = modern(5, member_848("a", "t"), "a"), modern(5, None, "a")
    rows = [joined, *epoch(2, {"a": [0]}), *epoch(7, {"a": [0]}), left, modern(3, json.dumps({"epoch": 9}))]
    assert [step[:3] for step in fed(rows, range(3, 5))] == [(2, True, 0), (9, False, None)]


def test_the_first_epoch_of_a_group_that_was_upgraded_after_a_gap_is_not_complete() -> None:
    classic, lost = (generation(number, member("a-1", {"t": [0]})) for number in (1, 2))
    value = {**json.loads(member_848("a", "t")), "classic_member_metadata": {"session_timeout_ms": 1}}
    rows = [classic, lost, tombstone(), modern(5, json.dumps(value), "a"), *epoch(9, {"a": [0]})]
    found = fed(rows, range(1, 2))
    assert [step[:3] for step in found][1:] == [(1, False, None), (9, False, 0)]
    assert "at once" not in found[-1][3]
