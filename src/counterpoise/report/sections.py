"""The sections of the groups: the first ones in full and readable without scripts, the others shorter and packed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counterpoise.report.changes import change_words
from counterpoise.report.detail import detail
from counterpoise.report.findings import finding_words
from counterpoise.report.history import GroupHistory, LagNow, LagSeries, Row
from counterpoise.report.limits import Limits
from counterpoise.report.ribbons import Ints
from counterpoise.report.words import visible

if TYPE_CHECKING:
    from counterpoise.report.load import Audit

__all__ = ["Sections", "packed"]

_Read = tuple[Row, GroupHistory | None, LagSeries | None, list[Row]]
_CELLS_AT_ONCE = 300_000
"""Partitions times steps that are read at once."""


@dataclass(slots=True)
class Sections:
    """The sections of `groups`, in this order."""

    audit: Audit
    groups: list[Row]
    # findings, changes: those of each group
    findings: dict[str, list[Row]]
    changes: dict[str, list[Row]]
    # rhythm, lags: as `Audit.rhythm` and `Audit.lags_now` gave them
    rhythm: dict[str, tuple[Ints, Ints]]
    lags: dict[str, LagNow]
    period: tuple[int, int]
    limits: Limits
    template: Any
    # Per group whose section was made: its topics and client ids, which the page's text filter looks at
    terms: list[str] = field(default_factory=list)
    n_full: int = 0

    def full(self) -> Iterator[str]:
        """The first groups' sections as HTML; `n_full` counts them."""
        left = self.limits.full_bytes
        for read in self._read(self.groups[: self.limits.full], self.limits.steps):
            unfolded = not self.n_full
            made = self._made(*read, self.limits)
            section = self.template.render(group=made, unfolded=unfolded, wrapped=not unfolded)
            self.n_full += 1
            left -= len(section)
            yield section
            if left < 0:
                break

    def brief(self) -> Iterator[str]:
        """The other groups' sections, packed, `Limits.packed` in a block."""
        block: list[str] = []
        limits = self.limits.short()
        for read in self._read(self.groups[self.n_full :], limits.steps):
            made = self._made(*read, limits)
            block.append(self.template.render(group=made, unfolded=False, wrapped=False))
            if len(block) == limits.packed:
                yield packed("".join(block))
                block = []
        if block:
            yield packed("".join(block))

    def _made(self, group: Row, history: GroupHistory | None, lag: LagSeries | None, health: list[Row], limits: Limits) -> Row:
        name = str(group["group_id"])
        found = [finding_words(row, self.period) for row in self.findings.get(name, ())]
        changed = change_words(self.changes.get(name, ()), self.period)
        return {**detail(group, history, lag, found, self.period, limits, health), "changes": changed}

    def _read(self, groups: list[Row], steps: int) -> Iterator[_Read]:
        """Each group with its history, its lag and its states; the tables are read for a part of the groups at a time."""
        for part in self._parts(groups, steps):
            names = [str(group["group_id"]) for group in part]
            lags = self.audit.lags(names, self.lags)
            states = self.audit.health(names)
            histories = self.audit.histories({name: self.rhythm[name][1] for name in names if name in self.rhythm}, steps)
            for group, name in zip(part, names, strict=True):
                history = histories.pop(name, None)
                self.terms.append(self._terms(name, history))
                yield group, history, lags.get(name), states.get(name, [])

    def _terms(self, name: str, history: GroupHistory | None) -> str:
        clients = {client for _, client in history.members} if history else set()
        topics = {topic for topic, _ in history.partitions} if history else set()
        topics.update(self.lags[name].topics if name in self.lags else ())
        most = self.limits.terms
        return " ".join(visible(term) for term in (*sorted(topics)[:most], *sorted(clients)[:most]))

    def _parts(self, groups: list[Row], steps: int) -> Iterator[list[Row]]:
        """The groups in parts of at most `_CELLS_AT_ONCE` partitions times steps, if one group has no more."""
        part: list[Row] = []
        left = _CELLS_AT_ONCE
        for group in groups:
            known = self.rhythm.get(str(group["group_id"]))
            left -= 1 + (min(known[1].size, steps) * (group["partitions_now"] or 1) if known else 0)
            if left < 0 and part:
                yield part
                part, left = [], _CELLS_AT_ONCE
            part.append(group)
        if part:
            yield part


def packed(text: str) -> str:
    """Deflated and in base64, as the page's script unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
