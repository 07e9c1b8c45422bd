"""How much the page draws; the page says what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep the page quick on a phone and the memory flat, whatever the size of the fleet."""

    groups: int = 2500  # Groups on the page: with a row in the table, and a section
    rows: int = 100  # Rows of the table of groups, and of the findings of a kind, that are laid out at once
    # full, full_bytes: sections in full, which can be read without scripts, and about how large they are together; those of the
    # other groups are brief and packed
    full: int = 60
    full_bytes: int = 600_000
    packed: int = 50  # Sections in one packed block
    findings: int = 10_000  # Findings on the page
    steps: int = 240  # Newest steps of a group's life that are read and drawn
    listed: int = 80  # Newest steps that are listed in words
    # ribbons, segments: partitions per group that get a ribbon, and pieces of ribbon per group
    ribbons: int = 48
    segments: int = 1200
    members: int = 40  # Members per group in the legend and in the loads
    terms: int = 100  # Topics, and client ids, per group that the text filter finds
    brief: bool = False  # Less is said of each thing, and only the group's own and the suggested strategy are compared

    def short(self) -> Limits:
        """Those of the brief sections."""
        return replace(self, steps=60, listed=6, ribbons=6, segments=30, members=16, brief=True)
