"""Assignors for kafka-python (2.0.2 and newer): `partition_assignment_strategy=[CooperativeStickyAssignor]`.

Classes or instances, whatever the version. kafka-python 3 cooperates (KIP-429) when every listed strategy can; with an
eager one beside it, as in the first step of a migration, the same class runs eagerly. kafka-python 2 is eager.
What differs between the versions is read from the calling coordinator (see `calling_host`) and stays in this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterpoise.clients import constructors
from counterpoise.clients.calling_host import Needed, calling_object, calling_variable, check_host
from counterpoise.clients.host_assignor import HostAssignor
from counterpoise.clients.kafka_python_joining import mend_joining
from counterpoise.clients.member_side import by_topic
from counterpoise.errors import HostError, MissingExtraError
from counterpoise.extras import pip_install
from counterpoise.wire.consumer_protocol import Subscription, TopicPartitions, encode_subscription

try:
    import kafka
    from kafka import KafkaConsumer
    from kafka.consumer.subscription_state import SubscriptionState
    from kafka.coordinator.assignors import abstract
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from kafka.coordinator.base import BaseCoordinator
    from kafka.coordinator.consumer import ConsumerCoordinator
except ImportError as error:
    raise MissingExtraError(f"these assignors need kafka-python ({error}): {pip_install('kafka-python')}") from error

if TYPE_CHECKING:
    from counterpoise.snapshot.joined import JoinMember

__all__ = [
    "ConstrainedCooperativeStickyAssignor",
    "CooperativeStickyAssignor",
    "LagAssignor",
    "LagStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]

_Protocol = getattr(abstract, "RebalanceProtocol", None)
"""kafka-python 3 alone has protocols."""


class _KafkaPythonAssignor(HostAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """What all assignors for kafka-python share."""

    name, host = "abstract", "kafka-python"

    def supported_protocols(self) -> list[Any]:
        """The protocols this strategy can run under (kafka-python 3 takes the highest that all listed ones share)."""
        if _Protocol is None:
            return []
        if self._member.rack is None:
            # Called while the consumer is constructed: the only time at which its settings can be read.
            consumer = calling_object((KafkaConsumer,))
            self._member.rack = getattr(consumer, "config", {}).get("client_rack") or None
        return [_Protocol.EAGER, _Protocol.COOPERATIVE] if self._member.cooperates else [_Protocol.EAGER]

    @classmethod
    def _check_host(cls) -> None:
        needed = [Needed(BaseCoordinator, "__init__", ("_generation",))]
        if _Protocol is None:
            needed.append(Needed(ConsumerCoordinator, "_perform_assignment", ("self", "members")))
            needed.append(Needed(ConsumerCoordinator, "_on_join_complete", ("self", "generation")))
        else:
            needed.append(Needed(BaseCoordinator, "request_rejoin"))
            needed.append(Needed(ConsumerCoordinator, "__init__", ("_rebalance_protocol", "_subscription")))
            needed.append(Needed(SubscriptionState, "assigned_partitions"))
        check_host(f"kafka-python {kafka.__version__}", "kafka-python 2.2.6 to 2.3, or 3.0", needed)

    @classmethod
    def _coordinator(cls) -> Any:
        return calling_object((ConsumerCoordinator,))

    def _joining(self) -> None:
        # kafka-python 3 forgets a join that outlasts one poll when it began with a change of topics: joining itself
        # takes away the reason, the next poll finds nothing to do, and the member is out until it is restarted.
        # Asking for the join once more keeps the reason until the host itself clears it, when the join is complete.
        if _Protocol is None:
            self._warn_if_history_is_lost()
        else:
            coordinator = self._coordinator()
            if coordinator is not None:
                coordinator.request_rejoin()
                mend_joining(coordinator)

    def _held(self) -> tuple[TopicPartitions, ...] | None:
        if _Protocol is None or not self._member.cooperates:
            return None
        coordinator = self._coordinator()
        if coordinator is None:
            raise HostError(f"{type(self).__name__}: no consumer of kafka-python is calling, so what it owns is unknown")
        if coordinator._rebalance_protocol != _Protocol.COOPERATIVE:  # noqa: SLF001
            return None
        return by_topic(coordinator._subscription.assigned_partitions())  # noqa: SLF001

    def _joined(self, members: Any) -> list[JoinMember]:
        if not isinstance(members, dict):
            from counterpoise.snapshot.joined import JoinMember

            return [JoinMember(each.member_id, _encoded(each.metadata), each.group_instance_id) for each in members]
        return self._from_raw(calling_variable("_perform_assignment", "members"), members)

    def _group_generation(self) -> int:
        return int(getattr(getattr(self._coordinator(), "_generation", None), "generation_id", -1))

    def _patience_s(self) -> float | None:
        config = getattr(self._coordinator(), "config", {})
        known = [config[name] for name in ("session_timeout_ms", "max_poll_interval_ms") if config.get(name)]
        return min(known) / 1000 if known else None


def _encoded(metadata: Any) -> bytes:
    """The subscription kafka-python 3 decoded, as bytes again."""
    owned = tuple((entry.topic, tuple(entry.partitions)) for entry in metadata.owned_partitions or ())
    rest = (metadata.user_data, owned, metadata.generation_id, metadata.rack_id, metadata.version)
    return encode_subscription(Subscription(tuple(metadata.topics), *rest))


class RangeAssignor(constructors.Range, _KafkaPythonAssignor):
    """`range`: exactly Kafka's, static members first, racks included."""


class RoundRobinAssignor(constructors.RoundRobin, _KafkaPythonAssignor):
    """`roundrobin`: exactly Kafka's."""


class StickyAssignor(constructors.Sticky, _KafkaPythonAssignor):
    """`sticky`: optimal balance, then as few moves as such balance allows."""


class CooperativeStickyAssignor(constructors.CooperativeSticky, _KafkaPythonAssignor):
    """`cooperative-sticky`: the same targets; only what moves stops (KIP-429)."""


class ConstrainedCooperativeStickyAssignor(constructors.ConstrainedCooperativeSticky, _KafkaPythonAssignor):
    """`constrained-cooperative-sticky`: KAFKA-9987 and KAFKA-12464; counterpoise members only."""


class LagAssignor(constructors.Lag, _KafkaPythonAssignor):
    """`lag`: the rule of KAFKA-5337; needs a source of lag, see `counterpoise.clients.lag_source`."""


class LagStickyAssignor(constructors.LagSticky, _KafkaPythonAssignor):
    """`lag-sticky`: balanced counts, then lag near a proven bound, then few moves; needs a source of lag."""
