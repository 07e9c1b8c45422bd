"""Every error counterpoise raises on purpose, in one tree.

    CounterpoiseError            the root: catch this to catch them all
    ├── WireError                bytes that are not what they should be (offset, field, reason)
    ├── SnapshotError            a group description that cannot be read (the path, what, what to do)
    ├── ProblemError             arrays that do not describe a group
    ├── UnknownStrategyError     a strategy name that is not registered
    ├── OptionError              an option that does not exist or does not fit
    ├── CaptureError             a recording that cannot be read (file, what, what to do)
    │   └── StorageError         a disk or an object store that cannot be read or written (place, reason, what to do)
    ├── ScenarioError            a simulation scenario that cannot be read
    ├── SourceError              a live cluster that cannot be asked
    ├── HostError                a Kafka client that lacks what an assignor reads from it (the release, what, what to install)
    ├── InvariantError           counterpoise contradicts itself: a bug, please report
    └── MissingExtraError        an optional dependency that is not installed

One warning: SubscriptionWarning, for topics that members ask for and that do not exist.

A message says where, what, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "CaptureError",
    "CounterpoiseError",
    "HostError",
    "InvariantError",
    "MissingExtraError",
    "OptionError",
    "ProblemError",
    "ScenarioError",
    "SnapshotError",
    "SourceError",
    "StorageError",
    "SubscriptionWarning",
    "UnknownStrategyError",
    "WireError",
    "check_names",
    "some",
]

_LONGEST = 2_000


def some(words: Sequence[str], most: int = 5) -> str:
    """The first of a list for a message, and how many more there are."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


class CounterpoiseError(Exception):
    """The root of every error raised on purpose. Its text is short, however long the names in it are."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 4 :]}"


class WireError(CounterpoiseError):
    """Bytes that do not follow their layout.

    Parameters
    ----------
    offset : int
        Byte offset at which reading stopped.
    field : str
        Name of the field being read.
    reason : str
        What is wrong with it.
    """

    def __init__(self, offset: int, field: str, reason: str) -> None:
        super().__init__(f"byte {offset}, {field}: {reason}")
        self.offset = offset
        self.field = field
        self.reason = reason

    def __reduce__(self) -> tuple[type[WireError], tuple[int, str, str]]:
        return type(self), (self.offset, self.field, self.reason)


class SnapshotError(CounterpoiseError):
    """A snapshot, a plan or a description of a group that cannot be read; the message names the path."""


class ProblemError(CounterpoiseError):
    """Arrays that do not describe a group (wrong length, unsorted, out of range)."""


class UnknownStrategyError(CounterpoiseError):
    """A strategy name that is not registered."""


class OptionError(CounterpoiseError):
    """An option that does not exist, or a value that does not fit it."""


class CaptureError(CounterpoiseError):
    """A recording that cannot be read."""


class StorageError(CaptureError):
    """A disk or an object store that cannot be read or written; `reason` is what the storage said."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        super().__init__(f"{place}: {reason}; {advice}")
        self.reason = reason
        self._given = place, reason, advice

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, str, str]]:
        return type(self), self._given


class ScenarioError(CounterpoiseError):
    """A simulation scenario that cannot be read."""


class SourceError(CounterpoiseError):
    """A live cluster that cannot be asked, or answers only in part; `transient`: it may answer later."""

    def __init__(self, words: str, *, transient: bool = False) -> None:
        super().__init__(words)
        self.transient = transient


class HostError(CounterpoiseError):
    """A Kafka client that lacks what an assignor reads from it: an unknown release, or the caller is no consumer."""


class InvariantError(CounterpoiseError):
    """A broken invariant of counterpoise itself: a bug. The input is worth reporting."""


class SubscriptionWarning(UserWarning):
    """Members subscribe to topics that the group does not have: a spelling mistake, or a topic that is still to be created.

    `subscribers`: the number of members by topic.
    """

    def __init__(self, subscribers: Mapping[str, int]) -> None:
        listed = [f"{topic} ({count} {'member' if count == 1 else 'members'})" for topic, count in subscribers.items()]
        super().__init__(f"members subscribe to topics that do not exist: {some(listed)}")
        self.subscribers = subscribers

    def __reduce__(self) -> tuple[type[SubscriptionWarning], tuple[Mapping[str, int]]]:
        return type(self), (dict(self.subscribers),)


class MissingExtraError(CounterpoiseError):
    """An optional dependency that is not installed; the message names the extra."""


def check_names(what: str, names: object) -> None:
    """Raise `OptionError` if `names` is one name instead of several, or cannot be iterated; the message starts with `what`."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise OptionError(f"{what}: expected a list of names, not {names!r}")
