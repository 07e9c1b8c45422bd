"""The state of one group: its folds, and figures of its steps, stops, commits and replays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.changes import Changes
from counterpoise.pipeline.fold.group_figures import CommitFigures, StopFigures
from counterpoise.pipeline.fold.poll_timeouts import PollTimeouts
from counterpoise.pipeline.fold.sizing import Sizing
from counterpoise.pipeline.fold.strategy_figures import StrategyFigures
from counterpoise.pipeline.history.fold_state import decode_state, encode_state, restored
from counterpoise.pipeline.history.modern_fold import NAMES, ROLES
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.history.replay_fold import EPOCH_TYPE, STEP_COLUMNS, Replay, ReplayFold, as_generation
from counterpoise.pipeline.history.step_figures import StepFigures
from counterpoise.pipeline.history.steps import StepsFold
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.schemas import TABLES
from counterpoise.planning.client_libraries import PYTHON, UNKNOWN

__all__ = ["GroupState"]

_TOPIC_ID = re.compile('"topic_id":"([^"]+)"')
_STEP_RECORDS = (None, *(kind for kind, (_, role) in ROLES.items() if role in ("epoch", "target_epoch")))
"""Types of records with which a step may begin; None: classic."""
_NOTHING: Mapping[str, Any] = dict.fromkeys(TABLES["rebalances"].names[1:])
Row = Mapping[str, Any]
_Queued = tuple[int, bool, bytes]


class GroupState:
    """The state of one group between two chunks; restored from `state` if given.

    Attributes
    ----------
    steps : StepsFold
    step_figures : StepFigures
        Figures of all finished steps.
    kinds : Counter
        Steps by kind, cause and missed generations.
    libraries : dict
        Client id -> client libraries of the members of the last classic generation with members.
    timeouts : PollTimeouts
    changes : Changes
    sizing : Sizing
    health : dict
        State -> microseconds that the group was in it, until it last left one.
    stops : StopFigures
    commits : list, optional
        See `group_figures.CommitFigures`.
    replays : ReplayFold
    strategies : StrategyFigures
        Figures of the strategies that are replayed.
    """

    def __init__(self, group: str, strategies: Sequence[str], plans: PlanCache, state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._group = group
        self.steps = StepsFold(saved.get("steps"))
        self.step_figures = restored(StepFigures(), saved.get("step_figures"))
        self.kinds: Counter[tuple[str, str, int]] = Counter(saved.get("kinds", {}))
        self.libraries: dict[str, list[str]] = saved.get("libraries", {})
        self.timeouts = PollTimeouts(saved.get("timeouts"))
        self.changes = Changes(saved.get("changes"))
        self.sizing = Sizing(*saved.get("sizing", ()))
        self.health: dict[str, int] = saved.get("health", {})
        self.stops = restored(StopFigures(), saved.get("stops"))
        self.commits: CommitFigures | None = saved.get("commits")
        self.strategies = restored(StrategyFigures(), saved.get("strategies"))
        self.replays = ReplayFold(strategies, saved.get("replays"), plans)
        # Time of each generation that is not replayed yet, whether it needs lag, and its row: bytes take a tenth of the memory
        self._queue: list[_Queued] = [(at, needs_lag, row) for at, needs_lag, row in saved.get("queue", ())]
        self._offset: int = saved.get("offset", NEVER)  # log offset of the last step, or of the first record before any

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.encode_state`; read it before provisional steps are added."""
        last = self.replays.last
        queue = [*([] if last is None else [_queued(last)]), *self._queue]
        return {
            "steps": self.steps.state,
            "step_figures": vars(self.step_figures),
            "kinds": self.kinds,
            "libraries": self.libraries,
            "timeouts": self.timeouts.state,
            "changes": self.changes.state,
            "sizing": astuple(self.sizing),
            "health": self.health,
            "stops": vars(self.stops),
            "commits": self.commits,
            "strategies": vars(self.strategies),
            "replays": self.replays.state,
            "queue": queue,
            "offset": self._offset,
        }

    def feed(
        self,
        rows: Iterable[Row],
        names: Mapping[str, str],
        on_step: Callable[[str, Row, int], None],
        gaps: Sequence[tuple[int, int, int]] = (),
    ) -> Iterator[Row]:
        """Yield the steps that these rows of `group_generations` and `modern_group_records` finish.

        `rows` are in log order; `record_type` of a classic record is null. `names`: topic id -> name. `on_step` is called with
        the group, a step and its time in microseconds at the record of the step, which may be before the step is finished.
        `gaps`: log partition, first missing offset, and the offset after the last missing one, of each range.
        """
        begin = partial(self._begin, on_step)
        for row in self._with_names(rows, names):
            if row["record_type"] != NAMES and self._offset == NEVER:
                self._offset = row["log_offset"]
            if row["record_type"] in _STEP_RECORDS:
                log, at, before = row["log_partition"], row["log_offset"], self._offset
                if any(log == of and first < at and before + 1 < after for of, first, after in gaps):
                    row = {**row, "after_gap": True}
            yield from map(self.add, self.steps.feed(row, begin))

    def add(self, step: Row) -> Row:
        """Count a step; returns it as a row of `rebalances`."""
        step = {**_NOTHING, **step, "group_id": self._group}
        self.step_figures.add(step)
        self.timeouts.add_step(step, micros(step["log_ts"]))
        self.kinds[step["kind"], step["cause"] or "", step["missed_generations"] or 0] += 1
        return step

    def add_commits(self, figures: CommitFigures) -> None:
        """Add the figures of a chunk's commits."""
        live, dead, first, last = figures
        known = self.commits or [0, 0, NEVER, -NEVER]
        self.commits = [known[0] + live, known[1] + dead, min(known[2], first), max(known[3], last)]

    def _with_names(self, rows: Iterable[Row], names: Mapping[str, str]) -> Iterator[Row]:
        """Yield the records, before each a row with the names of its topic ids; updates libraries and poll timeouts."""
        seen: set[str] = set()
        for row in rows:
            if row["record_type"] is None:
                if row["members"]:
                    self.libraries = _libraries(row["members"], self.libraries)
                    self.timeouts.add_generation(row["members"])
            else:
                ids = set(_TOPIC_ID.findall(row["payload"] or "")) - seen
                known = {one: names[one] for one in ids if one in names}
                if known:
                    yield {"record_type": NAMES, "value": known}
                seen |= ids
                self.timeouts.add_record(row, micros(row["log_ts"]))
            yield row

    def _begin(self, on_step: Callable[[str, Row, int], None], row: Row, step: Row) -> None:
        """A step takes effect at a record; the replay of a classic one uses the record and columns of the step."""
        at, self._offset, is_classic = micros(step["log_ts"]), step["log_offset"], row["record_type"] is None
        on_step(self._group, step, at)
        self.changes.add_step(step, at, (row["members"] or ()) if is_classic else self.timeouts.members)
        if is_classic:
            self._queue.append(_queued({**row, "step": {name: step.get(name) for name in STEP_COLUMNS}}))
        elif step["group_type"] == EPOCH_TYPE:
            self._queue.append(_queued(as_generation({**step, "group_id": self._group})))

    def times(self) -> Iterator[int]:
        """Times of generations that are not replayed yet and need lag, in microseconds."""
        yield from (at for at, needs_lag, _ in self._queue if needs_lag)

    def replay(self, until: int, lag: Callable[[str, int], Any]) -> Iterator[Replay]:
        """Yield the replays of generations up to a time (microseconds) that have a following generation.

        ``lag(group, time)`` returns ``topic, partitions, lags`` as `LagLookup.at`; None: no sample before.
        """
        queue, self._queue = self._queue, []
        for place, (at, needs_lag, encoded) in enumerate(queue):
            if at > until:
                self._queue = queue[place:]
                return
            row = decode_state(encoded)
            yield from self.replays.feed({**row, "lag": lag(self._group, at)} if needs_lag else row)


def _libraries(members: Iterable[Row], before: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The libraries of members by client id; where a subscription does not show it, those that the client id had before."""
    found: dict[str, set[str]] = {}
    for member in members:
        client, library = member["client_id"], member["library"]
        known = before.get(client) if library in (PYTHON, UNKNOWN) else None
        found.setdefault(client, set()).update(known or [library])
    return {client: sorted(libraries) for client, libraries in found.items()}


def _queued(row: Row) -> _Queued:
    return micros(row["log_ts"]), bool(row["members"]) and row.get("lag") is None, encode_state(row)
