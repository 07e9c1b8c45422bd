"""The steps of one group's life, from its classic and modern records in log order: rows of the table `rebalances`.

A step is finished when no later record can change it; `StepsFold` holds one generation of one group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from counterpoise.pipeline.folds.classic_fold import ClassicFold
from counterpoise.pipeline.folds.modern_fold import GROUP_RECORDS, NAMES, ModernFold
from counterpoise.pipeline.timelines.ownership import Left, left_by

__all__ = ["StepsFold", "steps_of_group"]

_PLACE = ("log_partition", "log_offset", "log_ts")


def steps_of_group(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The steps of one group's life, from its classic and modern records in log order."""
    fold = StepsFold()
    for row in rows:
        yield from fold.feed(row)
    yield from fold.unfinished()


class StepsFold:
    """One group's classic and modern records, in log order, to the steps of its life.

    A group that is deleted and, in the same batch of the log, goes on under the other protocol was migrated.

    Parameters
    ----------
    state : mapping, optional
        `state` of an earlier fold of this group (see `fold_state`), to go on where it ended.
    begun : callable, optional
        Is called with each step of a modern group as soon as its record is fed: all is known of it but when it settles, and
        whether a deletion is a migration.
    folded : callable, optional
        Is called with each classic record and the step it makes.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        begun: Callable[[Mapping[str, Any]], None] | None = None,
        folded: Callable[[Mapping[str, Any], Mapping[str, Any]], None] | None = None,
    ) -> None:
        saved = state or {}
        self._classic = ClassicFold(saved.get("classic"))
        self._modern = ModernFold(saved.get("modern"))
        self._held: dict[str, Any] | None = saved.get("held")
        self._left: Left = saved.get("left") or left_by([])
        self._begun, self._folded = begun, folded

    @property
    def state(self) -> dict[str, Any]:
        """What the next record will be held against."""
        return {"classic": self._classic.state, "modern": self._modern.state, "held": self._held, "left": self._left}

    @property
    def unnamed(self) -> list[str]:
        """Topic ids that stand in steps instead of a name."""
        return self._modern.unnamed

    def feed(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The steps that this record finishes; they will not change any more."""
        is_modern = row["record_type"] is not None
        if row["record_type"] == NAMES:
            self._modern.feed(row)
            return
        following: ClassicFold | ModernFold = self._modern if is_modern else self._classic
        if self._held is not None:
            if _crosses(self._held, row, is_modern):
                self._held |= _MIGRATED[is_modern]
                following.inherit(self._left, self._held["generation"], self._held["incarnation"])
            elif is_modern != (self._held["group_type"] != "classic"):
                following.end(self._held["incarnation"])
            yield self._held
            self._held = None
        if row["deleted"] and row["record_type"] in _OF_GROUP:
            self._left = following.left
        steps = self._fed(row) if is_modern else [self._classic_step(row)]
        if steps and steps[-1]["kind"] == "deleted":
            self._held = steps.pop()
        yield from steps

    def _classic_step(self, row: Mapping[str, Any]) -> dict[str, Any]:
        step = {**{name: row[name] for name in _PLACE}, **self._classic.feed(row)}
        if self._folded is not None:
            self._folded(row, step)
        return step

    def _fed(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        before = self._modern.unfinished
        steps, now = self._modern.feed(row), self._modern.unfinished
        if self._begun is not None:
            for step in (*steps, now):
                if step is not None and step is not before:
                    self._begun(step)
        return steps

    def unfinished(self) -> Iterator[dict[str, Any]]:
        """The steps that further records may still change, as they stand; the fold can go on."""
        for step in (self._modern.unfinished, self._held):
            if step is not None:
                yield dict(step)


_OF_GROUP = (None, *GROUP_RECORDS)
"""Types of records whose deletion ends the group; None: classic."""
_MIGRATED: dict[bool, dict[str, Any]] = {
    to_modern: {"kind": "migrated", "cause": "protocol", "left": [], "detail": f"the group was {words}"}
    for to_modern, words in ((True, "upgraded to the consumer protocol"), (False, "downgraded to the classic protocol"))
}


def _crosses(step: Mapping[str, Any], following: Mapping[str, Any], to_modern: bool) -> bool:
    other = to_modern != (step["group_type"] != "classic")
    return other and not following["deleted"] and following["log_ts"] == step["log_ts"]
