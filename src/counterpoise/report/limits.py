"""How much the page draws; the page says what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep the page quick on a phone and the memory flat, whatever the size of the fleet.

    Attributes
    ----------
    groups : int
        Groups with a section of their own; the others stay in the table of groups.
    table : int
        Groups in the table.
    findings : int
        Findings on the page.
    steps : int
        Newest steps of a group's life that are read and drawn.
    listed : int
        Newest steps that are listed in words.
    ribbons, segments : int
        Partitions per group that get a ribbon, and pieces of ribbon per group.
    page_segments : int
        Pieces of ribbon on the whole page; when they are used up, each further group still gets a few ribbons.
    members : int
        Members per group in the legend and in the loads.
    open_groups : int
        Sections that are unfolded from the start.
    """

    groups: int = 60
    table: int = 1000
    findings: int = 200
    steps: int = 240
    listed: int = 80
    ribbons: int = 48
    segments: int = 2400
    page_segments: int = 15000
    members: int = 40
    open_groups: int = 3
