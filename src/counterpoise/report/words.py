"""Numbers, times and untrusted names as words a person can read; shared by the page and the terminal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from counterpoise.pipeline import wording
from counterpoise.pipeline.wording import grouped
from counterpoise.snapshot.json_text import visible

__all__ = [
    "DAY",
    "UNKNOWN",
    "accepted",
    "clock",
    "count",
    "duration",
    "instant",
    "long",
    "number",
    "paragraphs",
    "percent",
    "phrase",
    "plural",
    "rounded",
    "slug",
    "visible",
    "visible_lines",
]

UNKNOWN = "\u2013"
"""Written for a figure that is not known."""

DAY = 86_400_000_000
"""Microseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SETTING = re.compile(
    r"^\s*(?:[A-Za-z][\w.\-]*\s*=\s*\S.*|#.*|(?:kafka-(?!python)[\w.\-]+|counterpoise)\s.*|from [\w.]+ import .*|kgo\..*)$"
)
_PHRASES = {
    "cooperative_followup": "cooperative follow-up",
    "static_replacement": "static member replaced",
    "emptied": "group emptied",
    "join": "a member joined",
    "leave": "a member left",
    "join_leave": "members joined and left",
    "subscription": "a subscription changed",
    "partition_count": "the partition count changed",
    "protocol": "the strategy changed",
    "stops_without_samples": "with stops in time without samples",
}


def phrase(code: object) -> str:
    """A code of the tables (``join_leave``) in words."""
    text = "" if code is None else str(code)
    return _PHRASES.get(text, visible(text).replace("_", " "))


def accepted(finding: Mapping[str, Any]) -> str | None:
    """Until when and why a finding is accepted; None: it is not."""
    until, reason = finding["accepted_until"], finding["accepted_reason"]
    return None if until is None else f"until {until}" + (f": {visible(reason)}" if reason else "")


def count(value: float | None) -> str:
    """A count with separators, as findings write it."""
    return UNKNOWN if value is None else grouped(value)


def number(value: float | None, missing: str = UNKNOWN) -> str:
    """A number to three digits and a unit prefix: 12.3 k, 34 M; exact below ten thousand."""
    if value is None:
        return missing
    for least, scale, unit in ((999.5e9, 1e12, "T"), (999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / scale:.3g} {unit}"
    return count(value)


def percent(share: float | None) -> str:
    """A share (0 to 1) as per cent."""
    return UNKNOWN if share is None else wording.percent(share)


def plural(value: float | None, word: str) -> str:
    """``1 group``, ``3 groups``."""
    return f"{count(value)} {word if value == 1 else word + 's'}"


def duration(milliseconds: float | None) -> str:
    """Milliseconds as `wording.duration` writes them."""
    return UNKNOWN if milliseconds is None else wording.duration(milliseconds)


def rounded(value: float | None) -> str:
    """A number with one decimal place if it is below 10."""
    return count(None if value is None else round(value, 1 if value < 10 else None))


def instant(microseconds: int | None) -> str:
    """Microseconds since 1970 as date and time, UTC."""
    return UNKNOWN if microseconds is None else f"{_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S}"


def clock(microseconds: int | None, *, day: bool = False) -> str:
    """Microseconds since 1970 as the time of day, UTC; with the date if `day`."""
    return instant(microseconds) if day else instant(microseconds).rpartition(" ")[2]


def long(period: tuple[int, int]) -> bool:
    """Whether two instants, in microseconds, are at least a day apart, so that times need their date."""
    return period[1] - period[0] >= DAY


def visible_lines(text: str | None) -> str:
    """`visible`, line by line."""
    return "\n".join(visible(line) for line in (text or "").splitlines())


def slug(name: str) -> str:
    """An id of a group for links that is safe in HTML and in a URL; a digest keeps names apart that clean up to the same text."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    if clean == name and name:
        return f"g-{clean}"
    return f"g-{clean.strip('-')[:40]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def paragraphs(text: str | None) -> list[tuple[str, str]]:
    """What to do, as ``("words", line)`` and ``("config", block)`` in order: consecutive settings form one block to copy."""
    parts: list[tuple[str, str]] = []
    for line in (text or "").splitlines():
        if not line.strip():
            continue
        kind = "config" if _SETTING.match(line) and not line.rstrip().endswith((":", ".")) else "words"
        if kind == "config" and parts and parts[-1][0] == "config":
            parts[-1] = ("config", f"{parts[-1][1]}\n{line.strip()}")
        else:
            parts.append((kind, line.strip()))
    return parts
