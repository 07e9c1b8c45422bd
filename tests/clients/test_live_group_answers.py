"""A group read through an admin client that answers in part, or late; given capacities. What is not read is no lag of zero."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # exported, but not in its stubs

from counterpoise.cli.app import app, exit_code_of
from counterpoise.cli.lag_command import hint, read_capacities
from counterpoise.clients import admin_requests
from counterpoise.clients.live_group import LiveGroup, read_live_group
from counterpoise.errors import OptionError, SourceError

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
NOT_ALLOWED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command connects to nothing: the answers are those of `Brokers`."""
    monkeypatch.setattr("counterpoise.pipeline.capture.cluster.Cluster.admin", None)


def answered(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


def at(topic: str, partition: int, offset: int = -1, error: KafkaError | None = None) -> Any:
    return SimpleNamespace(topic=topic, partition=partition, offset=offset, error=error)


class Brokers:
    """An AdminClient's answers; `refused` holds what fails: "group", "committed", a topic, or (topic, partition, latest)."""

    def __init__(
        self,
        held: Mapping[str, Mapping[str, Iterable[int]]],
        sizes: Mapping[str, int],
        committed: Mapping[tuple[str, int], int],
        refused: Mapping[object, Exception] | None = None,
        state: str = "STABLE",
    ) -> None:
        self.state = state
        self.held, self.sizes, self.committed, self.refused = held, sizes, committed, dict(refused or {})
        self.asked: list[int] = []
        self.timeouts: set[float] = set()

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        self.timeouts.add(request_timeout)
        members = [
            SimpleNamespace(
                member_id=f"{client}-id",
                client_id=client,
                assignment=SimpleNamespace(topic_partitions=[at(topic, p) for topic, listed in owned.items() for p in listed]),
            )
            for client, owned in self.held.items()
        ]
        described = SimpleNamespace(members=members, state=SimpleNamespace(name=self.state), partition_assignor="range")
        return {groups[0]: answered(self.refused.get("group", described))}

    def list_consumer_group_offsets(self, asked: list[Any], request_timeout: float) -> dict[str, Future[Any]]:
        self.timeouts.add(request_timeout)
        answers = [
            at(topic, p, offset, self.refused[topic, p].args[0] if (topic, p) in self.refused else None)
            for (topic, p), offset in self.committed.items()
        ]
        return {asked[0].group_id: answered(self.refused.get("committed", SimpleNamespace(topic_partitions=answers)))}

    def describe_topics(self, asked: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self.timeouts.add(request_timeout)
        return {
            name: answered(
                self.refused.get(
                    name, SimpleNamespace(partitions=[SimpleNamespace(replicas=[SimpleNamespace(rack=None)])] * self.sizes[name])
                )
            )
            for name in asked.topic_names
        }

    def list_offsets(
        self, asked: Mapping[Any, Any], request_timeout: float, isolation_level: IsolationLevel
    ) -> dict[Any, Future[Any]]:
        assert isolation_level is IsolationLevel.READ_UNCOMMITTED
        self.timeouts.add(request_timeout)
        self.asked.append(len(asked))
        latest = next(iter(asked.values())) is OffsetSpec.latest()
        return {
            each: answered(self.refused.get((each.topic, each.partition, latest), SimpleNamespace(offset=100 if latest else 0)))
            for each in asked
        }


def read(brokers: Brokers, **more: Any) -> LiveGroup:
    return read_live_group({"bootstrap.servers": "b"}, "g", timeout=7, admin=brokers, **more)


def test_what_a_broker_does_not_tell_is_a_fault_and_no_lag_of_zero() -> None:
    """The end of t-1 timed out, the commit of t-2 was refused, topic u may not be described: t-0 and t-3 are known."""
    brokers = Brokers(
        {"a": {"t": [0, 1]}, "b": {"t": [2, 3], "u": [0]}},
        {"t": 4, "u": 1},
        {("t", 0): 30, ("t", 1): 40, ("t", 2): 50, ("t", 3): 100},
        {("t", 1, True): TIMED_OUT, ("t", 2): NOT_ALLOWED, "u": NOT_ALLOWED},
    )
    found = read(brokers)
    assert [(state.partition, state.lag, state.committed, state.end) for state in found.partitions] == [
        (0, 70, 30, 100),
        (1, None, 40, -1),
        (2, None, -1, 100),
        (3, 0, 100, 100),
    ]
    assert [fault.split(": ")[0] for fault in found.faults] == ["t-2", "topic u", "t-1"]
    assert "end offset" in found.faults[2]
    assert found.group.lag == {"t": [70, 0, 0, 0]}
    assert brokers.timeouts == {7}


def test_topics_without_an_owner_or_a_commit_are_read_if_they_are_asked_for() -> None:
    """As by a leader: while it plans the first rebalance of a group, brokers show neither."""
    brokers = Brokers({"a": {}}, {"t": 2}, {})
    assert read(brokers, reset="earliest").group.lag == {}
    assert read(brokers, reset="earliest", more_topics=["t"]).group.lag == {"t": [100, 100]}


def test_offsets_are_asked_for_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_requests, "BATCH", 4)
    brokers = Brokers({"a": {"t": range(10)}}, {"t": 10}, {("t", 0): 30})
    assert [state.lag for state in read(brokers, reset="earliest").partitions] == [70, *[100] * 9]
    assert brokers.asked == [4, 4, 2] * 2


@pytest.mark.parametrize(("what", "words"), [("group", "cannot be described"), ("committed", "committed offsets cannot be read")])
def test_without_members_or_commits_there_is_no_group_to_show(what: str, words: str) -> None:
    with pytest.raises(SourceError, match=f"b: group g: {words}.*[Tt]imed out") as raised:
        read(Brokers({"a": {"t": [0]}}, {"t": 1}, {}, {what: TIMED_OUT}))
    assert exit_code_of(raised.value) == 3


@pytest.mark.parametrize(
    "brokers",
    [
        Brokers({}, {}, {}, state="DEAD"),
        Brokers({}, {}, {}, {"group": KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND))}),
    ],
    ids=["as brokers before 4.0 answer", "as brokers from 4.0 answer"],
)
def test_a_group_that_is_not_there_is_no_group_without_lag(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"^b: group g: there is no such group; kafka-consumer-groups --list shows"):
        read(brokers)
    monkeypatch.setattr("counterpoise.clients.live_group.read_live_group", lambda *_, **__: read(brokers))
    shown = CliRunner().invoke(app, ["lag", "--bootstrap-server", "b", "--group", "g"])
    assert (shown.exit_code, shown.stdout, len(shown.stderr.splitlines())) == (2, "", 1)


