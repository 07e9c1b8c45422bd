"""HostAssignor: an assignor as both hosts call it, on top of the member's and the leader's side.

A subclass per host says how to find the host's coordinator, what it holds, and the members as they came from the
broker. Hosts that take classes (kafka-python 2.x and aiokafka call their assignors on the class) get one instance per
consumer all the same: `PerConsumer` looks it up by the coordinator that calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import MethodType, NoneType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from counterpoise.assignors.registry import assignor
from counterpoise.clients.leader_side import lead_group
from counterpoise.clients.member_side import MemberSide
from counterpoise.clients.weights import with_weight, withheld_of
from counterpoise.errors import OptionError
from counterpoise.planning.lead import Lead
from counterpoise.snapshot.join import JoinMember
from counterpoise.wire.consumer_protocol import TopicPartitions

__all__ = ["HostAssignor", "PerConsumer"]

log = logging.getLogger("counterpoise.clients")


class PerConsumer:
    """A method that, called on the class by a host, runs on an instance kept for the calling consumer.

    OptionError when nobody's consumer is calling.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __get__(self, instance: Any, owner: type[HostAssignor]) -> Any:
        if instance is not None:
            return MethodType(self._function, instance)

        @wraps(self._function)
        def on_class(*given: Any, **named: Any) -> Any:
            return self._function(owner.for_calling_consumer(), *given, **named)

        return on_class


class HostAssignor:
    """Base of the assignors for both hosts.

    Parameters
    ----------
    rack : str, optional
        The member's rack (KIP-881). Without it the consumer's `client_rack` counts, on kafka-python 3; aiokafka shows
        none to assignors: give the same here.
    capacity : int
        Weight of this member: one of weight 2 is to carry twice the load of one of weight 1. Leaders other than
        counterpoise's ignore it.
    on_lead : callable, optional
        Called with each `counterpoise.planning.lead.Lead` this member makes as a leader, for logs and metrics.
    **options
        The strategy's own, see `docs/clients.md`; they matter in the member that leads: give all members the same.

    Raises
    ------
    OptionError
        An option the strategy does not have, or a value that does not fit.
    """

    name: ClassVar[str]
    host: ClassVar[str]
    """One of `counterpoise.clients.weights.HOSTS`."""
    _of_consumer: ClassVar[WeakKeyDictionary[Any, HostAssignor]]

    def __init__(
        self, *, rack: str | None = None, capacity: int = 1, on_lead: Callable[[Lead], None] | None = None, **options: object
    ) -> None:
        assignor(self.name, **options)
        with_weight(None, capacity)
        if not isinstance(rack, str | NoneType):
            raise OptionError(f"rack: a name is wanted, not {rack!r}")
        if on_lead is not None and not callable(on_lead):
            raise OptionError(f"on_lead: something that can be called with each Lead is wanted, not {on_lead!r}")
        self._member = MemberSide(self.name, self.host, rack or None, capacity)
        self._options = options
        self._on_lead = on_lead
        self._withheld = 0
        self._warned = False

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls._of_consumer = WeakKeyDictionary()

    @classmethod
    def for_calling_consumer(cls) -> HostAssignor:
        """The instance of the consumer whose coordinator is calling, made when it is first seen."""
        coordinator = cls._coordinator()
        if coordinator is None:
            raise OptionError(f"{cls.__name__} was called on the class, but by no consumer: make an instance, {cls.__name__}()")
        found = cls._of_consumer.get(coordinator)
        if found is None:
            found = cls._of_consumer[coordinator] = cls()
        return found

    def _warn_if_history_is_lost(self) -> None:
        """For hosts that revoke everything before they join: `cooperative-sticky` has no place for their claims."""
        if self.name == "cooperative-sticky" and not self._warned:
            self._warned = True
            log.warning(
                "cooperative-sticky: this client revokes everything before it joins, so this member keeps nothing in a "
                "rebalance; unless other members of its group cooperate, use StickyAssignor"
            )

    @PerConsumer
    def metadata(self, topics: Iterable[str]) -> bytes:
        """What this member sends when it joins: ConsumerProtocolSubscription version 3."""
        self._joining()
        return self._member.subscription(topics, self._held())

    @PerConsumer
    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:
        """The work of a group leader: ConsumerProtocolAssignment bytes for every member."""
        led = lead_group(
            self.name, cluster, self._joined(members), options=self._options, generation=self._group_generation(), lag=self._lag
        )
        if self._on_lead is not None:
            self._on_lead(led)
        return led.assignments

    @PerConsumer
    def on_assignment(self, assignment: Any, generation: int | None = None) -> None:
        """Remember what the leader gave."""
        known = self._assigned_generation(assignment) if generation is None else generation
        self._member.received(assignment.partitions(), known)
        withheld, before = withheld_of(assignment.user_data), self._withheld
        self._withheld = withheld
        # The same number again: somebody does not give up what it holds, and another round would not help.
        if withheld and withheld != before:
            self._follow_up()

    @PerConsumer
    def on_generation_assignment(self, generation: int) -> None:
        """kafka-python 2.x tells strategies called `sticky` their generation after the assignment."""
        self._member.generation = generation

    def _lag(self, topics: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:  # noqa: ARG002 - for strategies by lag
        return None

    def _joining(self) -> None:
        """The host is about to join."""

    def _follow_up(self) -> None:
        """Join again now: the last assignment withheld partitions until their holders have revoked them.

        Those who revoked something join at once and wait for all others, who would hear of it with their next heartbeat.
        """
        coordinator = self._coordinator()
        if coordinator is not None:
            coordinator.request_rejoin()

    def _patience_s(self) -> float | None:
        """Seconds after which the group gives up a leader that does not answer, None when the host cannot be asked."""
        raise NotImplementedError

    @classmethod
    def _coordinator(cls) -> Any:
        """The coordinator that is calling, or None."""
        raise NotImplementedError

    def _held(self) -> tuple[TopicPartitions, ...] | None:
        """What the host holds while joining; None when it has revoked everything."""
        raise NotImplementedError

    def _joined(self, members: Any) -> list[JoinMember]:
        """The members, their metadata as they sent it."""
        raise NotImplementedError

    def _group_generation(self) -> int:
        """The generation being led, -1 when the host cannot be asked."""
        raise NotImplementedError

    def _assigned_generation(self, assignment: Any) -> int:
        """The generation of an assignment that came without one."""
        raise NotImplementedError
