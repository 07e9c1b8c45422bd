"""The rebalance listener: real differences, commits before revocation, nothing committed after a lost membership."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.clients.ownership import Membership, Ownership
from counterpoise.clients.rebalance_listener import rebalance_listener
from counterpoise.errors import OptionError

ROOT = Path(__file__).resolve().parent.parent.parent
T0, T1, T2, T3 = (("t", index) for index in range(4))
NONE: frozenset[Any] = frozenset()


def test_an_eager_rebalance_loses_and_gains_only_the_difference() -> None:
    ledger = Ownership()
    assert ledger.assigned([T0, T1], Membership("m", 4), held=None) == (NONE, frozenset({T0, T1}))
    assert ledger.revoked([T0, T1], cooperative=False) == frozenset()
    assert ledger.owned == frozenset()
    assert ledger.assigned([T1, T2], Membership("m", 5), held=None) == (frozenset({T0}), frozenset({T2}))


@pytest.mark.parametrize("back", [Membership("other", 5), Membership("m", 6), Membership("m", 3), None])
def test_after_an_interruption_all_is_lost_and_gained(back: Membership | None) -> None:
    """A new member id, a generation slept through, a group begun anew, or a host that does not tell."""
    ledger = Ownership()
    ledger.assigned([T0, T1], Membership("m", 4), held=None)
    ledger.revoked([T0, T1], cooperative=False)
    assert ledger.assigned([T0, T1], back, held=None) == (frozenset({T0, T1}), frozenset({T0, T1}))


def test_a_cooperative_rebalance_reports_what_the_host_reports() -> None:
    ledger = Ownership()
    ledger.assigned([T0, T1, T2], Membership("m", 4), held=[T0, T1, T2])
    ledger.processed(T0, 7)
    assert ledger.revoked([T2], cooperative=True) == {T2}
    assert ledger.assigned([T3], Membership("m", 6), held=[T0, T1, T3]) == (NONE, frozenset({T3}))
    assert ledger.owned == {T0, T1, T3}
    assert ledger.to_commit() == {T0: 8}


def test_a_cooperative_member_that_became_somebody_new_has_lost_what_its_host_kept() -> None:
    ledger = Ownership()
    ledger.assigned([T0, T1], Membership("m", 4), held=[T0, T1])
    ledger.processed(T0, 7)
    assert ledger.assigned([T2], Membership("n", 9), held=[T0, T1, T2]) == (frozenset({T0, T1}), frozenset({T0, T1, T2}))
    assert ledger.to_commit() == {}


def test_a_listener_that_comes_later_also_owns_what_a_cooperative_host_has_kept() -> None:
    """kafka-python 3 reports only what is new. Offsets of the rest were never committed."""
    ledger = Ownership()
    assert ledger.assigned([T2], Membership("m", 5), held=[T0, T2]) == (NONE, frozenset({T0, T2}))
    ledger.processed(T0, 7)
    assert ledger.to_commit() == {T0: 8}


def test_offsets_of_an_earlier_ownership_are_forgotten() -> None:
    ledger = Ownership()
    ledger.assigned([T0, T1], Membership("m", 4), held=None)
    ledger.processed(T0, 41)
    ledger.revoked([T0, T1], cooperative=False)
    ledger.processed(T1, 9)
    ledger.assigned([T0, T1], Membership("m", 5), held=None)
    assert ledger.to_commit() == {}
    ledger.processed(T0, 50)
    ledger.processed(T2, 1)
    assert ledger.to_commit() == {T0: 51}


@given(st.lists(st.tuples(st.sampled_from(["rebalance", "lose", "sleep"]), st.sets(st.integers(0, 5))), max_size=12))
def test_what_was_gained_minus_what_was_lost_is_what_is_owned(steps: list[tuple[str, set[int]]]) -> None:
    ledger, open_now, generation = Ownership(), set[Any](), 0
    for event, indices in steps:
        now = {("t", index) for index in indices}
        if event == "lose":
            lost, gained = ledger.lost(), frozenset[Any]()
            now = set()
        else:
            generation += 2 if event == "sleep" else 1
            ledger.revoked(ledger.owned, cooperative=False)
            lost, gained = ledger.assigned(now, Membership("m", generation), held=None)
        assert lost <= open_now
        open_now -= lost
        assert not gained & open_now
        open_now |= gained
        assert open_now == now == ledger.owned


class Calls:
    """A consumer as each client has it, as far as a listener touches it; keeps what is called, in order."""

    def __init__(self, module: str, *, fails: str = "", sync: bool = False) -> None:
        self.seen: list[Any] = []
        self.fails = fails
        self.gate: asyncio.Event | None = None
        commit = self._commit_now if sync and module.startswith("kafka") else self._commit
        type_ = type("Consumer", (), {"__module__": module, "seek": self._seek, "commit": commit})
        self.consumer = type_()
        self.consumer._coordinator = SimpleNamespace(
            generation=4,
            member_id="m",
            _generation=SimpleNamespace(generation_id=4, member_id="m"),
            _commit_offsets_sync_async=self._commit,
        )

    def _seek(self, partition: Any, offset: int) -> None:
        self.seen.append(("seek", partition.partition, offset))

    async def _commit(self, offsets: dict[Any, Any]) -> None:
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()
        self._commit_now(offsets)

    def _commit_now(self, offsets: dict[Any, Any]) -> None:
        self.seen.append(("commit", {each.partition: getattr(at, "offset", at) for each, at in offsets.items()}))
        if self.fails:
            import aiokafka.errors
            import kafka.errors

            errors = aiokafka.errors if "aio" in type(self.consumer).__module__ else kafka.errors
            error, _, cause = self.fails.rstrip("()").partition("(")
            if cause and errors is kafka.errors:
                raise getattr(errors, error)(getattr(errors, cause)())
            raise getattr(errors, error) from (getattr(errors, cause)() if cause else None)

    def listener(self, start: Callable[[Any], int | None] | None = None) -> Any:
        def recorder(word: str) -> Callable[[Iterable[Any]], None]:
            return lambda partitions: self.seen.append((word, [each.partition for each in partitions]))

        return rebalance_listener(self.consumer, on_lost=recorder("lost"), on_gained=recorder("gained"), start=start)

    def generation(self, number: int) -> None:
        self.consumer._coordinator.generation = number
        self.consumer._coordinator._generation.generation_id = number


async def rebalance(calls: Calls, listener: Any, before: list[int], after: list[int]) -> None:
    """What an eager host calls, with a record of partition 0 processed before."""
    from kafka.structs import TopicPartition

    await listener.on_partitions_assigned([TopicPartition("t", each) for each in before])
    listener.processed(SimpleNamespace(topic="t", partition=0, offset=41))
    await listener.on_partitions_revoked([TopicPartition("t", each) for each in before])
    calls.generation(5)
    await listener.on_partitions_assigned([TopicPartition("t", each) for each in after])


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_commits_come_before_the_loss_and_the_loss_before_the_gain(module: str) -> None:
    calls = Calls(module)
    asyncio.run(rebalance(calls, calls.listener(), [0, 1], [1, 2]))
    assert calls.seen == [("gained", [0, 1]), ("commit", {0: 42}), ("lost", [0]), ("gained", [2])]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_a_commit_refused_for_lost_membership_loses_all_at_once(module: str) -> None:
    calls = Calls(module, fails="CommitFailedError")
    asyncio.run(rebalance(calls, calls.listener(), [0, 1], [1, 2]))
    assert calls.seen == [("gained", [0, 1]), ("commit", {0: 42}), ("lost", [0, 1]), ("gained", [1, 2])]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_a_commit_that_fails_otherwise_loses_nothing(module: str) -> None:
    calls = Calls(module, fails="RequestTimedOutError")
    asyncio.run(rebalance(calls, calls.listener(), [0, 1], [1, 2]))
    assert calls.seen == [("gained", [0, 1]), ("commit", {0: 42}), ("lost", [0]), ("gained", [2])]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_a_client_that_knows_it_is_forgotten_commits_nothing(module: str) -> None:
    from kafka.structs import TopicPartition

    calls = Calls(module)
    listener = calls.listener()

    async def forgotten() -> None:
        await listener.on_partitions_assigned([TopicPartition("t", 0)])
        listener.processed(SimpleNamespace(topic="t", partition=0, offset=41))
        calls.generation(-1)
        await listener.on_partitions_revoked([TopicPartition("t", 0)])

    asyncio.run(forgotten())
    assert calls.seen == [("gained", [0]), ("lost", [0])]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_everything_assigned_starts_where_the_application_says(module: str) -> None:
    calls = Calls(module)
    asyncio.run(
        rebalance(calls, calls.listener(lambda each: None if each.partition == 1 else 100 + each.partition), [0, 1], [1, 2])
    )
    assert [each for each in calls.seen if each[0] == "seek"] == [("seek", 0, 100), ("seek", 2, 102)]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_closing_reports_what_is_left(module: str) -> None:
    calls = Calls(module)
    listener = calls.listener()
    asyncio.run(rebalance(calls, listener, [0], [0, 1]))
    answer = listener.close()
    if answer is not None:
        asyncio.run(answer)
    assert calls.seen[-1] == ("lost", [0, 1])
    assert listener.owned == frozenset()


def test_on_kafka_python_3_the_last_call_that_can_wait_reports_what_closing_loses() -> None:
    """An eager consumer only revokes when it closes; `listener.close()` afterwards cannot await a coroutine."""
    from kafka.structs import TopicPartition

    calls, lost = Calls("kafka.consumer.group"), []

    async def on_lost(partitions: list[Any]) -> None:
        await asyncio.sleep(0)
        lost.extend(partitions)

    async def closed(listener: Any) -> None:
        await listener.on_partitions_assigned([TopicPartition("t", 0)])
        calls.consumer._closed = False
        await listener.on_partitions_revoked([TopicPartition("t", 0)])
        assert lost == []
        await listener.on_partitions_assigned([TopicPartition("t", 0)])
        calls.consumer._closed = True
        await listener.on_partitions_revoked([TopicPartition("t", 0)])

    listener = rebalance_listener(calls.consumer, on_lost=on_lost)
    asyncio.run(closed(listener))
    listener.close()
    assert lost == [("t", 0)]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_an_error_of_one_callback_leaves_out_none_of_the_others(module: str) -> None:
    """The client has assigned the partitions all the same: without `start` they would be read from another offset."""
    calls = Calls(module)
    listener = calls.listener(lambda each: 100 + each.partition)
    on_lost = listener._on_lost

    def fails(partitions: list[Any]) -> None:
        on_lost(partitions)
        raise OSError("disk full")

    listener._on_lost = fails
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(rebalance(calls, listener, [0], [1]))
    assert calls.seen[-3:] == [("lost", [0]), ("seek", 1, 101), ("gained", [1])]

    def begins(each: Any) -> int:
        if each.partition == 2:
            raise OSError("disk full")
        return int(100 + each.partition)

    listener._on_lost, listener._start = on_lost, begins
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(rebalance(calls, listener, [1], [2, 3]))
    assert calls.seen[-2:] == [("seek", 3, 103), ("gained", [2, 3])]


@pytest.mark.parametrize(("gone", "subscribed"), [(["t"], "tu"), (["u"], "tu"), ([], "tu"), ([], "u")])
def test_on_aiokafka_a_commit_to_a_topic_that_is_gone_ends(
    gone: list[str], subscribed: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """aiokafka tries again for as long as the broker does not know a topic: nothing would be revoked, and nobody would rejoin.

    It has no metadata of a topic that is not subscribed any more.
    """
    from aiokafka.structs import TopicPartition

    from counterpoise.clients import aiokafka_listener

    monkeypatch.setattr(aiokafka_listener, "_TRY_S", 0.02)
    calls, refused = Calls("aiokafka.consumer.consumer"), gone or ["t"]

    async def sent(offsets: dict[Any, Any]) -> None:
        while any(each.topic in refused for each in offsets):
            await asyncio.sleep(0.001)
        calls.seen.append(("commit", sorted(each.topic for each in offsets)))

    calls.consumer.commit = sent
    known = SimpleNamespace(partitions_for_topic=lambda topic: {0} if topic in subscribed and topic not in gone else None)
    calls.consumer._client = SimpleNamespace(cluster=known, _topics=set(subscribed))

    async def both() -> bool:
        listener = calls.listener()
        both = [TopicPartition("t", 0), TopicPartition("u", 0)]
        await listener.on_partitions_assigned(both)
        for each in both:
            listener.processed(SimpleNamespace(topic=each.topic, partition=0, offset=6))
        answer = await listener.commit()
        await listener.on_partitions_revoked(both)
        return bool(answer)

    assert asyncio.run(both()) is bool(gone)
    rest = sorted({"t", "u"}.difference(gone))
    assert [each for each in calls.seen if each[0] == "commit"] == [("commit", rest)] * (2 if gone else 0)
    assert ("1 partitions are not committed: their topics are gone" in caplog.text) is bool(gone)
    assert ("no commit within" in caplog.text) is not bool(gone)


def test_on_aiokafka_a_changed_subscription_commits_what_it_takes_away() -> None:
    """`AIOKafkaConsumer.commit` refuses: it knows only the new subscription, to which nothing is assigned yet."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.consumer.subscription_state import SubscriptionState
    from aiokafka.structs import TopicPartition

    calls = Calls("aiokafka.consumer.consumer")

    async def sent(assignment: Any, offsets: dict[Any, Any]) -> None:
        assert assignment.tps == offsets.keys()
        calls._commit_now({each: at.offset for each, at in offsets.items()})

    async def changed() -> None:
        consumer, subscription = calls.consumer, SubscriptionState()
        consumer._group_id, consumer._subscription, consumer._coordinator.commit_offsets = "g", subscription, sent
        consumer.commit = MethodType(AIOKafkaConsumer.commit, consumer)
        subscription.subscribe({"t"})
        subscription.assign_from_subscribed({TopicPartition("t", 0)})
        listener = calls.listener()
        await listener.on_partitions_assigned([TopicPartition("t", 0)])
        listener.processed(SimpleNamespace(topic="t", partition=0, offset=41))
        subscription.subscribe({"t", "u"})
        assert await listener.commit() is False
        await listener.on_partitions_revoked([TopicPartition("t", 0)])

    asyncio.run(changed())
    assert calls.seen == [("gained", [0]), ("commit", {0: 42})]


