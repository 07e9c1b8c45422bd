"""Several groups in one text: JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.json_text import decoded, json_lines

__all__ = ["read_groups"]


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