def test_how_a_lag_was_found_has_a_name_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed, nothing committed, beyond the end, and unknown."""
    brokers = Brokers({"a": {"t": [0, 1, 2, 3]}}, {"t": 4}, {("t", 0): 30, ("t", 2): 900}, {("t", 3, True): TIMED_OUT})
    monkeypatch.setattr("counterpoise.clients.live_group.read_live_group", lambda *_, **__: read(brokers))
    shown = CliRunner().invoke(app, ["lag", "--bootstrap-server", "b", "--group", "g", "--json"])
    found = [partition["quality"] for partition in json.loads(shown.stdout)["partitions"]]
    assert (found, shown.exit_code) == (["exact", "reset_policy", "beyond_end", "unknown"], 1)


def test_settings_that_do_not_work_are_one_clear_error() -> None:
    with pytest.raises(SourceError, match=r"the connection settings do not work: .*no\.such\.setting"):
        read_live_group({"bootstrap.servers": "b", "no.such.setting": "1"}, "g")


def test_a_request_that_is_never_answered_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library gets its own time-out. A future that is still open some seconds later is given up."""
    brokers = Brokers({"a": {"t": [0]}}, {"t": 1}, {})
    monkeypatch.setattr(brokers, "describe_consumer_groups", lambda groups, **_: {groups[0]: Future()})
    waited: list[float] = []

    def result(_: Any, timeout: float) -> Any:
        waited.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(Future, "result", result)
    with pytest.raises(SourceError, match="group g: cannot be described"):
        read(brokers)
    assert waited == [12]


def test_with_nothing_committed_and_no_policy_the_partitions_are_named() -> None:
    brokers = Brokers({"a": {"t": [0, 1]}}, {"t": 2}, {("t", 0): 30})
    with pytest.raises(OptionError, match=r"nothing is committed for partition t-1 and auto\.offset\.reset is none"):
        read(brokers, reset="none")


def weighted(**capacity: int) -> LiveGroup:
    """Two clients: a holds 300 records of lag, b 100; six partitions of 100 or none."""
    ends = {("t", p): 0 if p in (0, 1, 2, 3) else 100 for p in range(6)}
    brokers = Brokers({"a": {"t": [0, 1, 2, 4]}, "b": {"t": [3, 5]}}, {"t": 6}, ends)
    return read(brokers, capacity=capacity)


def test_the_hint_counts_lag_per_capacity() -> None:
    """300 and 100 are uneven for equals; for a member of three times the capacity they are what they should be."""
    assert "cut the largest lag of a member from 300 to 200" in str(hint(weighted()))
    assert hint(weighted(a=2, b=1)) is None
    assert "cut the largest lag of a member per capacity from 300 to 100" in str(hint(weighted(a=1, b=3)))
    assert [member.capacity for member in weighted(b=3).group.members] == [1, 3]
    assert [member.capacity for member in weighted(**{"a": 5, "a-id": 2}).group.members] == [2, 1]


@pytest.mark.parametrize(("lags", "advised"), [((50, 50, 40, 40), True), ((51, 50, 40, 41), False)])
def test_a_hint_is_given_from_a_tenth_on(lags: tuple[int, ...], advised: bool) -> None:
    """From 100 to 90 is a tenth, from 101 to 91 is less."""
    committed = {("t", partition): 100 - lag for partition, lag in enumerate(lags)}
    live = read(Brokers({"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}, {"t": 4}, committed))
    assert (hint(live) is not None) == advised


def test_capacities_that_fit_nobody_are_refused() -> None:
    with pytest.raises(OptionError, match="capacity: group g has no member or client 'c'; its clients: a, b"):
        weighted(c=2)
    assert read_capacities(["a=2", "x=y=3", "z=007"]) == {"a": 2, "x=y": 3, "z": 7}
    for word in ("a", "a=", "=2", "a=0", "a=-1", "a=2.5", "a=x", f"a={'0' * 19}19999999999", f"a={'9' * 5_000}"):
        with pytest.raises(OptionError, match="expected CLIENT=N"):
            read_capacities([word])


def test_the_command_takes_capacities_and_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpoise.clients.live_group.read_live_group", lambda *_, capacity, **__: weighted(**capacity))
    words = ["lag", "--bootstrap-server", "b", "--group", "g"]
    shown = CliRunner().invoke(app, [*words, "--capacity", "b=3"])
    assert shown.exit_code == 1
    assert "per capacity from 300 to 100" in shown.stdout
    assert "capacity" in shown.stdout.splitlines()[1]
    assert "capacity" not in CliRunner().invoke(app, words).stdout.splitlines()[1]
    refused = CliRunner().invoke(app, [*words, "--capacity", "b"])
    assert (refused.exit_code, refused.stderr) == (
        2,
        "counterpoise: --capacity b: expected CLIENT=N, N a whole number from 1 to 2147483647\n",
    )