def test_on_kafka_python_3_what_unsubscribing_took_away_is_lost_and_not_owned() -> None:
    """`KafkaConsumer.unsubscribe` does not call its listener; the next assignment finds out."""
    from kafka.structs import TopicPartition

    calls, held = Calls("kafka.consumer.group"), {TopicPartition("t", 0), TopicPartition("t", 1)}
    calls.consumer._coordinator._rebalance_protocol = SimpleNamespace(name="COOPERATIVE")
    calls.consumer.assignment = lambda: held
    listener = calls.listener()
    asyncio.run(listener.on_partitions_assigned(held))
    listener.processed(SimpleNamespace(topic="t", partition=0, offset=41))
    held = {TopicPartition("t", 1), TopicPartition("t", 2)}
    calls.consumer._coordinator._generation.member_id = "n"
    asyncio.run(listener.on_partitions_assigned(held))
    assert calls.seen == [("gained", [0, 1]), ("lost", [0, 1]), ("gained", [1, 2])]
    assert (listener.owned, listener.offsets()) == (held, {})


def test_on_kafka_python_3_a_commit_before_a_revocation_is_tried_again() -> None:
    """By the client's own method, here with a coordinator that has moved."""
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.errors import NotCoordinatorError
    from kafka.future import Future

    calls = Calls("kafka.consumer.group")
    coordinator = calls.consumer._coordinator

    async def nothing(*_: Any, **__: Any) -> None: ...

    def send(_: Any, offsets: dict[Any, Any]) -> Any:
        calls._commit_now(offsets)
        return Future().success(None) if len(calls.seen) > 2 else Future().failure(NotCoordinatorError())

    coordinator.ensure_coordinator_ready_async, coordinator._send_offset_commit_request = nothing, None
    coordinator._manager, coordinator._net = SimpleNamespace(call_soon=send, wait_for=nothing), SimpleNamespace(sleep=nothing)
    coordinator.config = {"request_timeout_ms": 30_000, "retry_backoff_ms": 100}
    coordinator._commit_offsets_sync_async = MethodType(ConsumerCoordinator._commit_offsets_sync_async, coordinator)
    asyncio.run(rebalance(calls, calls.listener(), [0], [0]))
    assert calls.seen == [("gained", [0]), ("commit", {0: 42}), ("commit", {0: 42})]


