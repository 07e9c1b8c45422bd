"""What must hold of every strategy on one group: `faults` returns one line for each law that is broken."""

from __future__ import annotations

import contextlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from counterpoise import Group, Plan, assign, strategies, verify
from counterpoise.assignors import assignor
from counterpoise.assignors.registry import strategy as record
from counterpoise.errors import CounterpoiseError, OptionError, SubscriptionWarning
from counterpoise.laws.rounds import idempotent, same_target, two_rounds
from counterpoise.model.problem import Problem
from counterpoise.planning.lead import lead
from counterpoise.snapshot.joined import JoinMember, join_problem
from counterpoise.solver.engine import Prepared
from counterpoise.wire.consumer_protocol import Subscription, decode_assignment, encode_subscription
from counterpoise.wire.topic_lists import TopicIndex
from tests.planning.join import join
from tests.soak.groups import shuffled

__all__ = ["collisions", "faults", "no_tables"]

OPTIMAL = ("sticky", "cooperative-sticky", "constrained-cooperative-sticky")
LAWS = {**dict.fromkeys(("range", "roundrobin", "lag"), ("valid", "complete")), "fair": ("valid", "complete", "balanced")}
"""What `verify` is asked of strategies that promise less than it asks by default."""
FIELDS = ("topic_start", "subscriber_start", "subscriber", "previous_owner", "holder", "capacity", "static_rank", "lag")
TABLES = ("model.assemble.DENSE_CELLS", "model.problem.DENSE_CELLS", "solver.claims.TABLE_CELLS")
PURE = (
    "solver.engine.prepare",  # and the plans of what it returns
    *("laws.check_owners.certify", "planning.assign.certify"),
    *("laws.verify.lag_report", "laws.lag_law.lag_report", "planning.assign.lag_report"),
)
"""Pure functions, which `computed_once` calls once with equal arguments."""
INPUT_EVERY = 3
"""One group in so many has its input changed, under one strategy in turns: another order, collisions, no tables, bytes."""
LONGEST_TOPIC = 249
"""Kafka's limit, which `lead` checks."""


