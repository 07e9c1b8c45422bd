"""Which groups and which time an audit looks at: patterns of names, and a window that reads like a shorter recording."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from counterpoise.errors import OptionError
from counterpoise.pipeline.records.place import micros

__all__ = ["Choice", "Reset", "instant"]

Reset: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True)
class Choice:
    """What of a capture is audited.

    Attributes
    ----------
    groups, topics : tuple of str
        Shell patterns (``*``, ``?``, ``[abc]``), case counts; none: all. A group is taken if its name fits one of `groups`
        and it owns, subscribes to or commits for a topic that fits one of `topics`; then all of it is taken, other topics
        too, because its assignments cannot be judged by halves.
    since, until : datetime, optional
        From (inclusive) and to (exclusive), with a time zone.
    reset : "earliest" or "latest", optional
        The groups' ``auto.offset.reset``: what is behind where nothing is committed. None: nobody knows.

    Raises
    ------
    OptionError
        The window is empty, or there is no such policy.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    reset: Reset | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise OptionError(
                f"from {self.since.isoformat()} to {self.until.isoformat()} is no window: the first must be earlier"
            )

        if self.reset not in (None, "earliest", "latest"):
            raise OptionError(f"--reset {self.reset}: earliest or latest is wanted")

    @property
    def window(self) -> tuple[int | None, int | None]:
        """`since` and `until` in microseconds."""
        since, until = (None if at is None else micros(at) for at in (self.since, self.until))
        return since, until


def instant(text: str, what: str) -> datetime:
    """An ISO 8601 time; without a zone it is UTC.

    Raises
    ------
    OptionError
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter: in UTC it is before the year 1, or after 9999
        raise OptionError(f"{what} {text}: a time like 2026-11-21T04:05:00Z is wanted (ISO 8601, UTC without a zone)") from None
