"""One cluster, asked: its topics, and where logs begin and end. Errors come out as one line that says what is missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]

from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.settings import Settings

__all__ = ["OFFSETS_TOPIC", "Cluster", "Ends", "Place", "Tail", "hidden_tails", "id_text", "source_error"]

TIMEOUT_S = 30.0
Place = tuple[str, int]
"""Topic and partition."""
Which = Literal["start", "end", "stable"]
OffsetSpec: Any = _OffsetSpec
T = TypeVar("T")
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)  # noqa: SLF001
_POLL = "; a cluster that hides it can be recorded with --poll, which sees less"
_QUIET = logging.Logger("counterpoise.librdkafka", logging.CRITICAL)  # noqa: LOG001
"""What librdkafka would print on stderr comes as errors anyway, and may hold what nobody should read."""


def id_text(told: str) -> str:
    """A topic id as Kafka writes it, and as commits have it here: librdkafka's base64 has two other signs."""
    return told.replace("+", "-").replace("/", "_")


@dataclass(frozen=True)
class Tail:
    """Records of one partition that a reader of committed data cannot see yet."""

    place: Place
    stable: int
    end: int

    def __str__(self) -> str:
        topic, partition = self.place
        return (
            f"{topic} partition {partition}: an open transaction hides what follows offset {self.stable} "
            f"({self.end - self.stable} offsets up to {self.end})"
        )


@dataclass(frozen=True)
class Ends:
    """Where the logs of some partitions begin and end, at one moment."""

    start: dict[Place, int]
    end: dict[Place, int]


class Cluster:
    """A cluster behind its settings.

    Parameters
    ----------
    settings : Settings

    Notes
    -----
    Nothing is asked before the first call. Every call blocks for at most half a minute.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def admin(self) -> Any:
        """librdkafka's admin client, made when first needed."""
        try:
            return AdminClient({**self.settings, "log.connection.close": "false"}, logger=_QUIET)
        except (KafkaException, TypeError, ValueError) as error:
            raise SourceError(f"the connection settings do not work: {self.settings.hidden(error)}") from None

    def partitions(self, topics: Iterable[str]) -> list[Place]:
        """Every partition of some topics, sorted.

        Raises
        ------
        SourceError
            A topic does not exist, or may not be described.
        """
        places: list[Place] = []
        for topic in sorted(set(topics)):
            found = self.asked(partial(self.admin.list_topics, topic, timeout=TIMEOUT_S), topic).topics[topic]
            if found.error is not None:
                raise self._error(found.error, topic)
            places += [(topic, index) for index in sorted(found.partitions)]
        return places

    @property
    def cluster_id(self) -> str:
        """The cluster's own id."""
        return str(self.asked(lambda: self.admin.list_topics(timeout=TIMEOUT_S), "the cluster").cluster_id)

    def topics(self) -> dict[str, dict[str, Any]]:
        """Topic -> ``partitions``, ``topic_id``, ``internal``, and ``racks`` where brokers have any; if it may be told."""
        listed = self.asked(lambda: self.admin.list_topics(timeout=TIMEOUT_S), "the list of topics").topics
        names = sorted(name for name, about in listed.items() if about.error is None)
        if not names:
            return {}
        futures = self.asked(lambda: self.admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S), "topics")
        about: dict[str, dict[str, Any]] = {}
        for name, future in sorted(futures.items()):
            try:
                told = future.result(TIMEOUT_S)
            except KafkaException:  # deleted since, or not to be described: it is simply not in the list
                continue
            topic_id = id_text(str(told.topic_id))
            about[name] = {"partitions": len(told.partitions), "topic_id": topic_id, "internal": bool(told.is_internal)}
            racks = [sorted({str(node.rack) for node in each.replicas if node.rack}) for each in told.partitions]
            about[name] |= {"racks": racks} if any(racks) else {}
        return about

    def offsets(self, places: Iterable[Place], which: Which) -> dict[Place, int]:
        """First offset, end of the log (high watermark), or last stable offset of each partition, in one request per broker.

        Raises
        ------
        SourceError
            None of them can be had. Partitions that are gone are left out of the answer.
        """
        spec = OffsetSpec.earliest() if which == "start" else OffsetSpec.latest()
        level = IsolationLevel.READ_COMMITTED if which == "stable" else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*place): spec for place in places}
        if not asked:
            return {}
        what = next(iter(asked)).topic
        futures: dict[Any, Future[Any]] = self.asked(
            lambda: self.admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S), what
        )
        found: dict[Place, int] = {}
        failed: KafkaException | None = None
        for place, future in futures.items():
            try:
                found[place.topic, place.partition] = int(future.result(TIMEOUT_S + 5).offset)
            except KafkaException as error:
                failed = error
        if failed is not None and not found:
            raise self._error(failed.args[0], what)
        return dict(sorted(found.items()))

    def ends(self, places: Iterable[Place]) -> Ends:
        """First offsets and ends of the logs."""
        asked = list(places)
        return Ends(self.offsets(asked, "start"), self.offsets(asked, "end"))

    def asked(self, question: Callable[[], T], what: str) -> T:
        """The answer to a question to the admin client; what librdkafka raises becomes a `SourceError` about `what`."""
        try:
            return question()
        except KafkaException as error:
            raise self._error(error.args[0], what) from None

    def _error(self, error: Any, what: str) -> SourceError:
        return source_error(error, what, self.settings)


def source_error(error: Any, what: str, settings: Settings) -> SourceError:
    """A Kafka error as one line with advice."""
    where = settings["bootstrap.servers"]
    code = error.code() if isinstance(error, KafkaError) else None
    words = settings.hidden(error.str() if isinstance(error, KafkaError) else error)
    if code in _DENIED:
        return SourceError(
            f"{what}: not allowed. This principal needs Describe and Read on topic {OFFSETS_TOPIC}, and Describe on the topics "
            f"whose ends are sampled (kafka-acls --add --allow-principal User:NAME --operation Read --operation Describe "
            f"--topic {OFFSETS_TOPIC}){_POLL if what == OFFSETS_TOPIC else ''}"
        )
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
        hint = f" (no group has committed yet, or the cluster hides it{_POLL})" if what == OFFSETS_TOPIC else ""
        return SourceError(f"{what}: there is no such topic at {where}{hint}")
    if code in _AWAY:
        return SourceError(f"{where} does not answer ({words}); check the address, the listener and its security")
    if code == KafkaError._AUTHENTICATION:  # noqa: SLF001
        return SourceError(f"{where} refuses the login ({words}); check user, password and mechanism")
    return SourceError(f"{what}: {words}")


def hidden_tails(stable: dict[Place, int], end: dict[Place, int]) -> list[Tail]:
    """Partitions whose last stable offset lies before their end: what an open transaction hides."""
    return [Tail(place, stable[place], end[place]) for place in sorted(stable) if end.get(place, 0) > stable[place]]
