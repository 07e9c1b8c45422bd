"""`counterpoise capture --poll`: what the admin interface shows becomes a history, and what it cannot show is not made up."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicCollection

from counterpoise.pipeline.capture import poller, recording
from counterpoise.pipeline.capture.folder import missing_of
from counterpoise.pipeline.capture.group_poll import GroupPoll, SeenGroup, SeenMember
from counterpoise.pipeline.capture.polled_records import Change, PolledHistory
from counterpoise.pipeline.capture.poller import Poller
from counterpoise.pipeline.capture.recording import Schedule
from counterpoise.pipeline.capture.sampler import Sample
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.history.steps import steps_of_group
from counterpoise.pipeline.records.place import POLLED
from counterpoise.pipeline.run import _notes_of
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.capture import Capture
from counterpoise.wire.offsets_topic.records import Record, Tombstone, decode_record
from counterpoise.wire.offsets_topic.values import TargetAssignmentMemberValue
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import command, eventually, following, once
from tests.pipeline.capture.traffic import commit
from tests.pipeline.pieces_of_folds import history_of
from tests.pipeline.rows import generation_batches, modern_batches

IDS = {"t": bytes(range(16)), "u": bytes(range(1, 17))}


def member(name: str, *partitions: int, topic: str = "t") -> SeenMember:
    return SeenMember(f"{name}-id", name, "/10.0.0.1", None, tuple((topic, index) for index in partitions))


def group(*members: SeenMember, modern: bool = False, name: str = "g", **changes: Any) -> SeenGroup:
    return replace(SeenGroup(name, modern, True, "range" if members else "", members), **changes)


def _gone(_topic: str) -> bool:
    """Topics whose commits are not shown can be described: these commits are deleted."""
    return False


def batch_of(*looks: list[Change]) -> pa.RecordBatch:
    """The records of looks that were a second apart."""
    changes = [change for look in looks for change in look]
    seconds = [at for at, look in enumerate(looks) for _ in look]
    count = len(changes)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _ in changes], pa.binary()),
            "value": pa.array([value for _, value in changes], pa.binary()),
            "partition": pa.array([POLLED] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([1_000_000 * at for at in seconds], pa.timestamp("us", "UTC")),
        }
    )


def steps(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The steps of all groups' lives, as the audit folds them."""
    rows = [{**row, "record_type": None} for each in generation_batches([batch]) for row in each.to_pylist()]
    rows += [row for each in modern_batches([batch]) for row in each.to_pylist()]
    rows.sort(key=lambda row: (row["group_id"], row["log_offset"]))
    return [
        {"group": name, **step}
        for name, lines in groupby(rows, key=lambda row: row["group_id"])
        for step in steps_of_group(lines)
    ]


def held(step: dict[str, Any]) -> dict[str, set[int]]:
    return {m["client_id"]: {index for each in m["assigned"] for index in each["partitions"]} for m in step["assignment"]}


def lived(*looks: list[SeenGroup]) -> list[dict[str, Any]]:
    """The steps that come of several looks."""
    history = PolledHistory()
    changes = [history.changes(seen, IDS, 7, _gone) + history.deletions({each.group_id for each in seen}) for seen in looks]
    return steps(batch_of(*changes))


@pytest.mark.parametrize("modern", [False, True])
def test_a_change_between_two_looks_is_one_step_and_never_complete(modern: bool) -> None:
    """Joined, moved, emptied, deleted; a look that shows the same writes nothing."""
    one, two = group(member("a", 0, 1), modern=modern), group(member("a", 0), member("b", 1), modern=modern)
    found = lived([one], [one], [two], [group(modern=modern)], [])
    assert [(step["kind"], step["generation"]) for step in found] == [
        ("rebalance", 1),
        ("rebalance", 2),
        ("emptied", 3),
        ("deleted", 3),
    ]
    assert [(step["cause"], step["joined"], step["left"]) for step in found[:2]] == [
        ("join", ["a-id"], []),
        ("join", ["b-id"], []),
    ]
    assert [held(step) for step in found[:2]] == [{"a": {0, 1}}, {"a": {0}, "b": {1}}]
    assert found[1]["n_moved"] == 1
    assert [step["complete"] for step in found[:3]] == [False] * 3
    assert [step.get("missed_generations") for step in found[:3]] == [None] * 3


def test_two_rebalances_between_two_looks_are_one_and_a_round_trip_is_none() -> None:
    """A known limit: what happens between two looks leaves no trace."""
    before, between = group(member("a", 0, 1)), group(member("a", 0), member("b", 1))
    after = group(member("a", 1), member("c", 0))
    assert len(lived([before], [between], [after])) == 3
    assert len(lived([before], [after])) == 2
    assert len(lived([before], [between], [before])) == 3
    assert len(lived([before], [before])) == 1


