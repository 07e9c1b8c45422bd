"""Scenarios from files: TOML or JSON, a person's own or one of the ready ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from counterpoise.errors import ScenarioError
from counterpoise.simulation.scenario import Scenario
from counterpoise.simulation.scenario_parts import Event, MemberGroup, Timing
from counterpoise.snapshot.json_text import UNREADABLE, text_of

__all__ = ["load", "read_scenario", "ready_scenarios"]

_LIBRARY = resources.files("counterpoise.simulation").joinpath("library")


def read_scenario(text: str, *, toml: bool) -> Scenario:
    """A scenario from TOML or JSON text.

    Raises `ScenarioError`: the message names the field.
    """
    try:
        value: Any = tomllib.loads(text) if toml else msgspec.json.decode(text)
    except (ValueError, *UNREADABLE) as error:  # TOML: also a number of too many digits
        raise ScenarioError(f"not {'TOML' if toml else 'JSON'}: {error}") from None
    try:
        return msgspec.convert(_known_fields(value), Scenario)
    except msgspec.ValidationError as error:
        what, _, where = str(error).replace("`", "").partition(" - at ")
        raise ScenarioError(f"{where.removeprefix('$.') or 'scenario'}: {what}") from None


def load(name: str) -> Scenario:
    """A scenario by file path (.toml or .json), or one of the ready ones by name.

    Raises `ScenarioError` if neither exists, or it cannot be read.
    """
    ready = ready_scenarios()
    if name in ready:
        return read_scenario(_LIBRARY.joinpath(f"{name}.toml").read_text("utf-8"), toml=True)
    path = Path(name)
    if path.suffix not in {".toml", ".json"}:
        raise ScenarioError(f"{name}: neither a .toml or .json file nor a ready scenario; ready are: {', '.join(ready)}")
    text = text_of(path.read_bytes, name, ScenarioError)
    try:
        return read_scenario(text, toml=path.suffix == ".toml")
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from None


def ready_scenarios() -> tuple[str, ...]:
    """Names of the scenarios that come with the package."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _LIBRARY.iterdir() if entry.name.endswith(".toml")))


def _known_fields(value: Any) -> Any:
    """msgspec ignores unknown fields of dataclasses; a misspelt field must not pass."""
    if not isinstance(value, Mapping):
        raise ScenarioError("scenario: expected an object with name, topics and members")
    places: list[tuple[str, Any, Any]] = [("scenario", value, Scenario), ("timing", value.get("timing", {}), Timing)]
    for field, kind in (("members", MemberGroup), ("events", Event)):
        listed = value.get(field, [])
        places += [(f"{field}[{at}]", item, kind) for at, item in enumerate(listed if isinstance(listed, list) else [])]
    for path, item, kind in places:
        names = [entry.name for entry in fields(kind)]
        for name in item if isinstance(item, Mapping) else ():
            if name not in names:
                raise ScenarioError(f"{path}: unknown field {name}; there are: {', '.join(names)}")
    return value
