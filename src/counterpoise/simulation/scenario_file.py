"""Scenarios from files: TOML or JSON, a person's own or one of the ready ones."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from counterpoise.errors import ScenarioError, SnapshotError
from counterpoise.simulation.scenario import Scenario
from counterpoise.snapshot.json_text import UNREADABLE, fitted, text_of

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
        return fitted(value, Scenario, "", "docs/simulate.md has the fields")
    except SnapshotError as error:
        raise ScenarioError(str(error)) from None


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
