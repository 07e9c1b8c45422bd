"""Strategy: what the registry keeps about one assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from counterpoise.model.problem import Int32, Problem

Assignor: TypeAlias = Callable[[Problem], Int32]
"""A pure function of one problem to the target owner of every partition, int32[P] (UNOWNED: nobody may have it)."""

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
        The values that fit; empty where `fits` tells, or where any does.
    fits : callable, optional
        Whether a value fits.
    wanted : str
        What is, in words, where one does not.
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
        What the plan depends on besides members, topics and subscriptions: names of arrays of `Problem`. Where all of these are
        equal the kernel is not asked again, so one that is left out is a wrong plan; the default names all of them.
    """

    name: str
    protocols: tuple[str, ...]
    kernel: Callable[..., Int32]
    guarantee: str
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    reads: frozenset[str] = EVERYTHING
