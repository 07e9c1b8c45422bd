"""Strategy: what the registry keeps about one assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from counterpoise.model.problem import Int32, Problem

Assignor: TypeAlias = Callable[[Problem], Int32]
"""A pure function of one problem to the target owner of every partition, int32[P] (UNOWNED: no member may have it)."""

EAGER = "eager"
COOPERATIVE = "cooperative"

EVERYTHING = frozenset({"previous_owner", "holder", "capacity", "lag", "racks", "static_rank"})
"""All of a problem but its members, topics and subscriptions."""

__all__ = ["COOPERATIVE", "EAGER", "EVERYTHING", "Assignor", "Option", "Strategy"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a strategy.

    Attributes
    ----------
    meaning : str
        One line for `--help`.
    default : object
        What the kernel uses when the option is not given.
    choices : tuple
        The valid values; empty if `fits` decides, or if any value is valid.
    fits : callable, optional
        Whether a value is valid.
    wanted : str
        The valid values in words, for the message about an invalid one.
    """

    meaning: str
    default: object
    choices: tuple[object, ...] = ()
    fits: Callable[[object], bool] | None = None
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One assignor under the name that goes over the wire.

    Attributes
    ----------
    name : str
        As in `partition.assignment.strategy`.
    protocols : tuple of str
        EAGER, COOPERATIVE, or both; the preferred one first.
    kernel : callable
        ``kernel(problem, **options) -> int32[P]``: the target owners; withholding is the caller's step.
    guarantee : str
        One line: what the result promises.
    options : mapping of name to Option
    reads : frozenset of str
        What the plan depends on besides members, topics and subscriptions: names of arrays of `Problem`. If all of these are
        equal the plan is used again without a call of the kernel, so a name that is missing gives wrong plans. Default: all.
    prepare : callable, optional
        ``prepare(problem, **options)(other)`` equals ``kernel(other, **options)`` if `other` differs from `problem` only in
        claims (`previous_owner`, `holder`). What does not depend on claims is then computed once.
    """

    name: str
    protocols: tuple[str, ...]
    kernel: Callable[..., Int32]
    guarantee: str
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    reads: frozenset[str] = EVERYTHING
    prepare: Callable[..., Assignor] | None = None
