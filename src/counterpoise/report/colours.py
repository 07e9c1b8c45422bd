"""Which colour, pattern and letter stand for which member: fixed by first appearance, so a longer history changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["HUES", "PATTERNS", "Look", "identities", "looks"]

HUES = 6
"""Hues that stay apart in all common kinds of colour blindness (after Paul Tol's "bright" scheme)."""

PATTERNS = 4
"""Plain, stripes, dots, crossed stripes: the same hue again, distinct without colour."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one member is drawn."""

    slot: int  # Index of the fill, 0 <= slot < HUES * PATTERNS; repeats only after that many members
    letter: str  # A, B, ... Z, AA, AB, ...; never repeats within a group

    @property
    def ink(self) -> str:
        """Class of the letter's colour: chosen for the hue, or with a halo if there is a pattern below."""
        return f"t{self.slot}" if self.slot < HUES else "th"


def looks(keys: Iterable[str]) -> dict[str, Look]:
    """A look for each distinct key, in the order of their first appearance."""
    return {key: Look(at % (HUES * PATTERNS), _letters(at)) for at, key in enumerate(dict.fromkeys(keys))}


def _letters(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def identities(
    steps: Iterable[list[tuple[str, str]]],  # Per step of the group's life its members as (member id, client id)
) -> dict[str, str]:
    """What a person would call each member: its client id, unless two members of one step share it, then the member id.

    Returns member id -> key, by first appearance (ties by id). A member that restarts with its client id keeps its key.
    """
    client_of: dict[str, str] = {}
    shared: set[str] = set()
    for members in steps:
        for member, client in sorted(members):
            client_of.setdefault(member, client)
        shared.update(client for client, n in Counter(client for _, client in members).items() if n > 1)
    return {member: member if not client or client in shared else client for member, client in client_of.items()}
