"""The explicit list of strategies, and how one is looked up by name and bound to its options.

A strategy's module defines a `Strategy` and imports nothing from here. A new built-in strategy is one import and one line
in `_BUILT_IN`. A strategy of another package is an entry point of the group ``counterpoise.strategies`` with the strategy's name;
or the package calls `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from reprlib import repr as shorten

import numpy as np

from counterpoise.assignors.lag import LAG
from counterpoise.assignors.lag_sticky import LAG_STICKY
from counterpoise.assignors.ranges import RANGE
from counterpoise.assignors.roundrobin import ROUNDROBIN
from counterpoise.assignors.sticky import CONSTRAINED, COOPERATIVE_STICKY, FAIR, STICKY, STICKY_FIRST
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Assignor, Strategy
from counterpoise.errors import OptionError, UnknownStrategyError
from counterpoise.model.problem import Int32, Problem, check_problem

__all__ = ["assignor", "check_options", "register", "strategies", "strategy"]

_BUILT_IN = (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY, CONSTRAINED, FAIR, STICKY_FIRST, LAG, LAG_STICKY)
_BY_NAME = {built_in.name: built_in for built_in in _BUILT_IN}
_ENTRY_POINTS = "counterpoise.strategies"


def register(added: Strategy) -> None:
    """Make a strategy known under its name.

    Raises
    ------
    OptionError
        The name is taken, `Strategy.prepare` was copied from a strategy with another kernel, or `Strategy.protocols` are not
        some of "eager" and "cooperative".
    """
    _check(added)
    if added.name in _BY_NAME:
        raise OptionError(f"strategy {added.name!r} is registered already; choose another name")
    _BY_NAME[added.name] = added


def _check(added: Strategy) -> None:
    """Refuse unknown protocols, and a `prepare` that is that of another kernel, as after `dataclasses.replace`."""
    if not added.protocols or not {EAGER, COOPERATIVE}.issuperset(added.protocols):
        raise OptionError(
            f"strategy {added.name!r}: its protocols are {added.protocols!r}; give {EAGER!r}, {COOPERATIVE!r} or both"
        )
    for known in _BY_NAME.values():
        if added.prepare is not None and added.prepare is known.prepare and added.kernel is not known.kernel:
            raise OptionError(f"strategy {added.name!r}: its prepare is that of {known.name!r}; give prepare=None, or its own")


@cache
def _register_entry_points(name: str | None = None) -> None:
    """Register the strategies of other packages that are installed, in the order of their names; or only that of this `name`."""
    from importlib.metadata import entry_points  # 20 ms that a consumer does without

    for point in sorted(entry_points(group=_ENTRY_POINTS), key=lambda point: point.name):
        if name not in (None, point.name):
            continue
        place = f"strategy {point.name!r} of the entry point {point.value} ({_ENTRY_POINTS})"
        try:
            added = point.load()
        except Exception as error:
            raise OptionError(f"{place} cannot be loaded ({error}); repair or remove its package") from error
        if not isinstance(added, Strategy) or added.name != point.name:
            raise OptionError(f"{place}: expected a Strategy of this name, got {added!r:.80}")
        _check(added)
        if _BY_NAME.setdefault(added.name, added) is not added:
            raise OptionError(f"{place}: the name is taken; rename it or remove its package")


def strategies() -> tuple[str, ...]:
    """The names of all strategies: built-in ones, registered ones, those of installed packages.

    Raises
    ------
    OptionError
        A strategy of an installed package cannot be loaded.
    """
    _register_entry_points()
    return tuple(_BY_NAME)


def strategy(name: str) -> Strategy:
    """The `Strategy` of this name; packages that bring strategies are loaded only if it is not built in.

    Raises
    ------
    UnknownStrategyError
        There is none of this name; the message lists the names.
    OptionError
        A strategy of an installed package cannot be loaded.
    """
    if str(name) not in _BY_NAME:
        _register_entry_points(str(name))
    found = _BY_NAME.get(str(name))
    if found is None:
        raise UnknownStrategyError(f"strategy {name!r} is unknown; there are: {', '.join(strategies())}")
    return found


def assignor(name: str, **options: object) -> Assignor:
    """The assignor registered under `name`, with its options bound: a pure function Problem -> owner int32[P].

    Raises
    ------
    UnknownStrategyError
        The name is not registered.
    OptionError
        The strategy has no such option, the value does not fit it, or a strategy of an installed package cannot be loaded.
    ProblemError
        The assignor is called with something else than a Problem (a Group has one: ``group.problem()``).
    """
    return partial(_run, strategy(name).kernel, check_options(name, options))


def _run(kernel: Callable[..., Int32], options: Mapping[str, object], problem: Problem) -> Int32:
    return kernel(check_problem(problem), **options)


def check_options(name: str, options: Mapping[str, object]) -> dict[str, object]:
    """The options of a strategy, checked; values of NumPy become Python's.

    Raises `UnknownStrategyError` or `OptionError`: as for `assignor`.
    """
    found = strategy(name)
    plain = {option: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for option, value in options.items()}
    for option, value in plain.items():
        known = found.options.get(option)
        if known is None:
            listed = ", ".join(found.options) or "none"
            raise OptionError(f"strategy {name!r} has no option {shorten(option)}; it has: {listed}")
        if (known.choices and value not in known.choices) or (known.fits is not None and not known.fits(value)):
            wanted = known.wanted or f"expected one of {', '.join(map(repr, known.choices))}"
            raise OptionError(f"strategy {name!r}, option {option!r}: {shorten(value)} does not fit; {wanted}")
    return plain
