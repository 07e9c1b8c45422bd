"""Plan: what an assignor decided for one group, by names, with its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import LockedArrays, read_only
from counterpoise.model.problem import UNOWNED, Int32, Problem
from counterpoise.snapshot.frozen import FrozenDict, FrozenList, frozen
from counterpoise.snapshot.html import html_table
from counterpoise.snapshot.json_text import decoded, fitted, plain
from counterpoise.snapshot.names import Assignment, named, partition_list, partitions_by_topic

__all__ = ["PLAN_ADVICE", "Plan", "lag_figures", "moves_as_json", "read_assignment", "target_in"]

PLAN_ADVICE = "a plan is an object {member: {topic: [partitions]}}"
"""How an error about an unreadable plan ends."""
_CHECKED_IN_REPR = 100_000
"""`repr` proves plans of up to so many partitions; larger ones only if the certificate is there already."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(LockedArrays):
    """The result of an assignor for one group; it and its attributes are read-only.

    Attributes
    ----------
    strategy : str
    protocol : str
        "eager": everything is handed out at once; "cooperative": what another member holds waits for one round.
    problem : Problem
    member_ids, topic_names : sequences of str
        In code order.
    target_owner : int32[P]
        The target owners, UNOWNED if no member subscribes.
    owner : int32[P]
        What this round hands out; equals `target_owner` under the eager protocol.
    prove : callable
        Makes the certificate, on first use.
    options : mapping
        Every option of the strategy with the value that was used.
    measure_lag : callable, optional
        Makes the lag report, on first use; None if no lag is known.
    """

    strategy: str
    protocol: str
    problem: Problem
    member_ids: Sequence[str]
    topic_names: Sequence[str]
    target_owner: Int32
    owner: Int32
    prove: Callable[[], Any]
    options: Mapping[str, object] = field(default_factory=FrozenDict)
    measure_lag: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("target_owner", "owner"):
            vars(self)[name] = read_only(name, getattr(self, name), np.int32, self.problem.n_partitions)

    def __repr__(self) -> str:
        loads = list(self.loads.values())
        spread = f"loads {min(loads)} to {max(loads)}" if loads else "no members"
        parts = [f"{self.problem.n_partitions} partitions", spread, f"{self.moved} moved"]
        parts += [f"{count} withheld"] if (count := sum(map(len, self.withheld.values()))) else []
        return f"{type(self).__name__}({str(self.strategy)!r}, {self.protocol}: {', '.join([*parts, self._proven()])})"

    def _repr_html_(self) -> str:
        rows = [(member, load, partition_list(self.target[member])) for member, load in self.loads.items()]
        return html_table(repr(self), ["member", "load", "partitions"], rows)

    def _proven(self) -> str:
        if "certificate" not in vars(self) and self.problem.n_partitions > _CHECKED_IN_REPR:
            return "not checked"
        made = self.certificate
        proven = "proven optimal" if made.sticky else "balanced, but more could stay" if made.balanced else "not balanced"
        lag = self.lag_report
        return proven if lag is None else f"largest lag {lag.gap:.1%} above its bound, counts and moves {proven}"

    @cached_property
    def assignment(self) -> Assignment:
        """{member id: {topic: [partitions]}}: what this round hands out; every member is present."""
        return frozen(named(self.problem, self.owner, self.member_ids, self.topic_names))

    @cached_property
    def target(self) -> Assignment:
        """The target owners in the same form; equals `assignment` under the eager protocol."""
        return frozen(named(self.problem, self.target_owner, self.member_ids, self.topic_names))

    @cached_property
    def withheld(self) -> dict[str, list[int]]:
        """{topic: [partitions]} that wait until their holder has revoked them."""
        waits = (self.target_owner >= 0) & (self.owner == UNOWNED)
        return frozen(partitions_by_topic(self.problem, waits, self.topic_names))

    @cached_property
    def unassigned(self) -> dict[str, list[int]]:
        """{topic: [partitions]} that no member subscribes to."""
        return frozen(partitions_by_topic(self.problem, self.target_owner == UNOWNED, self.topic_names))

    @cached_property
    def loads(self) -> dict[str, int]:
        """Partitions per member in the target."""
        counts = np.bincount(self.target_owner[self.target_owner >= 0], minlength=len(self.member_ids))
        return FrozenDict(zip(self.member_ids, counts.tolist(), strict=True))

    @property
    def spread(self) -> int:
        """Largest minus smallest load; 0 without members."""
        return max(self.loads.values(), default=0) - min(self.loads.values(), default=0)

    @property
    def kept(self) -> int:
        """Partitions that stay with the member that may keep them."""
        previous = self.problem.previous_owner
        return int(np.count_nonzero((previous >= 0) & (previous == self.target_owner)))

    @property
    def moved(self) -> int:
        """Partitions that some member might have kept and that go to another; partitions new to the group do not count."""
        return len(self._changed())

    @cached_property
    def moves(self) -> list[tuple[str, int, str, str]]:
        """(topic, partition, from member, to member) for each partition counted in `moved`."""
        changed, members = self._changed(), self.member_ids
        topics = self.problem.topic_of_partition()[changed]
        indices = changed - self.problem.topic_start[topics]
        columns = (topics, indices, self.problem.previous_owner[changed], self.target_owner[changed])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return FrozenList((self.topic_names[topic], index, members[a], members[b]) for topic, index, a, b in rows)

    def _changed(self) -> npt.NDArray[np.intp]:
        previous = self.problem.previous_owner
        return np.flatnonzero((previous >= 0) & (self.target_owner >= 0) & (previous != self.target_owner))

    @cached_property
    def certificate(self) -> Any:
        """The proof that the target is optimal in balance and stickiness (`laws.Certificate`), or what it fails.

        Computed by the checker from the plan alone, on first use.
        """
        return self.prove()

    @cached_property
    def lag_report(self) -> Any:
        """How near the target comes to the best possible lag (`laws.lag_bound.LagReport`: bound, gap, moves); None without lag.

        Computed by the checker from the group and the target alone, on first use.
        """
        return None if self.measure_lag is None else self.measure_lag()

    @cached_property
    def lag_figures(self) -> dict[str, Any] | None:
        """The lag report by names, as plain JSON values."""
        return None if self.lag_report is None else frozen(lag_figures(self.lag_report, self.member_ids, self.topic_names))

    def to_object(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        value: dict[str, Any] = {
            "strategy": self.strategy,
            "protocol": self.protocol,
            "options": dict(self.options),
            "assignment": self.assignment,
            "loads": self.loads,
            "spread": self.spread,
            "kept": self.kept,
            "moved": self.moved,
            "unassigned": self.unassigned,
        }
        if self.protocol != "eager":
            value |= {"target": self.target, "withheld": self.withheld}
        if self.lag_figures is not None:
            value["lag"] = self.lag_figures
        return value

    def to_json(self) -> str:
        """One line of JSON; `verify` checks the object that it holds."""
        return msgspec.json.encode(self.to_object(), enc_hook=plain).decode()


def lag_figures(report: Any, member_ids: Sequence[str], topic_names: Sequence[str]) -> dict[str, Any]:
    """A `LagReport` by names: records per capacity as int if whole, else float."""
    return {
        "largest": _number(report.largest),
        "member": member_ids[report.heaviest] if report.heaviest >= 0 else None,
        "bound": _number(report.bound),
        "gap": report.gap,
        "counts": report.counts,
        "reason": report.reason,
        "topics": [topic_names[topic] for topic in report.topics],
        "moves": report.moves,
    }


def moves_as_json(moves: Iterable[tuple[str, int, str, str]]) -> list[dict[str, object]]:
    """Moves (topic, partition, from member, to member) as objects with the keys topic, partition, from, to."""
    return [dict(zip(("topic", "partition", "from", "to"), move, strict=True)) for move in moves]


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def read_assignment(text: str | bytes) -> dict[str, dict[str, list[int]]]:
    """The target owners of a plan written as JSON, by counterpoise or by hand.

    Accepts an object with the assignment (its `target`, else its `assignment`) or just ``{member: {topic: [partitions]}}``.

    Raises `SnapshotError` if it is neither; the message names the path.
    """
    return target_in(decoded(text, PLAN_ADVICE))


def target_in(value: Any) -> dict[str, dict[str, list[int]]]:
    """`read_assignment` for decoded JSON."""
    if isinstance(value, Mapping):
        given = value.get("target") or value.get("assignment")
        # Members may have such names, too: all values are then objects, with lists of partitions in them.
        members = value not in ({"assignment": {}}, {"target": {}}) and all(isinstance(part, Mapping) for part in value.values())
        if isinstance(given, Mapping) and (not members or any(isinstance(owned, Mapping) for owned in given.values())):
            value = given
    return fitted(value, Assignment, "plan", PLAN_ADVICE)
