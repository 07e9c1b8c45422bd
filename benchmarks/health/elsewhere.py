"""The same rules over recordings that were made for other tests: which groups they accuse, and which of these are in trouble.

Nobody planted this trouble for rules of health. What was done to the groups is in `examples/shop/truth.jsonl`, in
`tests/pipeline/test_recorded_poll_timeouts.py`, and in the programs beside it that make the other recordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.health import burrow
from benchmarks.health.ours import OURS, STATES, health_alarms
from benchmarks.health.recording import Alarm, Recording, Trouble, read_capture
from benchmarks.health.scores import score

__all__ = ["ELSEWHERE", "accused_elsewhere"]

ROOT = Path(__file__).resolve().parent.parent.parent
_END_S = 1e6


@dataclass(frozen=True)
class Elsewhere:
    """A recording (`folder`, below the root), seconds between samples, its trouble, and when the broker was restarted."""

    folder: str
    sample_s: float
    troubles: tuple[Trouble, ...] = ()
    restart: tuple[float, float] | None = None

    def excuses(self, groups: set[str]) -> list[Trouble]:
        """The restart, as trouble of every group."""
        return [_brief(group, *self.restart) for group in sorted(groups)] if self.restart else []


def _brief(group: str, since: float, until: float) -> Trouble:
    return Trouble(group, "stopped", None, since, until, ("unowned", "falling_behind"), brief=True)


def _shop() -> Iterator[Trouble]:
    """Seconds after 04:03:01.7, the first sample."""
    yield Trouble("old-report", "unowned", None, 58, 243)  # its only member leaves; then its offsets expire
    yield Trouble("slow-reports", "falling_behind", None, 34, 498)  # 90 ms for each record of 24 partitions
    yield Trouble("slow-reports", "losing_data", None, 403, _END_S)  # an operator deletes records that it has not read
    yield Trouble("slow-reports", "unowned", None, 499, _END_S)  # its only member leaves
    yield Trouble("cdp-export", "falling_behind", None, 31, 363, ("stopped",))  # 60 ms for each record
    yield Trouble("recommendations", "unowned", None, 374, _END_S, topic="orders")  # the only member that reads it leaves
    # Crashes, stalls, a pause in a subscription, a reset of offsets: over within half a minute.
    yield _brief("bi-loader", 173, 192)
    yield _brief("image-resizer", 178, 204)
    yield _brief("image-resizer", 369, 388)
    yield _brief("fraud-detection", 127, 142)
    yield _brief("recommendations", 148, 195)
    yield _brief("warehouse", 239, 254)
    yield _brief("connect-cluster", 358, 373)
    yield _brief("replay-invoices", 152, 200)
    yield _brief("tmp-backfill-7f3", 84, 100)


ELSEWHERE = (
    Elsewhere("examples/shop", 2, tuple(_shop()), restart=(292, 339)),
    # Members poll too late, or not at all, for 8 to 24 s.
    Elsewhere(
        "tests/data/recorded/kicked",
        2,
        tuple(_brief(group, 0, _END_S) for group in ("java-two", "java-one", "librdkafka", "static", "paused", "unsubscribed")),
    ),
    Elsewhere("tests/data/recorded/members", 2),
    Elsewhere(
        "tests/data/recorded/scaled",
        10,
        (
            # 60 records a second for a member that does 25; three more come after 240 s, and need the rest to catch up.
            Trouble("scaled", "falling_behind", None, 0, _END_S, ("stalled",)),
            Trouble("hot", "falling_behind", None, 0, _END_S, ("stalled",)),  # 42 a second in two partitions of such a member
        ),
    ),
)


def accused_elsewhere() -> dict[str, Any]:
    """By rule set: troubles, found ones, and the groups that are accused without a cause, or because the broker was away."""
    recordings = [(one, read_capture(ROOT / one.folder)) for one in ELSEWHERE]
    places = {(one.folder, place) for one, made in recordings for place in made.commits}
    rules: dict[str, Mapping[str, Sequence[str]]] = {
        OURS: STATES,
        **dict.fromkeys((each.name for each in burrow.RULES), burrow.STATES),
    }
    figures = {name: _figures(recordings, name, names) for name, names in rules.items()}
    return {"groups": len({(folder, one.group) for folder, one in places}), "partitions": len(places), "rules": figures}


def _figures(recordings: Sequence[tuple[Elsewhere, Recording]], name: str, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    found, false, restart = [], set(), set()
    for one, made in recordings:
        alarms = _alarms(made, name)
        strict = score(alarms, one.troubles, names, one.sample_s)
        excused = score(alarms, [*one.troubles, *one.excuses({each.place.group for each in alarms})], names, one.sample_s)
        found += [each.after is not None for each in strict.found]
        false |= {each.place.group for each in excused.false}
        restart |= {each.place.group for each in strict.false if each not in excused.false}
    return {"troubles": len(found), "found": sum(found), "accused": sorted(false), "accused_at_restart": sorted(restart)}


def _alarms(recording: Recording, name: str) -> list[Alarm]:
    if name == OURS:
        return health_alarms(recording)
    (rules,) = (each for each in burrow.RULES if each.name == name)
    return burrow.alarms(rules, recording.commits, recording.samples, recording.end)
