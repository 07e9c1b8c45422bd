"""The steps of one group, from its classic and modern records in log order: rows of the table `rebalances`.

A step is finished when no later record can change it. `StepsFold` has one generation of one group in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from counterpoise.pipeline.history.classic_fold import ClassicFold
from counterpoise.pipeline.history.fold_state import restored
from counterpoise.pipeline.history.modern_fold import GROUP_RECORDS, NAMES, ROLES, ModernFold

__all__ = ["StepsFold", "steps_of_group"]

_PLACE = ("log_partition", "log_offset", "log_ts")


def steps_of_group(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of one group, from its classic and modern records in log order."""
    fold = StepsFold()
    for row in rows:
        yield from fold.feed(row)
    yield from fold.unfinished()


class StepsFold:
    """The fold of one group's classic and modern records, in log order, to its steps; restored from `state` if given.

    "Modern": consumer (KIP-848), share and streams groups. "Classic": groups with a leader. A group that is deleted and, in the
    same batch of the log, continues under the other protocol was migrated. A group has one protocol at a time, so a classic
    record ends the wait for a modern step to settle: at most one step is not finished, the last one.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._classic = restored(ClassicFold(), saved.get("classic"))
        self._modern = restored(ModernFold(), saved.get("modern"))
        self._deletion: dict[str, Any] | None = saved.get("deletion")
        self._handover: Mapping[str, Any] = saved.get("handover") or self._classic.handover

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.encode_state`."""
        folds = {"classic": vars(self._classic), "modern": vars(self._modern)}
        return {**folds, "deletion": self._deletion, "handover": self._handover}

    @property
    def unnamed(self) -> set[str]:
        """Topic ids without a known name: steps have the id instead."""
        return self._modern.unnamed

    def feed(
        self, row: Mapping[str, Any], on_step: Callable[[Mapping[str, Any], Mapping[str, Any]], None] | None = None
    ) -> list[dict[str, Any]]:
        """The steps that a record finishes, in log order.

        ``on_step(record, step)`` is called when a step begins: `settle_ms`, and whether it is a migration, are not known yet.
        """
        if row["record_type"] == NAMES:
            return self._modern.feed(row)
        is_modern = row["record_type"] is not None
        if is_modern and row["record_type"] not in ROLES:
            return []  # No step, as of the topology of a Streams group. Its tombstone comes after the group's.
        finished = [] if is_modern else self._modern.close()
        following: ClassicFold | ModernFold = self._modern if is_modern else self._classic
        if self._deletion is not None:
            if _is_migrated(self._deletion, row, is_modern):
                verb, protocol = ("upgraded", ROLES[row["record_type"]][0]) if is_modern else ("downgraded", "classic")
                words = f"the group was {verb} to the {protocol} protocol"
                self._deletion |= {"kind": "migrated", "cause": "protocol", "left": [], "detail": words}
                generation = self._deletion["generation"] if self._deletion["complete"] else None
                following.inherit(self._handover, generation, self._deletion["incarnation"])
            elif is_modern != (self._deletion["group_type"] != "classic"):
                following.end(self._deletion["incarnation"])
            finished.append(self._deletion)
            self._deletion = None
        if row["deleted"] and row["record_type"] in _OF_GROUP:
            self._handover = following.handover
        if is_modern:
            before = self._modern.unfinished
            steps, now = self._modern.feed(row), self._modern.unfinished
            begun = [step for step in (*steps, now) if step is not None and step is not before]
        else:
            steps = begun = [{**{name: row[name] for name in _PLACE}, **self._classic.feed(row)}]
        if on_step is not None:
            for step in begun:
                on_step(row, step)
        if steps and steps[-1]["kind"] == "deleted":
            self._deletion = steps.pop()
        return [*finished, *steps]

    def unfinished(self) -> list[dict[str, Any]]:
        """A copy of the step that is not returned yet, if there is one; the fold can continue."""
        return [dict(step) for step in (self._modern.unfinished, self._deletion) if step is not None]


_OF_GROUP = (None, *GROUP_RECORDS)
"""Types of records whose tombstone ends the group; None: classic."""


def _is_migrated(step: Mapping[str, Any], following: Mapping[str, Any], to_modern: bool) -> bool:
    other = to_modern != (step["group_type"] != "classic")
    return other and not following["deleted"] and following["log_ts"] == step["log_ts"]
