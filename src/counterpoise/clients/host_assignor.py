"""HostAssignor: an assignor as both hosts call it; it joins the member's side and the leader's side.

A subclass per host says how to find the host's coordinator, what it holds, and the members as they came from the
broker. Hosts that take classes (kafka-python 2.x and aiokafka call their assignors on the class) get one instance per
consumer all the same: `PerConsumer` looks it up by the coordinator that calls.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import MethodType, NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

from counterpoise.assignors.registry import assignor
from counterpoise.clients.calling_host import calling_variable
from counterpoise.clients.member_side import MemberSide, pairs
from counterpoise.clients.own_fields import generation_handed_out, with_capacity, withheld_of
from counterpoise.clients.rebalance_report import OnLead, OnRebalance, Rebalance, Reports
from counterpoise.errors import HostError, OptionError
from counterpoise.wire.consumer_protocol import TopicPartitions

if TYPE_CHECKING:  # only a leader loads these
    from counterpoise.clients.leader_side import GroupToLead
    from counterpoise.planning.lead import Lead
    from counterpoise.snapshot.joined import JoinMember

__all__ = ["HostAssignor", "PerConsumer"]

log = logging.getLogger("counterpoise.clients")

# All assignors of a coordinator write metadata, but only the chosen one gets an assignment.
_joining_since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""When each coordinator began to join."""
_assigned_in: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""The generation of each coordinator's last assignment."""