async def commits(listener: Any, offsets: list[int]) -> list[bool]:
    """Partition 0 is assigned, and after each record of it what was processed is committed."""
    from kafka.structs import TopicPartition

    await listener.on_partitions_assigned([TopicPartition("t", 0)])
    answers = []
    for offset in offsets:
        listener.processed(SimpleNamespace(topic="t", partition=0, offset=offset))
        answer = listener.commit()
        answers.append(await answer if inspect.isawaitable(answer) else answer)
    return answers


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_what_has_been_committed_is_not_committed_again(module: str) -> None:
    calls = Calls(module, sync=True)
    assert asyncio.run(commits(calls.listener(), [6, 6, 7])) == [True, True, True]
    assert [each for each in calls.seen if each[0] == "commit"] == [("commit", {0: 7}), ("commit", {0: 8})]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_the_same_offset_is_committed_again_after_a_rebalance(module: str) -> None:
    """The topic may be a new one of that name, for which the group has no offset."""
    calls = Calls(module, sync=True)
    listener = calls.listener()
    assert [asyncio.run(commits(listener, [6])) for _ in range(2)] == [[True], [True]]
    assert [each for each in calls.seen if each[0] == "commit"] == [("commit", {0: 7})] * 2


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
@pytest.mark.parametrize(
    ("fails", "said"),
    [
        ("RebalanceInProgressError", ""),
        ("CommitFailedError(RebalanceInProgressError())", ""),
        ("CommitFailedError", "the membership was lost: 1 partitions are not committed"),
        ("UnknownMemberIdError", "the membership was lost"),
        ("RequestTimedOutError", "could not be committed now, the next commit has them"),
    ],
)
def test_a_commit_that_cannot_be_made_now_is_put_off_and_ends_nothing(
    module: str, fails: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In a rebalance in silence; with a word in the log after a lost membership and while the broker is away."""
    calls = Calls(module, fails=fails, sync=True)
    listener = calls.listener()
    assert asyncio.run(commits(listener, [41])) == [False]
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)
    assert list(listener.offsets()) == [("t", 0)]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_a_commit_that_never_will_work_raises(module: str) -> None:
    calls = Calls(module, fails="GroupAuthorizationFailedError", sync=True)
    with pytest.raises(Exception, match="GroupAuthorizationFailed"):
        asyncio.run(commits(calls.listener(), [41]))


def test_on_aiokafka_a_revocation_waits_for_the_commit_under_way() -> None:
    """A commit sent after the rebalance would set back whoever owns the partition by then."""
    from kafka.structs import TopicPartition

    calls = Calls("aiokafka.consumer.consumer")

    async def slow() -> None:
        listener = calls.listener()
        await commits(listener, [])
        listener.processed(SimpleNamespace(topic="t", partition=0, offset=41))
        gate = calls.gate = asyncio.Event()
        under_way = asyncio.create_task(listener.commit())
        await asyncio.sleep(0)
        revoking = asyncio.create_task(listener.on_partitions_revoked([TopicPartition("t", 0)]))
        later = asyncio.create_task(listener.commit())
        await asyncio.sleep(0.01)
        assert not revoking.done()
        gate.set()
        assert [await under_way, await revoking, await later] == [True, None, True]
        await listener.on_partitions_assigned([])

    asyncio.run(slow())
    assert calls.seen == [("gained", [0]), ("commit", {0: 42}), ("commit", {0: 42}), ("lost", [0])]


@pytest.mark.parametrize("module", ["kafka.consumer.group", "aiokafka.consumer.consumer"])
def test_a_subclass_of_a_consumer_may_come_from_any_module(module: str) -> None:
    parent = type(Calls(module).consumer)
    ours, given = (rebalance_listener(type("Mine", (parent,), {"__module__": name})()) for name in ("app", module))
    assert type(ours) is type(given)


def test_a_consumer_of_no_known_client_is_refused() -> None:
    with pytest.raises(OptionError, match=r"consumer: expected a kafka\.KafkaConsumer or an aiokafka\.AIOKafkaConsumer"):
        rebalance_listener(object())


@pytest.mark.parametrize("version", ["kafka-python-2.0.2", "kafka-python-2.1.0", "kafka-python-2.2.0", "kafka-python-2.3.0"])
def test_kafka_python_2_calls_its_listener_without_a_loop(version: str) -> None:
    """Version 2 wants plain functions: they commit, and refuse a callback that is a coroutine."""
    code = """
from types import SimpleNamespace
from kafka.structs import TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from counterpoise.clients.rebalance_listener import rebalance_listener
from counterpoise.errors import OptionError
seen = []
class Consumer:
    __module__ = "kafka.consumer.group"
    def commit(self, offsets):
        seen.append(list(offsets.values())[0].offset)
consumer = Consumer()
consumer._coordinator = SimpleNamespace(_generation=SimpleNamespace(generation_id=1, member_id="m"))
def made(**given):
    return rebalance_listener(consumer, **given)
listener = made(on_gained=lambda p: seen.append("gained"), on_lost=lambda p: seen.append("lost"))
assert isinstance(listener, ConsumerRebalanceListener)
listener.on_partitions_assigned([TopicPartition("t", 0)])
listener.processed(SimpleNamespace(topic="t", partition=0, offset=6))
listener.on_partitions_revoked([TopicPartition("t", 0)])
listener.close()
async def waits(partitions):
    import asyncio
    await asyncio.sleep(1)
try:
    made(on_gained=waits).on_partitions_assigned([TopicPartition("t", 0)])
except OptionError as error:
    seen.append(str(error))
print(seen)
"""
    path = f"{ROOT / '.oldest' / version}:{ROOT / 'src'}"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['gained', 7, 'lost', 'on_lost, on_gained: nothing awaits a coroutine here; give plain functions']\n"
