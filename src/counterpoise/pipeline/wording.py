"""The words that findings, notes and the report share: severities, and the format of counts, durations and times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

__all__ = ["SEVERITIES", "and_more", "duration", "grouped", "iso", "percent", "seconds", "times", "when"]

SEVERITIES = ("critical", "warning", "notice")
"""Severities of findings and actions, the worst first."""


def grouped(n: float) -> str:
    """A count with thousands separators: `31,391`, never `1e+06`; at most two decimals."""
    return f"{int(n):,}" if n == int(n) else f"{n:,.2f}".rstrip("0").rstrip(".")


def and_more(named: Sequence[str], n: int, what: str) -> str:
    """`orders, payments and 3 topics more`: the first of `n`."""
    return ", ".join(named) + (f" and {times(n - len(named), what)} more" if n > len(named) else "")


def times(n: float, what: str) -> str:
    """`3 rebalances`, `1 rebalance`."""
    return f"{grouped(n)} {what}" if n != 1 else f"1 {what.removesuffix('s')}"


def percent(share: float) -> str:
    """A share (0 to 1) as per cent; never rounded up to 100 or down to 0."""
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(max(share * 100, 0.1), 99.9):.1f}%".replace(".0%", "%")


def seconds(milliseconds: float) -> str:
    """Milliseconds as seconds, to the millisecond: `300 s`, `2,147,483.647 s`."""
    text = f"{milliseconds / 1000:,.3f}".rstrip("0").rstrip(".")
    return f"{text} s"


def duration(milliseconds: float) -> str:
    """Milliseconds as the two largest units that matter: `90 s`, `5 min 20 s`, `3 h 10 min`, `2 d 04 h`."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 7200:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s".removesuffix(" 00 s")
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min".removesuffix(" 00 min")
    return f"{int(seconds // 86400)} d {int(seconds % 86400 // 3600):02d} h".removesuffix(" 00 h")


def when(moment: datetime) -> str:
    """`2026-01-31 12:30:00 UTC`, whatever the zone of `moment`: readers may be in another zone."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(moment: datetime | None) -> str | None:
    """A time as the summary writes it: UTC, milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
