"""lead: the whole work of a group leader, member metadata bytes in, assignment bytes out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import SnapshotError, SubscriptionWarning, some
from counterpoise.planning.assign import planned, protocol_of
from counterpoise.snapshot.checks import check_lag, checked, known_topics, refuse_sets
from counterpoise.snapshot.frozen import FrozenDict, frozen
from counterpoise.snapshot.joined import JoinedProblem, join_problem
from counterpoise.snapshot.parts import JoinMember, LeadLine, LeadRequest, Topic
from counterpoise.snapshot.plan import Plan
from counterpoise.wire.group_assignments import encode_assignments
from counterpoise.wire.user_data import ProtocolKind

__all__ = ["Lead", "lead", "lead_checked", "lead_plan"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Lead(Plan):
    """A leader's plan: the figures of every plan, what the members sent, and what they receive.

    Attributes
    ----------
    joined : JoinedProblem
    assignments : read-only dict of member id to ConsumerProtocolAssignment bytes
        One per member.
    known : mapping of name to Topic
        The topics, with their replicas' racks.
    group : str
        The group's name, "" if unknown.
    generation : int
        The generation being led, -1 if unknown.
    milliseconds : float
        Time from the members' metadata to their assignments, waiting for lag included; 0.0 if not measured.
    """

    joined: JoinedProblem
    assignments: dict[str, bytes]
    known: Mapping[str, Topic] = field(default_factory=dict)
    group: str = ""
    generation: int = -1
    milliseconds: float = 0.0

    @property
    def dropped_claims(self) -> int:
        """Claims of members on topics and partitions that do not exist; a plan does without them."""
        return self.joined.unknown_topic + self.joined.vanished_partition

    def request(self) -> str:
        """Everything that the plan depends on, as one line of JSON: `counterpoise lead` makes the same plan of it again."""
        behind, capacities = self.problem.lag, self.problem.capacity.tolist()
        ends = self.problem.topic_start.tolist()
        value = {
            "strategy": self.strategy,
            "protocol": self.protocol,
            "options": dict(self.options),
            "topics": {name: {"partitions": each.partitions, "racks": each.racks} for name, each in self.known.items()},
            "lag": None
            if behind is None
            else {name: behind[a:b].tolist() for name, a, b in zip(self.topic_names, ends, ends[1:], strict=False)},
            "capacity": {member: capacity for member, capacity in zip(self.member_ids, capacities, strict=True) if capacity != 1},
            "members": [
                {"id": each.id, "instance_id": each.instance_id, "metadata": each.metadata.hex()} for each in self.joined.members
            ],
        }
        return json.dumps(value)


def lead(
    strategy: str,
    topics: Mapping[str, int | Topic | Mapping[str, Any]],
    members: Iterable[JoinMember | Mapping[str, Any]] | Mapping[str, bytes],
    *,
    protocol: str | None = None,
    lag: Mapping[str, Sequence[int]] | None = None,
    capacity: Mapping[str, int] | None = None,
    **options: object,
) -> dict[str, bytes]:
    """Plan a group from its members' JoinGroup metadata.

    Parameters
    ----------
    strategy : str
    topics : mapping of name to partition count, Topic, or {"partitions": n, "racks": [...]}
    members : iterable of JoinMember (or mappings with its fields), or mapping of member id to metadata
        Metadata as bytes or hex text.
    protocol : "eager" or "cooperative", optional
        Default: what the strategy prefers.
    lag : mapping of topic name to records behind per partition, optional
    capacity : mapping of member id to capacity, optional
        Members without an entry weigh 1.

    Returns
    -------
    dict of member id to ConsumerProtocolAssignment bytes (version 3, topics sorted), one per member.

    Raises
    ------
    SnapshotError
        A subscription that cannot be read, a lag or a capacity that does not fit; unreadable user data is no error (the member
        has no history).
    UnknownStrategyError, OptionError
        As for `assign`.

    Warns
    -----
    SubscriptionWarning
        Members subscribe to topics that are not in `topics`.

    Notes
    -----
    O(bytes + P) around the strategy's own cost; no step per topic or partition in Python, except for
    subscribed topics that are not in `topics`.
    """
    plan = lead_checked(LeadLine(strategy, topics, members, protocol, options, lag, capacity))
    if plan.joined.missing_topics:
        warnings.warn(SubscriptionWarning(plan.joined.missing_topics), stacklevel=2)
    return dict(plan.assignments)


def lead_checked(asked: LeadLine) -> Lead:
    """Check the input as `lead` does, and return the whole plan; does not warn (see `joined.missing_topics`)."""
    members = asked.members
    if isinstance(members, Mapping):
        members = [{"id": member, "metadata": metadata} for member, metadata in members.items()]
    refuse_sets(asked.lag)
    form = "a member has id, instance_id and metadata; docs/snapshot.md has the form of topics and lag"
    parts = {"topics": asked.topics, "members": members, "lag": asked.lag, "capacity": asked.capacity}
    given = checked(parts, LeadRequest, advice=form)
    known = known_topics(given.topics)
    check_lag(given.lag or {}, known)
    joined = [JoinMember(each.id, _bytes(each), each.instance_id) for each in given.members]
    unknown = sorted((given.capacity or {}).keys() - {each.id for each in joined})
    if unknown:
        raise SnapshotError(f"capacity.{unknown[0]}: no such member; members are {some(sorted(each.id for each in joined))}")
    return lead_plan(
        asked.strategy, known, joined, protocol=asked.protocol, options=asked.options, lag=given.lag, capacity=given.capacity
    )


def lead_plan(
    strategy: str,
    topics: Mapping[str, Topic],
    members: Iterable[JoinMember],
    *,
    protocol: str | None = None,
    options: Mapping[str, object] | None = None,
    lag: Mapping[str, Any] | None = None,
    capacity: Mapping[str, int] | None = None,
    user_data: Callable[[int], bytes | None] = lambda withheld: None,  # noqa: ARG005
) -> Lead:
    """`lead` for hosts: returns the plan with the bytes.

    `user_data` gets the number of partitions that this round withholds and returns the user data of every assignment.
    """
    chosen = protocol_of(strategy, protocol)
    kind: ProtocolKind = "cooperative" if chosen == COOPERATIVE else "eager"
    joined = join_problem(topics, tuple(members), kind, lag=lag, capacity=capacity)
    problem = joined.problem
    plan = planned(problem, joined.member_ids, joined.topics.names, strategy, chosen, options or {})
    data = user_data(int((plan.owner != plan.target_owner).sum()))
    encoded = encode_assignments(joined.topics, problem.topic_start, plan.owner, problem.n_members, user_data=data)
    assignments = dict(zip(joined.member_ids, encoded, strict=True))
    return Lead(**vars(plan), joined=joined, assignments=frozen(assignments), known=FrozenDict(topics))


def _bytes(member: JoinMember) -> bytes:
    metadata = member.metadata
    if isinstance(metadata, str):
        try:
            return bytes.fromhex(metadata)
        except ValueError:
            raise SnapshotError(f"member {member.id!r}, metadata: not hex") from None
    if not isinstance(metadata, bytes | bytearray | memoryview):
        raise SnapshotError(f"member {member.id!r}, metadata: expected bytes or hex text, not {type(metadata).__name__}")
    return bytes(metadata)
