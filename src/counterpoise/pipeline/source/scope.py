"""The scope of an audit: patterns of group and topic names, a window of time, the groups' reset policy, headroom and policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from counterpoise.errors import OptionError
from counterpoise.pipeline.findings.policy import NO_POLICY, Policy
from counterpoise.pipeline.records.place import micros

__all__ = ["AuditScope", "Reset", "parse_time"]

Reset: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True)
class AuditScope:
    """The part of a capture that is audited.

    Attributes
    ----------
    groups, topics : tuple of str
        Shell patterns (``*``, ``?``, ``[abc]``), case-sensitive; none: all. A group is audited if its name matches one of
        `groups` and it owns, subscribes to or commits for a topic that matches one of `topics`. All its topics are audited
        then, because an assignment is compared as a whole.
    since, until : datetime, optional
        From (inclusive) and to (exclusive), with a time zone.
    reset : "earliest" or "latest", optional
        The groups' ``auto.offset.reset``: from where lag counts for a partition without a commit. None: unknown.
    headroom : float
        By how much a group's members must be able to do more than is produced: 0.2 is a fifth.
    policy : Policy
        Findings that are accepted, and owners of groups.

    Raises
    ------
    OptionError
        The patterns are one text, a pattern or the window is empty, a time has no zone, the policy is unknown, or the headroom
        is not in 0 to 10.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    reset: Reset | None = None
    headroom: float = 0.2
    policy: Policy = NO_POLICY

    def __post_init__(self) -> None:
        for name in ("groups", "topics"):
            if isinstance(patterns := getattr(self, name), str):
                raise OptionError(f"{name}: expected a tuple of patterns, got one text: give ({patterns!r},)")
            if "" in patterns:
                raise OptionError(f"{name}: an empty pattern (an unset variable?) matches nothing; leave it out")
        for name, at in (("since", self.since), ("until", self.until)):
            if at is not None and getattr(at, "tzinfo", None) is None:
                raise OptionError(f"{name} {at}: expected a datetime with a time zone, as in datetime(2026, 11, 21, tzinfo=UTC)")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise OptionError(
                f"from {self.since.isoformat()} to {self.until.isoformat()} is no window: the first must be earlier"
            )
        if self.reset not in (None, "earliest", "latest"):
            raise OptionError(f"--reset {self.reset}: expected earliest or latest")
        if not 0 <= self.headroom <= 10:
            raise OptionError(f"--headroom {self.headroom}: expected a number from 0 to 10; 0.2 is a fifth")

    @property
    def window(self) -> tuple[int | None, int | None]:
        """`since` and `until` in microseconds."""
        since, until = (None if at is None else micros(at) for at in (self.since, self.until))
        return since, until


def parse_time(text: str, option: str) -> datetime:
    """An ISO 8601 time of an option; without a zone it is UTC. Raises `OptionError` for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter: in UTC it is before the year 1, or after 9999
        raise OptionError(f"{option} {text}: expected a time like 2026-11-21T04:05:00Z (ISO 8601, UTC without a zone)") from None
