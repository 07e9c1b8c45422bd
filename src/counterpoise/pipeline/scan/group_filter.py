"""The groups that an audit is of: by patterns of their names, and by the topics that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.records.generations import generation_row
from counterpoise.pipeline.records.modern import modern_row
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.scan.read import are_commits, plain
from counterpoise.wire.offsets_topic import decode_record

__all__ = ["GroupFilter", "groups_of_topics"]

_PATTERN = 16
"""The record that says which topics a subscribed pattern matches."""


@dataclass(frozen=True)
class GroupFilter:
    """Which groups count.

    Attributes
    ----------
    patterns : tuple of str
        Shell patterns, any of which the name fits; none: every name does.
    names : frozenset of str, optional
        Groups that use a chosen topic; None: no topic was chosen.
    """

    patterns: tuple[str, ...] = ()
    names: frozenset[str] | None = None

    @property
    def everyone(self) -> bool:
        """Whether no group is left out."""
        return self.names is None and (not self.patterns or "*" in self.patterns)

    def fitting(self, groups: Iterable[str]) -> list[bool]:
        """Whether each group is chosen."""
        fits = _fits(self.patterns) if self.patterns else None
        names = self.names
        return [(fits is None or bool(fits.match(one))) and (names is None or one in names) for one in groups]


def groups_of_topics(batches: Iterable[pa.RecordBatch], topics: Sequence[str]) -> dict[str, bool]:
    """Groups in raw records, and whether each commits for, subscribes to or owns a topic that fits one of these patterns."""
    fits, book, found, seen = _fits(topics), KeyDictionary(), set[str](), set[str]()
    for batch in batches:
        book.codes(batch.column("key"))
        others = np.flatnonzero(~are_commits(batch.column("key")))
        if len(others):
            rows = plain(batch.take(pa.array(others))).to_pylist()
            pairs = list(_topics_of(rows))
            seen.update(group for group, _ in pairs)
            found.update(group for group, topic in pairs if fits.match(topic))
        if book.full:
            found |= _committing(book, fits)
            seen.update(book.groups)
            book.clear()
    found |= _committing(book, fits)
    return {group: group in found for group in sorted(seen.union(book.groups, found))}


def _committing(book: KeyDictionary, fits: re.Pattern[str]) -> set[str]:
    groups, topics = list(book.groups), list(book.topics)
    chosen = np.array([*(bool(fits.match(topic)) for topic in topics), False], np.bool_)
    return {groups[code] for code in np.unique(book.group[chosen[book.topic]]).tolist() if code >= 0}


def _topics_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Pairs of a group and a topic of its members' subscriptions, in raw records that are no commits."""
    for raw in rows:
        record = decode_record(raw["key"], raw["value"])
        row = generation_row(raw, record)
        if row is not None:
            yield from ((row["group_id"], topic) for member in row["members"] for topic in member["topics"] or ())
        elif (other := modern_row(raw, record)) is not None and other["value"]:
            value = other["value"]
            listed = value.get("subscribed_topic_names") or ()
            matched = (value.get("topics") or ()) if other["record_type"] == _PATTERN else ()
            yield from ((other["group_id"], topic) for topic in (*listed, *matched))


def _fits(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns))
