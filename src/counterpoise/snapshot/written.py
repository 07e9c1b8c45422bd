"""WrittenPlan: a plan read back from JSON, with what it says about itself, so that `verify` can check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.json_text import decoded, fitted, shown
from counterpoise.snapshot.names import Assignment
from counterpoise.snapshot.plan import PLAN_ADVICE, target_in

__all__ = ["WrittenPlan", "read_plan", "written"]


@dataclass(frozen=True)
class WrittenPlan:
    """A plan as a file states it, unchecked."""

    strategy: str
    protocol: str
    options: Mapping[str, object]  # Of the strategy; empty if the file names none
    # What the round hands out, and the target owners: the same object if the round is eager or the file has no target
    assignment: Mapping[str, Mapping[str, list[int]]]
    target: Mapping[str, Mapping[str, list[int]]]
    lag_figures: Mapping[str, Any] | None = None  # As `Plan.lag_figures`
    content: Mapping[str, Any] = field(default_factory=dict)  # The whole object in the file, with figures such as `kept`


class _Header(msgspec.Struct):
    assignment: Assignment
    strategy: str = ""
    protocol: str = "eager"
    options: dict[str, Any] = {}  # msgspec copies an empty default for every object
    target: Assignment | None = None
    lag: dict[str, Any] | None = None


def read_plan(text: str | bytes) -> WrittenPlan | dict[str, dict[str, list[int]]]:
    """A plan written as JSON: a whole plan with its strategy or protocol, or any that `read_assignment` reads.

    Raises `SnapshotError` if it is neither, or its protocol is unknown; the message names the path.
    """
    value = decoded(text, PLAN_ADVICE)
    return written(value) or target_in(value)


def written(value: object) -> WrittenPlan | None:
    """The plan in a mapping that states its strategy or protocol, as `Plan.to_json` writes it; None if it states neither."""
    if not isinstance(value, Mapping) or not isinstance(value.get("strategy", value.get("protocol")), str):
        return None
    found = fitted(value, _Header, "plan", "counterpoise plan --json writes such an object")
    if found.protocol not in ("eager", "cooperative"):
        raise SnapshotError(f'plan.protocol: expected "eager" or "cooperative", got {shown(found.protocol)}')
    target = found.target if found.protocol == "cooperative" and found.target is not None else found.assignment
    return WrittenPlan(found.strategy, found.protocol, found.options, found.assignment, target, found.lag, value)
