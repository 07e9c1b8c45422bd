"""Burrow's rules for the status of a partition, as a yardstick: written from their description, not from their code.

Sources: linkedin/Burrow, wiki page "Consumer Lag Evaluation Rules" (`WIKI`), and what releases since 1.1 do differently
(`CURRENT`; pull requests 338, 591, 716). Burrow gets the best conditions: it knows every sample of a log end at once, and
computes the status at each.

Its window is the last ten commits of a partition. The status is that of the first rule that applies, in the order of `WIKI`:

- OK: a commit in the window had no lag (or at most `allowed_lag`);
- STOP: there is lag, and the last commit is longer ago than the window is long. In `CURRENT` this rule is the first, and does not
  apply if the last commit reached one of the last ten log ends;
- REWIND: an offset in the window is lower than one before it, which has not been reached again;
- STALL: all offsets in the window are the same;
- WARN: the lag never falls from one commit to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.health.recording import Alarm, Place

__all__ = ["CURRENT", "RULES", "STATES", "TUNED", "WIKI", "Rules", "alarms"]

STATES = {"STOP": ("stopped", "unowned"), "STALL": ("stalled",), "WARN": ("falling_behind",), "REWIND": ()}
"""What a status says, in the words of the table `health`."""


@dataclass(frozen=True)
class Rules:
    """A version of the rules: lag that counts as none, and the share of a window that must be filled."""

    name: str
    current: bool
    allowed_lag: int = 0
    minimum_complete: float = 0.0
    intervals: int = 10


WIKI = Rules("Burrow, wiki", current=False)
CURRENT = Rules("Burrow 1.9", current=True)
TUNED = Rules("Burrow 1.9, full windows only, allowed lag 1", current=True, allowed_lag=1, minimum_complete=1.0)
RULES = (WIKI, CURRENT, TUNED)


@dataclass(frozen=True)
class _Commit:
    time: float
    offset: int
    lag: int


def alarms(
    rules: Rules,
    commits: Mapping[Place, Sequence[tuple[float, int | None]]],
    samples: Mapping[tuple[str, int], Sequence[tuple[float, int]]],
    end: float,
) -> list[Alarm]:
    """The times at which a partition has a status other than OK."""
    found = []
    for place, of_place in sorted(commits.items()):
        begun: tuple[str, float] | None = None
        at = end
        for at, status in _statuses(rules, of_place, samples[place.topic, place.partition]):
            if begun is not None and status != begun[0]:
                found.append(Alarm(place, begun[0], begun[1], at))
                begun = None
            if begun is None and status != "OK":
                begun = status, at
        if begun is not None:
            found.append(Alarm(place, begun[0], begun[1], max(at, end)))
    return found


def _statuses(
    rules: Rules, commits: Sequence[tuple[float, int | None]], samples: Sequence[tuple[float, int]]
) -> Iterator[tuple[float, str]]:
    """The status of a partition at each sample; commits before the first sample, or a tombstone (None), are not counted."""
    window: deque[_Commit] = deque(maxlen=rules.intervals)
    ends: deque[int] = deque(maxlen=rules.intervals)
    following = 0
    for now, log_end in samples:
        while following < len(commits) and commits[following][0] <= now:
            time, offset = commits[following]
            if offset is None:
                window.clear()
                yield time, "OK"
            elif ends:
                window.append(_Commit(time, offset, max(0, ends[-1] - offset)))
            following += 1
        ends.append(log_end)
        if len(window) >= max(1.0, rules.minimum_complete * rules.intervals):
            yield now, _status(rules, list(window), list(ends), now)


def _status(rules: Rules, window: list[_Commit], ends: list[int], now: float) -> str:
    last = window[-1]
    if ends[-1] - last.offset <= rules.allowed_lag:
        return "OK"
    stopped = now - last.time > last.time - window[0].time
    if rules.current and stopped and not any(end <= last.offset for end in ends):
        return "STOP"
    if any(one.lag <= rules.allowed_lag for one in window):
        return "OK"
    if not rules.current and stopped:
        return "STOP"
    return _of_offsets(window)


def _of_offsets(window: list[_Commit]) -> str:
    for before, after in pairwise(window):
        if after.offset < before.offset and window[-1].offset < before.offset:
            return "REWIND"
    falls = any(after.lag < before.lag for before, after in pairwise(window))
    if window[0].offset == window[-1].offset and len({one.offset for one in window}) == 1:
        return "STALL"
    return "OK" if falls else "WARN"
