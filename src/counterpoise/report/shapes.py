"""The parts of a group's drawing: places and words only, so that the SVG template has nothing to decide."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LEFT", "RIGHT", "WIDTH", "Band", "Label", "Mark", "Picture", "Segment", "State", "Strip"]

WIDTH, LEFT, RIGHT = 1000, 44, 992
"""Width of a drawing and the ends of its time axis, in the drawing's own units."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of ribbon: its place in its strip, the fill's slot, a letter if there is room, and its tooltip."""

    x: float
    y: float
    width: float
    height: float
    slot: int
    ink: str
    letter: str
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One partition's row."""

    y: float
    label: str
    name: str
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a place."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A step in the group's life on the line above the ribbons."""

    x: float
    y: float
    shape: str
    title: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time over the whole height."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class State:
    """A piece of the lane of health: its place, the state as a class, its name if there is room, and its tooltip."""

    x: float
    width: float
    code: str
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything the SVG template needs; heights are measured from the top."""

    height: float
    ribbons_top: float
    ribbons_bottom: float
    row: float
    axis: list[Label]
    topics: list[Label]
    strips: list[Strip]
    marks: list[Mark]
    waits: list[Band]
    unknown: Band | None
    lag_area: str
    lag_top: float
    lag_label: str
    health: list[State]
    notes: list[str] = field(default_factory=list)
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT
