"""Alarms against the planted trouble: what was found, how soon, what was said of it, and what was said of nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.health.recording import Alarm, Place, Trouble

__all__ = ["SETTLE_S", "Found", "Score", "score"]

SETTLE_S = 60.0
"""An alarm may last so long after the trouble has ended; alarms of a partition with a shorter gap between them are one."""


@dataclass(frozen=True)
class Found:
    """Trouble, and after how many seconds the first alarm came, and the first one of its kind (None: never)."""

    trouble: Trouble
    after: float | None
    named: float | None


@dataclass(frozen=True)
class Score:
    """The score of one rule set: every trouble that is not brief, all alarms that have a cause, and those that have none.

    An alarm that began before its trouble, or that lasts for more than `SETTLE_S` after it, is false for that part.
    """

    found: tuple[Found, ...]
    true: tuple[Alarm, ...]
    false: tuple[Alarm, ...]

    @property
    def precision(self) -> float:
        """The share of alarms that have a cause."""
        return len(self.true) / max(1, len(self.true) + len(self.false))

    @property
    def recall(self) -> float:
        """The share of troubles that were found."""
        return sum(one.after is not None for one in self.found) / max(1, len(self.found))


def score(alarms: Sequence[Alarm], troubles: Sequence[Trouble], names: Mapping[str, Sequence[str]], late: float) -> Score:
    """The score of a rule set.

    Parameters
    ----------
    alarms, troubles : sequences
    names : mapping
        Kind of an alarm -> the kinds of trouble that it stands for.
    late : float
        Seconds between two samples: what a rule sees is so old at most.
    """
    true, false = [], []
    for alarm in merged(alarms):
        about = [one for one in troubles if one.about(alarm.place) and _overlap(alarm, one, late)]
        if about:
            true.append(alarm)
        false += _rest(alarm, about, late)
    found = [_found(one, alarms, names, late) for one in troubles if not one.brief]
    return Score(tuple(found), tuple(true), tuple(false))


def merged(alarms: Sequence[Alarm]) -> list[Alarm]:
    """Alarms of a partition, with those that follow one another within `SETTLE_S` as one; it has the kind of the first."""
    by_place: dict[Place, list[Alarm]] = {}
    for one in sorted(alarms, key=lambda one: (one.place, one.since)):
        rows = by_place.setdefault(one.place, [])
        if rows and one.since <= rows[-1].until + SETTLE_S:
            rows[-1] = Alarm(one.place, rows[-1].kind, rows[-1].since, max(rows[-1].until, one.until))
        else:
            rows.append(one)
    return [one for rows in by_place.values() for one in rows]


def _overlap(alarm: Alarm, trouble: Trouble, late: float) -> bool:
    return alarm.since <= trouble.until + late and alarm.until >= trouble.since


def _rest(alarm: Alarm, about: Sequence[Trouble], late: float) -> list[Alarm]:
    """The parts of an alarm without a cause."""
    rest, since = [], alarm.since
    for one in sorted(about, key=lambda one: one.since):
        if since < one.since:
            rest.append(Alarm(alarm.place, alarm.kind, since, one.since))
        since = max(since, one.until + SETTLE_S + late)
    if since < alarm.until or (not about and since == alarm.until):
        rest.append(Alarm(alarm.place, alarm.kind, since, alarm.until))
    return rest


def _found(trouble: Trouble, alarms: Sequence[Alarm], names: Mapping[str, Sequence[str]], late: float) -> Found:
    about = [one for one in alarms if trouble.about(one.place) and _overlap(one, trouble, late)]
    right = [one for one in about if {trouble.kind, *trouble.also}.intersection(names.get(one.kind, ()))]
    first, named = (min((max(0.0, one.since - trouble.since) for one in some), default=None) for some in (about, right))
    return Found(trouble, first, named)
