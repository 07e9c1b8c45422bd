"""Which groups and which time an audit looks at: patterns of names, and a window that reads like a shorter recording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from pyspark.sql import functions as fn

from counterpoise.errors import OptionError
from counterpoise.pipeline.source.capture import Capture

__all__ = ["Choice", "Reset", "instant", "within"]

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


def within(capture: Capture, choice: Choice) -> Capture:
    """The capture cut to the window, as if it had been recorded then.

    Notes
    -----
    Of what is older than `since` the newest record of each key stays, as compaction would have left it: a group that did
    nothing in the window is still known, with its members. One aggregation over the keys of the older records.
    """
    if choice.since is None and choice.until is None:
        return capture
    capture = capture.frames()
    time, records, ends = fn.col("timestamp"), capture.records, capture.log_ends
    assert records is not None
    if choice.until is not None:
        records = records.where(time < fn.lit(choice.until))
        ends = None if ends is None else ends.where(fn.col("sampled_at") < fn.lit(choice.until))
    if choice.since is not None:
        before = records.where(time < fn.lit(choice.since))
        if capture.aborted is not None:
            gone = capture.aborted.select(fn.col("log_partition").alias("partition"), fn.col("log_offset").alias("offset"))
            before = before.join(fn.broadcast(gone), ["partition", "offset"], "left_anti")
        newest = fn.max_by(fn.struct("value", "offset", "timestamp"), "offset").alias("newest")
        kept = before.groupBy("partition", "key").agg(newest).where("newest.value is not null")
        kept = kept.select("key", "newest.value", "partition", "newest.offset", "newest.timestamp")
        records = records.where(time >= fn.lit(choice.since)).unionByName(kept)
        ends = None if ends is None else ends.where(fn.col("sampled_at") >= fn.lit(choice.since))
    return replace(capture, records=records, log_ends=ends)


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
