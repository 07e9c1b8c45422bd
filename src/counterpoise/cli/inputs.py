"""Reading what commands are given: snapshots (JSON, JSON lines, the text of Kafka's tool), plans, options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from counterpoise.errors import OptionError, SnapshotError
from counterpoise.snapshot.describe import looks_like_describe, read_describe
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.json_form import read_groups

__all__ = ["one_group", "read_options", "read_snapshots", "read_text", "snapshot_argument", "strategy_options"]

F = TypeVar("F", bound=Callable[..., Any])

snapshot_argument = click.argument("snapshot", metavar="SNAPSHOT", type=click.Path(allow_dash=True))


def read_text(path: str) -> str:
    """The text of a file, or of standard input for "-"."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror or error}; name a readable file, or - for standard input") from None
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{path}: byte {error.start} is not UTF-8; a snapshot is JSON text") from None


def read_snapshots(path: str) -> list[Group]:
    """All groups of a snapshot file: one JSON object, JSON lines, or `kafka-consumer-groups --describe`."""
    text = read_text(path)
    if not text.strip():
        raise SnapshotError(f"{path}: empty; a snapshot is a JSON object with topics and members")
    try:
        return read_describe(text) if looks_like_describe(text) else list(read_groups(text))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def one_group(path: str) -> Group:
    """The only group of a snapshot file."""
    groups = read_snapshots(path)
    if len(groups) != 1:
        raise SnapshotError(f"{path}: {len(groups)} groups; this command takes one, put the wanted one in a file of its own")
    return groups[0]


def strategy_options(function: F) -> F:
    """`--strategy`, `--protocol` and `--option NAME=VALUE`."""
    function = click.option(
        "--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the strategy; may be repeated."
    )(function)
    function = click.option(
        "--protocol", type=click.Choice(["eager", "cooperative"]), help="Default: what the strategy prefers."
    )(function)
    return click.option("--strategy", "-s", default="sticky", show_default=True, help="Name of the strategy.")(function)


def read_options(pairs: Sequence[str]) -> dict[str, object]:
    """NAME=VALUE words to keyword arguments; values are read as JSON where they are JSON, else as words."""
    options: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OptionError(f"--option {pair}: NAME=VALUE is wanted")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    return options
