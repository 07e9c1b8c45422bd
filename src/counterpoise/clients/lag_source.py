"""Lag for a leader: read once per rebalance in a thread of its own, with a time limit and two fallbacks.

If a read fails or takes too long, the leader uses the last lag that was read; if there is none, counts alone decide. Each
of the three outcomes is counted, the last two are logged. A late read is kept for the next rebalance, and no other starts
before it ends: a broker that does not answer costs one thread and the time limit, no more.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from counterpoise.clients.host_assignor import HostAssignor
from counterpoise.errors import OptionError, SnapshotError
from counterpoise.model.arrays import python_scalar

_MOST = 2**53
_PART = 2
"""The wait is at most this fraction of the time after which a group expels its leader: planning takes time too."""

__all__ = ["LagAware", "LagReader", "LagSource", "live_lag"]

log = logging.getLogger("counterpoise.clients")

LagSource: TypeAlias = Callable[[Mapping[str, int]], Mapping[str, Sequence[int]]]
"""Partition counts by topic in, records behind per partition out, one whole number each. Topics left out count as 0, topics
not asked for are ignored. May block and may raise."""


def live_lag(config: Mapping[str, Any], group_id: str, *, reset: str = "latest", timeout: float = 5.0) -> LagSource:
    """A source that asks the brokers: committed offsets of the group against the ends of its partitions.

    Parameters
    ----------
    config : mapping
        librdkafka settings, at least ``bootstrap.servers`` (needs the extra ``live``).
    group_id : str
    reset : str
        The group's ``auto.offset.reset``: decides the lag if nothing is committed.
    timeout : float
        Seconds for each request, in the reader's own thread.
    """

    def read(topics: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        from counterpoise.clients.live_group import read_live_group

        found = read_live_group(config, group_id, reset=reset, timeout=timeout, more_topics=topics)
        for fault in found.faults:
            log.warning("lag of group %s: %s", group_id, fault)
        lag = found.group.lag or {}
        # A topic may have grown, or been recreated, since the leader read its metadata.
        return {topic: [*lag[topic], *[0] * size][:size] for topic, size in topics.items() if topic in lag}

    return read


class LagReader:
    """Reads a source within a time limit.

    `outcomes` counts how often the lag was "read" in time for the topics asked for, "kept" from an earlier read, or "missing".
    """

    def __init__(self, source: LagSource, within_s: float) -> None:
        given = python_scalar(within_s)  # whatever a configuration holds
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise OptionError(f"lag_within_s: expected more than 0 seconds, not {within_s!r}")
        self._source = source
        self._within_s = min(given, threading.TIMEOUT_MAX)
        self._last: Mapping[str, Sequence[int]] | None = None
        self._under_way: threading.Thread | None = None
        self._read_now: list[Mapping[str, int]] = []
        self._fault = ""
        self._failed = False
        self.outcomes: Counter[str] = Counter()

    def bounded(self, patience_s: float | None) -> float:
        """Seconds to wait if the group expels its leader after `patience_s`; None: unknown."""
        return self._within_s if patience_s is None else min(self._within_s, patience_s / _PART)

    def lag(self, topics: Mapping[str, int], patience_s: float | None = None) -> Mapping[str, Sequence[int]] | None:
        """The lag of these topics, or the last one known, or None; returns within the time limit and never raises."""
        within_s = self.bounded(patience_s)
        self._read_now = []
        if self._under_way is None or not self._under_way.is_alive():
            self._fault = ""
            self._under_way = threading.Thread(target=self._read, args=(dict(topics),), name="counterpoise-lag", daemon=True)
            self._under_way.start()
        self._under_way.join(within_s)
        # A late read of the last rebalance may end now; topics that came since are not in it.
        outcome = "read" if topics in self._read_now else "missing" if self._last is None else "kept"
        self.outcomes[outcome] += 1
        if outcome != "read":
            how = "counts alone decide" if outcome == "missing" else "the last known lag is used"
            log.warning("no lag (%s): %s", self._fault or f"no answer within {within_s:.1f} s", how)
        return self._last

    def _read(self, topics: Mapping[str, int]) -> None:
        try:
            self._last = _checked(self._source(topics), topics)
        except Exception as error:
            # Whatever a source raises or answers, a group must not stay without a plan for it.
            self._fault = f"{type(error).__name__}: {error}"
            if not self._failed:
                log.exception("the source of lag failed; later failures are logged in one line each")
            self._failed = True
        else:
            self._read_now.append(topics)


def _checked(answer: Any, topics: Mapping[str, int]) -> dict[str, list[int]]:
    """What a source answered about these topics, as plain numbers; SnapshotError if it is no lag of theirs."""
    from counterpoise.snapshot.checks import check_lag, checked, refuse_sets
    from counterpoise.snapshot.parts import Lags, Topic

    if isinstance(answer, Mapping):
        answer = {topic: lags for topic, lags in answer.items() if topic in topics}
    refuse_sets(answer)
    known = checked(answer, Lags, "lag")
    check_lag(known, {topic: Topic(count) for topic, count in topics.items()})
    if sum(map(sum, known.values())) > _MOST:
        raise SnapshotError(f"lag: more than {_MOST} records behind in all; no group is")
    return known


class LagAware(HostAssignor):
    """Base of the assignors that plan by lag; always an instance, as they need a source.

    Parameters
    ----------
    lag : LagSource
        See `live_lag`; asked by the member that leads, once per rebalance, in a thread of its own. If it raises,
        or returns anything but lags of these topics, the read has failed.
    lag_within_s : float
        How long the leader waits for it, seconds. The group stands still meanwhile (under a cooperative protocol it
        does not). Never longer than half of the consumer's session timeout, or of its rebalance timeout if that is
        less: a longer one is cut down to that, and a log line says so when the consumer joins.
    **given
        As for `HostAssignor`.
    """

    def __init__(self, lag: LagSource | None, lag_within_s: float, **given: Any) -> None:
        if not callable(lag):
            raise OptionError(
                f"{type(self).__name__} needs a source of lag: {type(self).__name__}(lag=live_lag(config, group_id))"
            )
        super().__init__(**given)
        self.lag_reader = LagReader(lag, lag_within_s)
        self._used_s = lag_within_s

    def _joining(self) -> None:
        super()._joining()
        patience_s = self._patience_s()
        within_s = self.lag_reader.bounded(patience_s)
        if within_s < self._used_s and patience_s is not None:
            log.warning(
                "%s: lag_within_s is %.1f s, but the group expels its leader after %.1f s (session or rebalance timeout): "
                "the leader waits for the lag %.1f s at most; set a longer timeout or a shorter lag_within_s",
                *(self.name, self._used_s, patience_s, within_s),
            )
            self._used_s = within_s

    def _lag(self, topics: Mapping[str, int], patience_s: float | None) -> Mapping[str, Sequence[int]] | None:
        return self.lag_reader.lag(topics, patience_s)