def test_a_group_in_a_rebalance_is_not_taken_for_an_empty_one() -> None:
    """While members join, the coordinator reports no assignments."""
    rebalancing = group(member("a"), member("b"), stable=False)
    assert len(lived([group(member("a", 0))], [rebalancing], [group(member("a", 0))])) == 1


def test_a_group_that_changes_its_protocol_is_migrated() -> None:
    found = lived([group(member("a", 0))], [group(member("a", 0), modern=True)], [group(member("a", 0))])
    assert [(step["kind"], step["group_type"]) for step in found] == [
        ("rebalance", "classic"),
        ("migrated", "classic"),
        ("rebalance", "consumer"),
        ("migrated", "consumer"),
        ("rebalance", "classic"),
    ]


def test_the_first_poll_that_shows_a_new_topic_has_its_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id is asked for; without it the group would get a second epoch for the same change after the next sample."""
    seen = [["t"], ["t", "u"]]

    def sampled(_: Any) -> Sample:
        known = {name: {"topic_id": urlsafe_b64encode(IDS[name]).decode()} for name in seen.pop(0)}
        return Sample(1.0, known, {}, {}, [])

    monkeypatch.setattr(recording, "Cluster", lambda _: SimpleNamespace(cluster_id="c"))
    monkeypatch.setattr(poller, "sample", sampled)
    held = group(member("a", 0, topic="u"), modern=True)
    monkeypatch.setattr(poller, "poll_groups", lambda _: GroupPoll([held], {"g"}, []))
    Poller(Settings({"bootstrap.servers": "nowhere:1"}), tmp_path, Schedule()).run(follow=False)
    rows = pq.read_table(tmp_path / "consumer_offsets.parquet").to_pylist()
    (target,) = [decode_record(row["key"], row["value"]) for row in rows if row["key"][1] == 7]
    assert isinstance(target, Record)
    assert isinstance(target.value, TargetAssignmentMemberValue)
    assert [(bytes(one.topic_id), list(one.partitions)) for one in target.value.topic_partitions] == [(IDS["u"], [0])]


@pytest.mark.parametrize(
    ("answer", "deleted", "fault"),
    [
        (ConsumerGroupState.DEAD, True, None),
        (KafkaError.GROUP_ID_NOT_FOUND, True, None),
        (ConsumerGroupState.STABLE, False, None),
        (-1, False, "__consumer_offsets: partition 1 has no leader, so its groups are not listed"),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, False, "no broker lists it, and whether it is deleted is unknown (Broker: Coord"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, False, "no broker lists it, and whether it is deleted is unknown (Broker: Group"),
    ],
)
def test_a_group_that_is_not_listed_is_deleted_only_if_its_coordinator_says_so(
    answer: Any, deleted: bool, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its partition of the offsets topic has no leader, no broker lists it; nor if it may not be described any more."""

    def describe(names: list[str], **_: Any) -> dict[str, Future[Any]]:
        assert names == ["g"]
        assert answer != -1, "it must not be described"
        future: Future[Any] = Future()
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        else:
            future.set_result(SimpleNamespace(state=answer))
        return {"g": future}

    settings = Settings({"bootstrap.servers": "nowhere:1"})
    partitions = {0: SimpleNamespace(leader=1), 1: SimpleNamespace(leader=answer if answer == -1 else 1)}
    listed = SimpleNamespace(topics={"__consumer_offsets": SimpleNamespace(partitions=partitions)})
    admin = SimpleNamespace(describe_consumer_groups=describe, list_topics=lambda _, **__: listed)
    cluster = SimpleNamespace(cluster_id="c", admin=admin, settings=settings, request=lambda call, _: call())
    polls = [GroupPoll([group(member("a", 0))], {"g"}, []), GroupPoll([], set(), [])]
    monkeypatch.setattr(recording, "Cluster", lambda _: cluster)
    monkeypatch.setattr(poller, "sample", lambda _: Sample(1.0, {}, {}, {}, []))
    monkeypatch.setattr(poller, "poll_groups", lambda _: polls.pop(0))
    polled = [Poller(settings, tmp_path, Schedule()).run(follow=False) for _ in range(2)]
    assert [status.records for status in polled] == [1, int(deleted)]
    assert [line.removeprefix("group g: ")[: len(fault or "")] for line in polled[1].hidden] == ([] if fault is None else [fault])
    about = json.loads((tmp_path / "capture.json").read_text())
    assert (about["polls"], about["hidden"]) == (1, polled[1].hidden), "an audit would not know of the last poll"


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (None, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError._TIMED_OUT, False),
    ],
)
def test_commits_that_are_not_shown_are_deleted_only_if_their_topic_is_not_hidden(
    answer: int | None, deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker leaves out the commits of topics that the principal may not describe (any more), without an error."""
    asked: list[str] = []

    def describe(topics: TopicCollection, **_: Any) -> dict[str, Future[Any]]:
        (name,) = topics.topic_names
        asked.append(name)
        future: Future[Any] = Future()
        if answer is None:
            future.set_result(SimpleNamespace(name=name))
        else:
            future.set_exception(KafkaException(KafkaError(answer)))
        return {name: future}

    settings = Settings({"bootstrap.servers": "nowhere:1"})
    admin = SimpleNamespace(describe_topics=describe)
    cluster = SimpleNamespace(cluster_id="c", admin=admin, settings=settings, request=lambda call, _: call())
    looks = [{("t", 0): (5, -1, ""), ("u", 0): (6, -1, ""), ("u", 1): (7, -1, "")}, {("t", 0): (5, -1, "")}]
    polls = [GroupPoll([group(commits=commits)], {"g"}, []) for commits in looks]
    monkeypatch.setattr(recording, "Cluster", lambda _: cluster)
    monkeypatch.setattr(poller, "sample", lambda _: Sample(1.0, {}, {}, {}, []))
    monkeypatch.setattr(poller, "poll_groups", lambda _: polls.pop(0))
    polled = [Poller(settings, tmp_path, Schedule()).run(follow=False) for _ in range(2)]
    assert [status.records for status in polled] == [3, 2 * deleted]
    assert asked == ["u"]
    words = "topic u: its commits are not shown, and whether they are deleted is unknown ("
    assert [line[: len(words)] for line in polled[1].hidden] == ([] if deleted else [words])


def test_faults_of_polls_name_groups_so_they_are_apart_from_other_notes(tmp_path: Path) -> None:
    """If names are hashed, only the number of faults is reported."""
    about = {"source": "poll", "every": 5, "hidden": ["group payments: cannot read its commits", "group b: x"]}
    (tmp_path / "capture.json").write_text(json.dumps(about))
    missing = missing_of(tmp_path)
    assert (len(missing.notes), list(missing.faults)) == (1, about["hidden"])
    capture = Capture(notes=missing.notes, faults=missing.faults)
    assert _notes_of(capture, with_names=True) == [*missing.notes, *missing.faults]
    assert _notes_of(capture, with_names=False) == [*missing.notes, "2 faults of polls left out: they name groups"]


def test_commits_are_written_when_they_change() -> None:
    history = PolledHistory()

    def changed(now: int, **offsets: int | None) -> list[tuple[str, int | None, int | None]]:
        commits = {("t", int(name[1:])): None if offset is None else (offset, -1, "m") for name, offset in offsets.items()}
        found = []
        for key, value in history.changes([group(commits=commits)], IDS, now, _gone):
            record: Any = decode_record(key, value)
            at = record.key.partition
            known = isinstance(record, Record)
            found.append((f"p{at}", record.value.offset if known else None, record.value.commit_timestamp if known else None))
            assert known or isinstance(record, Tombstone)
        return found

    assert changed(1, p0=5, p1=6) == [("p0", 5, 1), ("p1", 6, 1)]
    assert changed(2, p0=5, p1=7) == [("p1", 7, 2)]
    assert changed(2, p0=None, p1=7) == []  # that of p0 could not be read
    assert changed(3, p1=7) == [("p0", None, None)]
    assert changed(4, p1=7) == []
    assert history.changes([group(commits=None)], IDS, 5, _gone) == []


def test_a_history_continues_where_its_records_say() -> None:
    first = PolledHistory()
    changes = first.changes([group(member("a", 0)), group(member("b", 1), name="h", modern=True)], IDS, 1, _gone)
    again = PolledHistory(changes)
    assert again.changes([group(member("a", 0)), group(member("b", 1), name="h", modern=True)], IDS, 2, _gone) == []
    more = steps(batch_of(changes + again.changes([group(member("a", 0, 1))], IDS, 3, _gone) + again.deletions({"g"})))
    assert [(step["group"], step["kind"], step["generation"]) for step in more] == [
        ("g", "rebalance", 1),
        ("g", "rebalance", 2),
        ("h", "rebalance", 1),
        ("h", "deleted", 1),
    ]


def test_a_report_knows_that_a_group_was_polled() -> None:
    blank = dict.fromkeys(TABLES["rebalances"].names)
    rows = [{**blank, "log_partition": POLLED, **step} for step in lived([group(member("a", 0))], [])]
    assert [history_of([{**row, "log_partition": at} for row in rows])["polled"] for at in (POLLED, 3)] == [True, False]


def test_no_library_is_guessed() -> None:
    """Neither of members nor of a leader: the bytes are ours."""
    (batch,) = generation_batches([batch_of(PolledHistory().changes([group(member("a", 0))], IDS, 1, _gone))])
    (row,) = batch.to_pylist()
    assert (row["leader"], row["leader_library"], row["members"][0]["library"]) == (None, None, "unknown")
    assert (row["members"][0]["topics"], row["state_ts"]) == (["t"], None)


@contextmanager
def consuming(broker: Broker, group: str, protocol: str = "classic") -> Iterator[Callable[[], Any]]:
    """A consumer of the topic; called, it polls and returns what it holds."""
    settings = {"group.id": group, "client.id": f"c-{time.monotonic_ns()}", "group.protocol": protocol}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe(["polled"])

    def poll() -> set[int]:
        consumer.poll(0.05)
        return {each.partition for each in consumer.assignment()}

    try:
        yield poll
    finally:
        consumer.close()


def settle(*members: Callable[[], Any]) -> None:
    """Poll until all partitions are owned once, evenly."""
    deadline = time.monotonic() + 120
    while True:
        owned = [each() for each in members]
        if sum(map(len, owned)) == 4 == len(set().union(*owned)) and max(map(len, owned)) - min(map(len, owned)) <= 1:
            return
        assert time.monotonic() < deadline, owned


def read(out: Path, name: str) -> list[dict[str, Any]]:
    if not (out / "consumer_offsets.parquet").exists():
        return []
    table = pq.read_table(out / "consumer_offsets.parquet").sort_by("offset")
    batches = table.combine_chunks().to_batches()
    return [step for step in steps(batches[0]) if step["group"] == name] if batches else []


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    broker.create_topic("polled", 4)
    return "polled"


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_followed_by_polls(broker: Broker, topic: str, tmp_path: Path, protocol: str) -> None:
    """A member joins, another joins, one leaves: each change is seen, owners are as the members have them; SIGTERM ends it."""
    name = f"polled-{protocol}"
    commit(broker, f"{name}-commits", topic, [3])
    with following(broker, tmp_path, "--poll", "--poll-every", "0.2") as process, consuming(broker, name, protocol) as first:
        settle(first)
        eventually(lambda: first() and len(read(tmp_path, name)) >= 1, "the first member was not seen", process)
        with consuming(broker, name, protocol) as second:
            settle(first, second)
            mine = sorted(map(sorted, (first(), second())))

            def seen() -> bool:
                first(), second()
                found = read(tmp_path, name)
                return bool(found) and sorted(sorted(each) for each in held(found[-1]).values()) == mine

            eventually(seen, "the second member was not seen", process)
        settle(first)
        eventually(lambda: first() and len(held(read(tmp_path, name)[-1])) == 1, "its end was not seen", process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["groups"] >= 2
    found = read(tmp_path, name)
    assert {step["group_type"] for step in found} == {protocol}
    assert not any(step["complete"] for step in found)
    assert any(each["cause"] in ("join", "join_leave") for each in found)
    assert any("made from polls every 0.2 s" in note for note in missing_of(tmp_path).notes)


@pytest.mark.kafka
@pytest.mark.usefixtures("topic")
def test_rebalances_between_two_polls_merge(broker: Broker, tmp_path: Path) -> None:
    """The topic has them all, two polls have one. A folder of one kind is not continued by the other kind."""
    polled, real = tmp_path / "polled", tmp_path / "real"
    with consuming(broker, "merged") as first:
        settle(first)
        once(broker, polled, "--poll")
        assert len(read(polled, "merged")) == 1
        with consuming(broker, "merged") as second:
            settle(first, second)
        settle(first)
        with consuming(broker, "merged") as third:
            settle(first, third)
            once(broker, polled, "--poll")
            once(broker, real)
    seen = read(polled, "merged")
    assert [(step["generation"], step["complete"], len(held(step))) for step in seen] == [(1, False, 1), (2, False, 2)]
    table = pq.read_table(real / "consumer_offsets.parquet")
    rows = [row for batch in generation_batches(table.combine_chunks().to_batches()) for row in batch.to_pylist()]
    assert max(row["generation"] or 0 for row in rows if row["group_id"] == "merged") >= 4
    for out, more, words in (
        (polled, [], "holds a capture from polls"),
        (real, ["--poll"], "from the offsets topic or a backup"),
    ):
        done = subprocess.run(command(broker, out, *more), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr
