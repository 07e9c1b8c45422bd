"""Requests to one cluster: its topics, and the first and end offsets of logs. Errors are one line that says what is missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from counterpoise.clients.admin_requests import AWAY, REFUSALS, AdminRequests, cause_of, is_transient, racks_of
from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.capture.tokens import token_callback
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["OFFSETS_TOPIC", "Cluster", "UnstableRange", "check_leaders", "connect", "source_error", "unstable_ranges"]

TIMEOUT_S = 30.0
Which = Literal["start", "end", "stable"]
T = TypeVar("T")
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
_ALL_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_KERBEROS = (
    "confluent-kafka from a wheel has no Kerberos: build librdkafka with libsasl2, then pip install --no-binary confluent-kafka"
    " confluent-kafka"
)
_POLL = "; a cluster that hides it can be recorded with --poll, which sees less"
_QUIET = logging.Logger("counterpoise.librdkafka", logging.CRITICAL)  # noqa: LOG001
"""Suppresses librdkafka's lines on stderr: they are raised as errors too, and may contain secrets."""


@dataclass(frozen=True)
class UnstableRange:
    """Offsets of one partition from the last stable one (LSO) up to `end`, which ``read_committed`` cannot read yet."""

    partition: Partition
    stable: int
    end: int

    def __str__(self) -> str:
        topic, index = self.partition
        return (
            f"{topic} partition {index}: an open transaction hides offsets {self.stable} to {self.end - 1} "
            f"({self.end - self.stable} offsets)"
        )


class Cluster:
    """A cluster, connected on the first request, within `timeout` seconds. Every answer of a broker may take `TIMEOUT_S`."""

    def __init__(self, settings: Settings, timeout: float = TIMEOUT_S) -> None:
        self.settings, self._timeout = settings, timeout

    @cached_property
    def admin(self) -> Any:
        """librdkafka's admin client, connected on first access; a refused login or TLS handshake is an error at once."""
        seen: list[Any] = []
        admin: Any = connect(AdminClient, self.settings, {"log.connection.close": "false", "error_cb": seen.append})
        answer = admin.describe_cluster(request_timeout=self._timeout)
        while not (answer.done() or _refused_by_all(seen)):  # librdkafka itself repeats a refused login until the time-out.
            admin.poll(0.05)
        if answer.done() and answer.exception() is None:
            return admin
        reasons = [error for error in seen if error.code() != _ALL_DOWN] or [answer.exception().args[0]]
        raise source_error(reasons[-1], "the cluster", self.settings)

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """All partitions of these topics, sorted. Raises `SourceError` if a topic does not exist, or may not be described."""
        partitions: list[Partition] = []
        for topic in sorted(set(topics)):
            about = self.request(partial(self.admin.list_topics, topic, timeout=TIMEOUT_S), topic).topics[topic]
            if about.error is not None:
                raise source_error(about.error, topic, self.settings)
            partitions += [(topic, index) for index in sorted(about.partitions)]
        return partitions

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return str(self.request(lambda: self.admin.list_topics(timeout=TIMEOUT_S), "the cluster").cluster_id)

    def topics(self) -> dict[str, dict[str, Any]]:
        """Topic -> ``partitions``, ``topic_id``, ``internal``, and ``racks`` if brokers have any.

        Topics without the right to describe them are left out. Raises `SourceError` if another reason prevents a description.
        """
        listed = self.request(lambda: self.admin.list_topics(timeout=TIMEOUT_S), "the list of topics").topics
        names = [name for name, about in listed.items() if about.error is None]

        def failed(what: str, error: Exception) -> None:
            reason = cause_of(error)
            if not isinstance(reason, KafkaError) or reason.code() not in (*_DENIED, *_UNKNOWN):
                raise source_error(reason, what, self.settings) from None

        requests = AdminRequests(self.admin, TIMEOUT_S, failed)
        about: dict[str, dict[str, Any]] = {}
        for name, topic in self.request(lambda: requests.topics(names), "topics").items():
            # As Kafka writes it: librdkafka's base64 has two other characters.
            topic_id, racks = str(topic.topic_id).replace("+", "-").replace("/", "_"), racks_of(topic)
            about[name] = {"partitions": len(topic.partitions), "topic_id": topic_id, "internal": bool(topic.is_internal)}
            about[name] |= {} if racks is None else {"racks": racks}
        return about

    def offsets(self, partitions: Iterable[Partition], which: Which) -> dict[Partition, int]:
        """First offset, end of the log (high watermark), or last stable offset of each partition.

        Partitions that do not exist any more are not in the result. Raises `SourceError` if no offset is known.
        """
        listed, failed = list(partitions), list[Exception]()
        requests = AdminRequests(self.admin, TIMEOUT_S, lambda _, error: failed.append(error))
        level = IsolationLevel.READ_COMMITTED if which == "stable" else IsolationLevel.READ_UNCOMMITTED
        what = listed[0][0] if listed else ""
        offsets = self.request(lambda: requests.offsets(listed, latest=which != "start", isolation=level), what)
        if failed and not offsets:
            raise source_error(cause_of(failed[-1]), what, self.settings)
        return dict(sorted(offsets.items()))

    def request(self, call: Callable[[], T], what: str) -> T:
        """The result of a call of the admin client; its errors become a `SourceError` about `what`."""
        try:
            return call()
        except REFUSALS as error:
            raise source_error(cause_of(error), what, self.settings) from None


