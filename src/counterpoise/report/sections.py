"""The sections of the groups: the first ones in full and readable without scripts, the others shorter and packed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.pipeline.arrays import slices
from counterpoise.report.changes import change_words
from counterpoise.report.detail import detail
from counterpoise.report.findings import finding_words
from counterpoise.report.history import GroupHistory, LagNow, Row
from counterpoise.report.limits import Limits
from counterpoise.report.ribbons import Ints
from counterpoise.report.words import visible

if TYPE_CHECKING:
    from counterpoise.report.audit_output import Audit

__all__ = ["Sections", "packed"]

_CELLS_AT_ONCE, _SAMPLES_AT_ONCE = 300_000, 1_000_000
"""Partitions times steps, and groups times samples of lag, that are read at once; the latter take 150 bytes each."""


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
        for made in self._made(self.groups[: self.limits.full], self.limits):
            unfolded = self.n_full == 0
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
        for made in self._made(self.groups[self.n_full :], limits):
            block.append(self.template.render(group=made, unfolded=False, wrapped=False))
            if len(block) == limits.packed:
                yield packed("".join(block))
                block = []
        if block:
            yield packed("".join(block))

    def _made(self, groups: list[Row], limits: Limits) -> Iterator[Row]:
        """What the template shows of each group; the tables are read for a part of the groups at a time."""
        for some in slices(self._samples(groups), _SAMPLES_AT_ONCE):
            names = [str(group["group_id"]) for group in groups[some]]
            lags, states = self.audit.lags(names, self.lags), self.audit.health(names)
            for part in slices(self._cells(groups[some], limits.steps), _CELLS_AT_ONCE):
                offsets = {name: self.rhythm[name][1] for name in names[part] if name in self.rhythm}
                histories = self.audit.histories(offsets, limits.steps)
                for group, name in zip(groups[some][part], names[part], strict=True):
                    history = histories.pop(name, None)
                    self.terms.append(self._terms(name, history))
                    found = [finding_words(row, self.period) for row in self.findings.get(name, ())]
                    made = detail(group, history, lags.get(name), found, self.period, limits, states.get(name, []))
                    yield {**made, "changes": change_words(self.changes.get(name, ()), self.period)}

    def _terms(self, name: str, history: GroupHistory | None) -> str:
        clients = {client for _, client in history.members} if history else set()
        topics = {topic for topic, _ in history.partitions} if history else set()
        topics.update(self.lags[name].topics if name in self.lags else ())
        most = self.limits.terms
        return " ".join(visible(term) for term in (*sorted(topics)[:most], *sorted(clients)[:most]))

    def _samples(self, groups: list[Row]) -> Ints:
        """About how many samples of lag each group has."""
        known = (self.lags.get(str(group["group_id"])) for group in groups)
        return np.array([1 + (lag.samples if lag else 0) for lag in known], np.int64)

    def _cells(self, groups: list[Row], steps: int) -> Ints:
        """Partitions times steps of each group; of its steps the last `steps` count."""
        cells = np.ones(len(groups), np.int64)
        for at, group in enumerate(groups):
            if known := self.rhythm.get(str(group["group_id"])):
                cells[at] += min(known[1].size, steps) * (group["partitions_now"] or 1)
        return cells


def packed(text: str) -> str:
    """Deflated and in base64, as the page's script unpacks it."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