class PerConsumer:
    """A method that, called on the class by a host, runs on an instance kept for the calling consumer.

    Raises OptionError when no consumer is calling.
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
    """Base of the assignors for both hosts; the settings of each one are in `counterpoise.clients.constructors`.

    Raises `OptionError` if the assignor has no such setting, or a value does not fit.
    """

    name: ClassVar[str]
    host: ClassVar[str]
    """One of `counterpoise.clients.own_fields.HOSTS`."""
    hands_out_generation: ClassVar[bool] = False
    """Whether a leader tells members their generation, because the host does not."""
    _of_consumer: ClassVar[WeakKeyDictionary[Any, HostAssignor]]
    __signature__: ClassVar[inspect.Signature]

    def __new__(cls, *given: object, **named: object) -> Self:
        """Check the names of the settings; a TypeError would not list the valid ones."""
        try:
            cls.__signature__.bind(*given, **named)
        except TypeError as error:
            listed = ", ".join(cls.__signature__.parameters)
            raise OptionError(f"{cls.__name__}: {error}; its settings, by name: {listed}") from None
        return super().__new__(cls)

    def __init__(
        self,
        *,
        rack: str | None = None,
        capacity: int = 1,
        on_lead: OnLead | None = None,
        on_rebalance: OnRebalance | None = None,
        **options: object,
    ) -> None:
        self._check_host()
        assignor(self.name, **options)
        with_capacity(None, capacity)
        if not isinstance(rack, str | NoneType):
            raise OptionError(f"rack: expected a name, not {rack!r}")
        self._member = MemberSide(self.name, self.host, rack or None, capacity)
        self._options = options
        self._reports = Reports(on_lead, on_rebalance)
        self._withheld = 0
        self._warned = False

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls._of_consumer = WeakKeyDictionary()
        # inspect.signature would show that of __new__.
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(parameters)

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
        coordinator = self._coordinator()
        if coordinator is not None:
            _joining_since.setdefault(coordinator, time.monotonic())
        self._joining()
        return self._member.subscription(topics, self._held(), None if coordinator is None else _assigned_in.get(coordinator))

    @PerConsumer
    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:
        """The work of a group leader: ConsumerProtocolAssignment bytes for every member."""
        return self.hand_out(self.plan(self._to_lead(cluster, members)))

    def plan(self, given: GroupToLead) -> Lead:
        """Plan a group, and log it; asks nothing of the host, so it may run in another thread than the host's."""
        from counterpoise.clients.leader_side import lead_group

        lead = lead_group(given, self._options, self._lag)
        self._reports.log_lead(lead)
        return lead

    def hand_out(self, lead: Lead) -> dict[str, bytes]:
        """Call `on_lead`; returns the assignments."""
        self._reports.on_lead(lead)
        return lead.assignments

    def _to_lead(self, cluster: Any, members: Any) -> GroupToLead:
        """What the host knows of the group. HostError: it lacks something; a plan without it could be wrong."""
        from counterpoise.clients.leader_side import group_to_lead

        try:
            joined, generation = self._joined(members), self._group_generation()
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise HostError(
                f"{self.host}: the members that it passes to {type(self).__name__} cannot be read: {error!r}"
            ) from error
        return group_to_lead(
            self.name,
            cluster,
            joined,
            group=self._group(),
            generation=generation,
            patience_s=self._patience_s(),
            hands_out_generation=self.hands_out_generation,
        )

    @PerConsumer
    def on_assignment(self, assignment: Any, generation: int | None = None) -> None:
        """Remember what the leader gave."""
        known = self._assigned_generation(assignment) if generation is None else generation
        before = self._member.assigned
        self._member.received(assignment.partitions(), known)
        if (coordinator := self._coordinator()) is not None:
            _assigned_in[coordinator] = known
        withheld, withheld_before = withheld_of(assignment.user_data), self._withheld
        self._withheld = withheld
        self._report(before)
        # The same number again: some member does not give up its partitions, and another round would not help.
        if withheld and withheld != withheld_before:
            self._follow_up()

    def _report(self, before: tuple[TopicPartitions, ...]) -> None:
        had, has = set(pairs(before)), tuple(pairs(self._member.assigned))
        coordinator = self._coordinator()
        since = None if coordinator is None else _joining_since.pop(coordinator, None)
        seen = Rebalance(
            self._group(),
            self._member.generation,
            self.name,
            owned=has,
            gained=tuple(each for each in has if each not in had),
            lost=tuple(sorted(had.difference(has))),
            left=self._withheld,
            milliseconds=0.0 if since is None else (time.monotonic() - since) * 1e3,
        )
        self._reports.rebalanced(seen)

    @PerConsumer
    def on_generation_assignment(self, generation: int) -> None:
        """kafka-python 2.x passes the generation to strategies named `sticky` after the assignment."""
        self._member.generation = generation

    def _lag(self, topics: Mapping[str, int], patience_s: float | None) -> Mapping[str, Sequence[int]] | None:  # noqa: ARG002
        """For strategies by lag, see `leader_side.lead_group`."""
        return None

    def _group(self) -> str:
        return str(getattr(self._coordinator(), "group_id", None) or "")

    def _joining(self) -> None:
        """The host is about to join."""

    def _follow_up(self) -> None:
        """Join again now: the last assignment withheld partitions until their holders have revoked them.

        Members that revoked partitions rejoin at once and wait for the others, which without this call would learn of that
        rebalance only at their next heartbeat.
        """
        coordinator = self._coordinator()
        if coordinator is not None:
            coordinator.request_rejoin()

    @classmethod
    def _check_host(cls) -> None:
        """HostError: the installed release of the host lacks what is read from it."""
        raise NotImplementedError

    def _patience_s(self) -> float | None:
        """Seconds after which the group expels a leader that does not answer, None if the host does not say."""
        raise NotImplementedError

    @classmethod
    def _coordinator(cls) -> Any:
        """The coordinator that is calling, or None."""
        raise NotImplementedError

    def _held(self) -> tuple[TopicPartitions, ...] | None:
        """What the host holds while joining; None when it has revoked everything, as an eager host has."""
        return None

    def _joined(self, members: Any) -> list[JoinMember]:
        """The members, their metadata as they sent it."""
        raise NotImplementedError

    @staticmethod
    def _from_raw(response: Iterable[Any], members: Iterable[str]) -> list[JoinMember]:
        """Members as the broker sent them: (id, metadata), or (id, instance id, metadata) from version 5 of the response on."""
        from counterpoise.snapshot.joined import JoinMember

        joined = [JoinMember(each[0], bytes(each[-1]), each[1] if len(each) == 3 else None) for each in response]
        if {each.id for each in joined} != set(members):
            raise ValueError("other members in the response than in the call")
        return joined

    def _group_generation(self) -> int:
        """The generation being led, -1 if the host does not say."""
        raise NotImplementedError

    def _assigned_generation(self, assignment: Any) -> int:
        """The generation of an assignment that came without one: both hosts know it in `_on_join_complete`."""
        generation = calling_variable("_on_join_complete", "generation")
        return generation if isinstance(generation, int) else generation_handed_out(assignment.user_data)
