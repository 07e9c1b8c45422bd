"""One recording as the stages of an audit see it: tables that are made when they are asked for, and its local files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["Capture", "Local", "later"]


@dataclass(frozen=True)
class Local:
    """The Parquet files of a capture, which every worker sees.

    Attributes
    ----------
    records, ends : tuple of str
        Without files in `ends` log ends are not known.
    topics, aborted : str, optional
    """

    records: tuple[str, ...]
    ends: tuple[str, ...] = ()
    topics: str | None = None
    aborted: str | None = None


@dataclass(frozen=True)
class _Later:
    """A table that is made when it is first asked for: Spark loads for seconds what the first query of a session needs."""

    make: Callable[[], DataFrame]


def later(make: Callable[[], DataFrame]) -> Any:
    """A table for `Capture` that is made when it is first asked for."""
    return _Later(make)


@dataclass(frozen=True)
class Capture:
    """One recording, lazily.

    Attributes
    ----------
    records : DataFrame
        Records of the offsets topic, columns of Spark's Kafka source.
    log_ends : DataFrame, optional
        ``topic, partition, log_start, log_end, sampled_at``, without nulls.
    topics : DataFrame, optional
        ``topic, partitions, topic_id``: metadata at the end of the recording.
    aborted : DataFrame, optional
        ``log_partition, log_offset`` of records that a reader of committed data never sees.
    notes : tuple of str
        What is missing or left out, in words.
    local : Local, optional
        The same as files; None where they are elsewhere, or only a part of them counts.
    """

    records: DataFrame
    log_ends: DataFrame | None = None
    topics: DataFrame | None = None
    aborted: DataFrame | None = None
    notes: tuple[str, ...] = ()
    local: Local | None = None

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if isinstance(value, _Later):
            value = value.make()
            object.__setattr__(self, name, value)
        return value

    @property
    def tells_aborted(self) -> bool:
        """Whether it says which records never took effect."""
        return self.aborted is not None if self.local is None else self.local.aborted is not None
