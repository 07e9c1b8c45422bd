"""Requests of librdkafka's admin client for many topics and partitions: what fails is reported, the rest is returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]  # exported, but not in its stubs

from counterpoise.wire.consumer_protocol import Partition

__all__ = ["AWAY", "GRACE_S", "NOT_NOW", "REFUSALS", "AdminRequests", "cause_of", "is_transient", "racks_of", "reason_of"]

BATCH = 5_000
"""Partitions per ListOffsets request: brokers answer these in well under a second."""
REFUSALS = (KafkaException, FutureTimeoutError)
AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)  # noqa: SLF001
"""Errors of the client: no broker answered."""
NOT_NOW = (
    *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT),
    *(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
)
"""Errors from a broker after which a retry may succeed."""
GRACE_S = 5.0
"""Seconds to wait for an answer after the time-out of its request, at which librdkafka itself answers with an error."""
_OFFSETS: Any = _OffsetSpec
Answer = TypeVar("Answer")


class AdminRequests:
    """Requests to one cluster, each with a time-out in seconds; ``failed(what, error)`` is called for each answer that fails."""

    def __init__(self, admin: Any, timeout: float, failed: Callable[[str, Exception], None]) -> None:
        self._admin, self._timeout, self._failed = admin, timeout, failed

    def answer(self, future: Future[Answer], what: str) -> Answer | None:
        """The answer; None if it failed."""
        try:
            return future.result(self._timeout + GRACE_S)
        except REFUSALS as error:
            self._failed(what, error)
            return None

    def topics(self, names: Iterable[str]) -> dict[str, Any]:
        """Topic -> its description, sorted by topic."""
        asked = sorted(names)
        if not asked:
            return {}
        futures = self._admin.describe_topics(TopicCollection(asked), request_timeout=self._timeout)
        answers = {name: self.answer(futures[name], f"topic {name}") for name in asked}
        return {name: described for name, described in answers.items() if described is not None}

    def offsets(
        self, partitions: Sequence[Partition], *, latest: bool, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Partition, int]:
        """The first offset of each partition, or with `latest` the offset at which a reader of this isolation level ends."""
        spec, name = (_OFFSETS.latest(), "end") if latest else (_OFFSETS.earliest(), "begin")
        found: dict[Partition, int] = {}
        for first in range(0, len(partitions), BATCH):
            asked = {TopicPartition(*at): spec for at in partitions[first : first + BATCH]}
            futures = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._timeout)
            for at, future in futures.items():
                answer = self.answer(future, f"{at.topic}-{at.partition}: {name} offset")
                if answer is not None:
                    found[at.topic, at.partition] = int(answer.offset)
        return found


def racks_of(described: Any) -> list[list[str]] | None:
    """The racks of the replicas of each partition of a topic; None if no broker has one."""
    racks = [sorted({str(node.rack) for node in each.replicas if node.rack}) for each in described.partitions]
    return racks if any(racks) else None


def cause_of(error: Exception) -> Any:
    """The `KafkaError` in one of `REFUSALS`, or a text."""
    return next(iter(error.args), "no answer")


def is_transient(cause: Any) -> bool:
    """Whether a retry may succeed. TLS errors have the code of a lost connection, but their text shows that none will."""
    return not isinstance(cause, KafkaError) or (cause.code() in (*AWAY, *NOT_NOW) and "SSL" not in cause.str())


def reason_of(error: Exception) -> str:
    """The message of one of `REFUSALS`."""
    cause = cause_of(error)
    return str(cause.str() if hasattr(cause, "str") else cause or type(error).__name__)
