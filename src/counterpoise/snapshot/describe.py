"""Groups from the text that Kafka's `kafka-consumer-groups --describe` prints, of 3.x and 4.x.

Two of its tables hold owners: offsets (the default) and `--members --verbose`. Columns are found by the words of the
header, so the columns that 4.x adds (LEADER-EPOCH, CURRENT-EPOCH, TARGET-ASSIGNMENT, ...) do not matter; a members'
assignment is written ``t(0,1), u(2)`` by 3.x and ``t:0,1;u:2`` by 4.x; 3.9 leaves the topics out, ``(0,1), (2)``, so
there only the offsets table shows owners. `--state` holds none.

The text does not show subscriptions: every member counts as a subscriber of every topic of the table that has an owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.checks import counts_of
from counterpoise.snapshot.parts import Member

__all__ = ["looks_like_describe", "parts_and_unknown_lags"]

_NONE = {"-", ""}
_MAY_BE_BLANK = {"GROUP-INSTANCE-ID", "TARGET-ASSIGNMENT"}


@dataclass
class _Seen:
    """What the lines read so far say about one group."""

    owners: dict[tuple[str, int], str | None] = field(default_factory=dict)
    lag: dict[tuple[str, int], int] = field(default_factory=dict)
    members: dict[str, str | None] = field(default_factory=dict)


def looks_like_describe(text: str) -> bool:
    """Whether the text holds a table of `kafka-consumer-groups --describe`."""
    return any(_is_header(line.split()) for line in text.splitlines())


def parts_and_unknown_lags(text: str) -> list[tuple[dict[str, Any], int]]:
    """For each group, in order: the arguments of a Group, and the number of partitions that show no lag although others do.

    Raises `SnapshotError` if a row does not fit its header, a partition has two owners, or the table holds no owners; the
    message names the line.
    """
    groups: dict[str, _Seen] = {}
    for number, row in _rows(text):
        seen = groups.setdefault(row.get("GROUP", ""), _Seen())
        try:
            _read_row(seen, row)
        except ValueError as error:
            raise SnapshotError(f"line {number}: {error}") from None
    if not groups:
        raise SnapshotError("the table has no rows: the group has neither members nor committed offsets")
    return [_parts(name, seen) for name, seen in groups.items()]


def _is_header(words: list[str]) -> bool:
    return "CONSUMER-ID" in words and (words[0] == "GROUP" or words[0] == "TOPIC")


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    header: list[str] = []
    starts: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if _is_header(words):
            header, starts = words, [found.start() for found in re.finditer(r"\S+", line)]
            if "CURRENT-ASSIGNMENT" in header:  # as 4.x calls it
                header[header.index("CURRENT-ASSIGNMENT")] = "ASSIGNMENT"
            if not {"PARTITION", "ASSIGNMENT"} & set(header):
                raise SnapshotError(f"line {number}: this table holds no owners; add --verbose to --members")
            if "PARTITION" in header and "TOPIC" not in header:
                raise SnapshotError(f"line {number}: a table with PARTITION and without TOPIC; give it as the tool printed it")
        elif header and not line.startswith(("Consumer group ", "Warning:", "Error:")):
            yield number, _cells(number, line, header, starts)


def _cells(number: int, line: str, header: list[str], starts: list[int]) -> dict[str, str]:
    """Cells by the columns of the header if a cell may be blank, or an id or an assignment has spaces; else by words."""
    words = line.split()
    fits = len(words) == len(header)
    if fits and _MAY_BE_BLANK.isdisjoint(header):
        return dict(zip(header, words, strict=True))
    ends = [*starts[1:], len(line)]
    cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    aligned = all(
        line[start - 1 : start] == " " and line[start : start + 1].strip()
        for start, cell in zip(starts[1:], cells[1:], strict=True)
        if cell
    )
    blank = {name for name, cell in zip(header, cells, strict=True) if not cell}
    if aligned and blank <= _MAY_BE_BLANK:
        return dict(zip(header, cells, strict=True))
    if fits:
        return dict(zip(header, words, strict=True))
    raise SnapshotError(f"line {number}: {len(words)} words under a header of {len(header)}: {line.strip()[:80]!r}")


def _read_row(seen: _Seen, row: dict[str, str]) -> None:
    owner = None if row["CONSUMER-ID"] in _NONE else row["CONSUMER-ID"]
    if owner is not None:
        instance = row.get("GROUP-INSTANCE-ID", "-")
        seen.members[owner] = None if instance in _NONE else instance
    if "PARTITION" not in row:
        assigned, stated = list(_assigned(row["ASSIGNMENT"])), row.get("#PARTITIONS", "")
        if stated.isdecimal() and int(stated) != len(assigned):
            raise ValueError(f"{stated} partitions, and {len(assigned)} in the assignment {row['ASSIGNMENT'][:60]!r}")
        for at in assigned:
            _own(seen, at, owner)
        return
    if row["TOPIC"] in _NONE or row["PARTITION"] in _NONE:
        return
    at = (row["TOPIC"], _number(row, "PARTITION"))
    if at[1] < 0:
        raise ValueError(f"partition {at[1]} of {at[0]}; a partition is at least 0")
    _own(seen, at, owner)
    if row.get("LAG", "-") not in _NONE:
        seen.lag[at] = max(_number(row, "LAG"), 0)


def _number(row: dict[str, str], column: str) -> int:
    try:
        return int(row[column])
    except ValueError:
        raise ValueError(f"{column}: {row[column][:60]!r} is no whole number") from None


def _own(seen: _Seen, at: tuple[str, int], owner: str | None) -> None:
    before = seen.owners.get(at)
    if owner is not None and before not in (None, owner):
        what = f"partition {at[1]} of {at[0]} has two owners, {before} and {owner}"
        raise ValueError(f"{what}: a share group, or several outputs in one text; give one output of a consumer group")
    seen.owners[at] = before if owner is None else owner


def _assigned(text: str) -> Iterable[tuple[str, int]]:
    if text in _NONE:
        return
    if text.startswith("("):
        raise ValueError(f"assignment {text[:60]!r} names no topics; leave --members out (a fault of this tool's version)")
    found = re.findall(r"(?<![^\s,;:()])([^\s,;:()]+)(?:\(([\d,]*)\)|:([\d,]*))", text)
    if not found:
        raise ValueError(f"assignment {text[:60]!r} is neither t(0,1), u(2) nor t:0,1;u:2")
    for topic, older, newer in found:
        for index in (older or newer).split(","):
            if index:
                yield topic, int(index)


def _parts(name: str, seen: _Seen) -> tuple[dict[str, Any], int]:
    topics = counts_of(seen.owners)
    subscribed = sorted({topic for (topic, _), owner in seen.owners.items() if owner is not None})
    owned: dict[str, dict[str, list[int]]] = {member: {} for member in seen.members}
    for (topic, partition), owner in seen.owners.items():
        if owner is not None:
            owned[owner].setdefault(topic, []).append(partition)
    members = [Member(member, subscribed, owned[member], 0, instance) for member, instance in seen.members.items()]
    lag = {topic: [0] * count for topic, count in topics.items()} if seen.lag else {}
    for (topic, partition), behind in seen.lag.items():
        lag[topic][partition] = behind
    unknown = sum(topics.values()) - len(seen.lag) if lag else 0
    return {"topics": topics, "members": members, "lag": lag or None, "name": name or None}, unknown