def faults(group: Group, number: int, names: tuple[str, ...] = strategies(), *, rounds: bool = True) -> list[str]:
    """Every broken law of every strategy on one group, one line each; an error that is no `OptionError` is one too."""
    found = _input_order(group, number)
    with computed_once():
        for name in names:
            found += _lines(name, group, lambda name: _of_plan(group, assign(group, name)))
            found += _lines(name, group, lambda name: _of_rounds(name, group.problem())) if rounds else []
    if number % INPUT_EVERY == 0:
        found += _lines(names[number // INPUT_EVERY % len(names)], group, lambda name: _of_input(group, name, number))
    return [*dict.fromkeys(found)]


def _lines(name: str, group: Group, laws: Callable[[str], list[str]]) -> list[str]:
    """What breaks laws of a strategy, with its name before it; or the error that ended them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SubscriptionWarning)
            return [f"{name}: {line}" for line in laws(name)]
    except OptionError as error:
        return [f"{name}: {error}"] if name != "lag" or group.lag is not None else []
    except (CounterpoiseError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        return [f"{name}: {type(error).__name__}: {error}"]


def _input_order(group: Group, number: int) -> list[str]:
    """A plan is a pure function of the Problem and of the sorted names; these must not depend on the order of the input."""
    other = shuffled(group, number)
    if (other.member_ids, other.topic_names) != (group.member_ids, group.topic_names):
        return ["another order of the input gives other codes"]
    return [f"another order of the input gives another {name}" for name in _different(group.problem(), other.problem())]


def _different(one: Problem, other: Problem) -> list[str]:
    names = [name for name in FIELDS if not np.array_equal(*_pair(getattr(one, name), getattr(other, name)))]
    racks = ("rack_of_member", "replica_start", "replica_rack") if one.racks is not None else ()
    return names + [name for name in racks if not np.array_equal(getattr(one.racks, name), getattr(other.racks, name))]


def _pair(one: npt.ArrayLike | None, other: npt.ArrayLike | None) -> tuple[Any, Any]:
    return (one, other) if one is not None and other is not None else (one is None, other is None)


def _of_plan(group: Group, plan: Plan) -> list[str]:
    """What `verify` finds, by the laws that the strategy promises; and the certificate of the exact ones."""
    found = [f"{fault.law}: {fault.message}" for fault in verify(group, plan, LAWS.get(plan.strategy))]
    if plan.strategy in OPTIMAL and not plan.certificate.sticky:
        found.append("no certificate of stickiness")
    if plan.strategy in (*OPTIMAL, "fair") and not plan.certificate.balanced:
        found.append("no certificate of balance")
    if sum(plan.loads.values()) != int((plan.target_owner >= 0).sum()):
        found.append("the loads do not sum up to the partitions with an owner")
    return found


def _of_rounds(name: str, problem: Problem) -> list[str]:
    """Planned again nothing changes, and a cooperative rebalance ends with its second round and, if exact, its first target."""
    run = assignor(name)
    found = [*idempotent(run, problem), *same_target(run, problem)] if name in OPTIMAL else []
    found += two_rounds(run, problem) if "cooperative" in record(name).protocols else []
    return [fault.message for fault in found]


def _of_input(group: Group, name: str, number: int) -> list[str]:
    """Another order, forced hash collisions and no tables give the same plan; bytes in any order give the same bytes."""
    found, plan = [], assign(group, name)
    if assign(shuffled(group, number), name).assignment != plan.assignment:
        found.append("another order of the input gives another plan")
    for what, forced in (("hashes that collide give", collisions()), ("without dense tables there is", no_tables())):
        with forced:
            other = assign(Group(group.topics, group.members, group.lag), name)
            if other.assignment != plan.assignment:
                found.append(f"{what} another plan")
            found += [f"{what} a plan that breaks {fault.law}" for fault in verify(group, other, LAWS.get(name))]
    longest = max(map(len, group.topic_names), default=0)
    return found + (_of_bytes(group, name, number) if longest <= LONGEST_TOPIC and name != "lag" else [])


def _of_bytes(group: Group, name: str, number: int) -> list[str]:
    """A leader reads the members' bytes as `decode_subscription` does, and answers with the same bytes whatever their order."""
    joined = []
    for member in group.members:
        owned = tuple((topic, tuple(listed)) for topic, listed in member.owned.items())
        said = Subscription(tuple(member.topics), None, owned, member.generation, member.rack)
        joined.append(JoinMember(member.id, encode_subscription(said), member.instance_id))
    kind: Any = "cooperative" if record(name).protocols[0] == "cooperative" else "eager"
    read = join(group.topics, joined, kind).group
    found = [
        f"the leader reads another {field}"
        for field in _different(join_problem(group.topics, joined, kind).problem, read.problem())
    ]
    answer = lead(name, group.topics, joined)
    order = np.random.default_rng([number, 27]).permutation(len(joined))
    if lead(name, {topic: group.topics[topic] for topic in reversed(group.topic_names)}, [joined[at] for at in order]) != answer:
        found.append("members in another order get other bytes")
    got = {member: {topic: list(listed) for topic, listed in decode_assignment(raw).partitions} for member, raw in answer.items()}
    planned = {member: {t: list(p) for t, p in of.items()} for member, of in assign(read, name).assignment.items()}
    return found if got == planned else [*found, "the bytes of the assignments are not those of the plan"]


_ARRAYS = [name for name in Problem.__slots__ if name != "racks"]


def _written(value: Any) -> Any:
    """A value that is equal for equal arguments: a Problem or an array by its bytes."""
    if isinstance(value, Problem):
        racks = value.racks and [value.racks.rack_of_member, value.racks.replica_start, value.racks.replica_rack]
        return tuple(_written(getattr(value, name)) for name in _ARRAYS), racks and tuple(map(_written, racks))
    return value.tobytes() if isinstance(value, np.ndarray) else value


@contextlib.contextmanager
def computed_once() -> Iterator[None]:
    """Within: the solver and the two proofs, pure functions, compute equal arguments once; strategies share most of them."""
    known: dict[Any, Any] = {}

    def once(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            options.pop("words", None)  # names for messages
            key = real, tuple(map(_written, arguments)), tuple(options.items())
            if key not in known:
                known[key] = real(*arguments, **options)
            found = known[key]
            if isinstance(found, Prepared):
                return Prepared(once(found.plan), found.depends_on_kept)
            return found.copy() if isinstance(found, np.ndarray) else found

        return call

    with contextlib.ExitStack() as stack:
        for place in PURE:
            stack.enter_context(mock.patch(f"counterpoise.{place}", once(pkgutil.resolve_name(f"counterpoise.{place}"))))
        yield


@contextlib.contextmanager
def collisions() -> Iterator[None]:
    """Within: all topic names have one hash under the first multiplier."""
    real, first = TopicIndex._hash, 0x9E3779B97F4A7C15

    def hashed(self: TopicIndex, words: Any, length: Any) -> Any:
        collide = int(self._multiplier) == first and len(self.names) > 1
        return np.zeros(len(length), np.uint64) if collide else real(self, words, length)

    with mock.patch.object(TopicIndex, "_hash", hashed):
        yield


@contextlib.contextmanager
def no_tables() -> Iterator[None]:
    """Within: every table of members by topics is too large, so pairs are sorted and searched."""
    with contextlib.ExitStack() as stack:
        for place in TABLES:
            stack.enter_context(mock.patch(f"counterpoise.{place}", 0))
        stack.enter_context(mock.patch("counterpoise.laws.exchange_graph.DENSE_CELLS", 0))
        yield