def _refused_by_all(errors: Iterable[Any]) -> bool:
    """Whether a login or a TLS handshake was refused, and after it no broker was left."""
    refused = False
    for error in errors:
        if (refused and error.code() == _ALL_DOWN) or "Failed to acquire SASL" in error.str():  # the latter: no token to send
            return True
        refused |= error.code() == KafkaError._AUTHENTICATION or "SSL" in error.str()  # noqa: SLF001
    return False


def connect(client: Callable[..., T], settings: Settings, own: Mapping[str, Any]) -> T:
    """A client of librdkafka; `own` overrides the settings. Raises `SourceError` if librdkafka refuses them."""
    token = token_callback(settings)
    hook = {} if token is None else {"oauth_cb": token}
    try:
        return client({**settings, **own, **hook}, logger=_QUIET)
    except (KafkaException, TypeError, ValueError) as error:
        words = settings.redacted(error)
        more = f"; {_KERBEROS}" if "No provider for SASL mechanism GSSAPI" in words else ""
        raise SourceError(f"the connection settings do not work: {words}{more}") from None


def source_error(error: Any, what: str, settings: Settings) -> SourceError:
    """A Kafka error as one line with advice."""
    where = settings["bootstrap.servers"]
    code = error.code() if isinstance(error, KafkaError) else None
    words = settings.redacted(error.str() if isinstance(error, KafkaError) else error)
    if code in _DENIED:
        return SourceError(
            f"{what}: not allowed. This principal needs Describe and Read on topic {OFFSETS_TOPIC}, and Describe on the topics "
            f"whose ends are sampled (kafka-acls --add --allow-principal User:NAME --operation Read --operation Describe "
            f"--topic {OFFSETS_TOPIC}){_POLL if what == OFFSETS_TOPIC else ''}"
        )
    if code in _UNKNOWN:
        hint = f" (no group has committed yet, or the cluster hides it{_POLL})" if what == OFFSETS_TOPIC else ""
        return SourceError(f"{what}: there is no such topic at {where}{hint}")
    if code in (*AWAY, KafkaError._SSL):  # noqa: SLF001
        away = f"{where} does not answer ({words}); check the address, the listener and its security"
        return SourceError(away, transient=is_transient(error))
    if code == KafkaError._AUTHENTICATION:  # noqa: SLF001
        return SourceError(f"{where} refuses the login ({words}); check user, password and mechanism")
    return SourceError(f"{what}: {words}", transient=is_transient(error))


def check_leaders(partitions: Iterable[Partition], *offsets: Mapping[Partition, int], lost: str) -> None:
    """Raise a `SourceError` that says what is `lost` if a partition is not in all of `offsets`, answers of `Cluster.offsets`."""
    if leaderless := [one for one in partitions if any(one not in known for known in offsets)]:
        topic, index = min(leaderless)
        words = f"{topic}: partition {index} has no leader, so its {lost}; try again when it has one"
        raise SourceError(f"{words} (kafka-topics --describe --unavailable-partitions)", transient=True)


def unstable_ranges(stable: dict[Partition, int], end: dict[Partition, int]) -> list[UnstableRange]:
    """The partitions whose last stable offset is before their end, because of an open transaction."""
    return [UnstableRange(one, stable[one], end[one]) for one in sorted(stable) if end.get(one, 0) > stable[one]]
