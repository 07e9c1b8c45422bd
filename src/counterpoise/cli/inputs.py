"""Reads the input of commands: snapshots (JSON, JSON lines, the text of Kafka's tool), plans, options."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from counterpoise.assignors.registry import check_options, strategies, strategy
from counterpoise.cli.render import say
from counterpoise.errors import MissingExtraError, OptionError, SnapshotError, SubscriptionWarning
from counterpoise.extras import pip_install
from counterpoise.snapshot.describe import looks_like_describe, parts_and_unknown_lags
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.json_text import decoded, json_lines, text_of
from counterpoise.snapshot.written import WrittenPlan, read_plan

if TYPE_CHECKING:
    from counterpoise.pipeline.capture.settings import Settings

__all__ = [
    "FILE",
    "PLACE",
    "TEXT",
    "FiniteRange",
    "Place",
    "cluster_settings",
    "named",
    "need",
    "read_groups",
    "read_lines",
    "read_options",
    "read_plans",
    "read_snapshots",
    "read_text",
    "snapshot_argument",
    "stopped_by_signals",
    "strategy_names",
    "strategy_options",
]

F = TypeVar("F", bound=Callable[..., Any])


class Place(click.Path):
    """A path or URI. An empty one is refused: it would be the working folder, or the root."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; `click.BadParameter` for an empty one."""
        return super().convert(value or self.fail("is empty (an unset variable?)", param, ctx), param, ctx)


PLACE = Place(readable=False)
FILE = Place(path_type=Path)
TEXT = Place(allow_dash=True)
snapshot_argument = click.argument("snapshot", metavar="SNAPSHOT", type=TEXT)


class FiniteRange(click.FloatRange):
    """A range without NaN and infinity: the comparisons of `click.FloatRange` let both through."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; `click.BadParameter` for what is not one."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not finite; expected a number.", param, ctx)
        return number


def read_text(path: str) -> str:
    """The UTF-8 text of a file, or of standard input for "-", whatever the locale."""
    with _opened(path) as file:
        return text_of(file.read, path)


def read_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1, each as soon as it can be read."""
    with _opened(path) as lines:
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-" and sys.stdin is None:
        raise SnapshotError("-: standard input is closed; name a readable file, or send something to standard input")
    try:
        return nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb")
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror or error}; name a readable file, or - for standard input") from None


def need(what: str, extra: str, *modules: str) -> None:
    """Raise a `MissingExtraError` that names those of the modules that are not installed, and the extra that brings them."""
    missing = [name.replace("_", "-") for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"{what} needs {', '.join(missing)}: {pip_install(extra)}")


def cluster_settings(bootstrap: str | None, config: Path | None) -> Settings:
    """How to reach a cluster, by ``--bootstrap-server`` and the properties of ``--command-config``.

    Raises `OptionError` if no server is given, or a line of the file or a setting cannot be used.
    """
    from counterpoise.pipeline.capture.settings import Settings, read_properties

    given = read_properties(config) if config is not None else {}
    if bootstrap is not None:
        given["bootstrap.servers"] = bootstrap
    return Settings(given)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block SIGTERM and Ctrl-C only call `stop`."""
    before = {each: signal.signal(each, lambda *_: stop()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def read_snapshots(path: str) -> list[Group]:
    """All groups of a snapshot file: one JSON object, JSON lines, or `kafka-consumer-groups --describe`."""
    text = read_text(path)
    if not text.strip():
        raise SnapshotError(f"{path}: empty; a snapshot is a JSON object with topics and members")
    is_table = looks_like_describe(text)
    if not is_table and text.lstrip()[0] not in "{[":
        raise SnapshotError(f"{path}: no JSON, and no table of kafka-consumer-groups --describe: {text.strip()[:200]!r}")
    try:
        if is_table:
            read = [(Group(**parts), unknown_lags) for parts, unknown_lags in parts_and_unknown_lags(text)]
        else:
            read = [(group, 0) for group in read_groups(text)]
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None
    groups = [group for group, _ in read]
    for (name, group), (_, unknown_lags) in zip(named(groups), read, strict=True):
        if group.missing_topics:
            say(f"counterpoise: warning: {name}{SubscriptionWarning(group.missing_topics)}", err=True)
        if unknown_lags:
            which = f"{unknown_lags} {'partition' if unknown_lags == 1 else 'partitions'}"
            say(f"counterpoise: warning: {name}the text does not show the lag of {which}; it counts as 0", err=True)
    return groups


def read_groups(text: str) -> Iterator[Group]:
    """One object, or JSON lines: one object per line; errors name the line."""
    lines = list(json_lines(text))
    if len(lines) <= 1 or not _is_whole(lines[0][1]):
        yield Group.from_json(text)
        return
    for number, line in lines:
        try:
            yield Group.from_json(line)
        except SnapshotError as error:
            raise SnapshotError(f"line {number}: {error}") from None


def _is_whole(line: str) -> bool:
    try:
        decoded(line, "")
    except SnapshotError:
        return False
    return True


def read_plans(path: str, groups: int) -> list[WrittenPlan | dict[str, dict[str, list[int]]]]:
    """The plan of one group; or of several, a line each, in the order of the groups."""
    text = read_text(path)
    lines = [(0, text)] if groups == 1 else list(json_lines(text))
    if len(lines) != groups:
        raise SnapshotError(f"{path}: {len(lines)} lines of plans for {groups} groups; expected one for each, in the same order")
    plans = []
    for number, line in lines:
        try:
            plans.append(read_plan(line))
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {f'line {number}: ' if number else ''}{error}") from None
    return plans


def named(groups: Sequence[Group]) -> list[tuple[str, Group]]:
    """Each group with the prefix of its output lines: none for a single group, else its name or number."""
    if len(groups) == 1:
        return [("", groups[0])]
    return [(f"{group.name or f'group {number}'}: ", group) for number, group in enumerate(groups, 1)]


def strategy_options(function: F) -> F:
    """`--strategy`, `--protocol` and `--option NAME=VALUE`."""
    function = click.option(
        "--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the strategy; may be repeated."
    )(function)
    function = click.option(
        "--protocol", type=click.Choice(["eager", "cooperative"]), help="Default: what the strategy prefers."
    )(function)
    return click.option("--strategy", "-s", default="sticky", show_default=True, help="Name of the strategy.")(function)


def strategy_names(text: str | None) -> tuple[str, ...] | None:
    """The strategies in a list separated by commas; None for "all" or without a list.

    Raises `OptionError` if the list is empty, and `UnknownStrategyError` if a name in it is not registered.
    """
    if text is None or text.strip() == "all":
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError(f"{text!r} names no strategy; there are: {', '.join(strategies())}, and all")
    return tuple(strategy(name).name for name in names)


def read_options(pairs: Sequence[str], name: str) -> dict[str, object]:
    """NAME=VALUE words to keyword arguments of the strategy `name`; a value that is not JSON is taken as text."""
    options: dict[str, object] = {}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals or not option:
            raise OptionError(f"--option {pair}: expected NAME=VALUE")
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
        options[option.replace("-", "_")] = value
    return check_options(name, options)
