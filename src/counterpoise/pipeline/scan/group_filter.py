"""The filter of groups: by patterns of their names, and by the topics that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.records.group_records import generation_row, modern_row
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.scan.read import are_commits, without_dictionaries
from counterpoise.wire.offsets_topic.records import decode_record

__all__ = ["GroupFilter", "groups_of_topics"]

_PATTERN = 16
"""Type of the record that lists the topics that match a subscribed pattern."""


@dataclass(frozen=True)
class GroupFilter:
    """The groups that are audited."""

    patterns: tuple[str, ...] = ()  # Shell patterns; a name must match one of them. Empty: every name matches.
    names: frozenset[str] | None = None  # Groups that use a topic of `AuditScope.topics`; None: topics are not filtered

    def fitting(self, groups: Iterable[str]) -> list[bool]:
        """Whether each group is audited."""
        fits = _fits(self.patterns) if self.patterns else None
        names = self.names
        return [(fits is None or bool(fits.match(one))) and (names is None or one in names) for one in groups]


def groups_of_topics(batches: Iterable[pa.RecordBatch], topics: Sequence[str]) -> dict[str, bool]:
    """Group of the raw records -> whether it commits for, subscribes to or owns a topic that matches one of these patterns."""
    fits, keys, matching, groups = _fits(topics), KeyDictionary(), set[str](), set[str]()
    for batch in batches:
        keys.codes(batch.column("key"))
        group_records = np.flatnonzero(~are_commits(batch.column("key")))
        if len(group_records):
            rows = without_dictionaries(batch.take(pa.array(group_records))).to_pylist()
            pairs = list(_topics_of(rows))
            groups.update(group for group, _ in pairs)
            matching.update(group for group, used in pairs if any(map(fits.match, used)))
        if keys.full:
            matching |= _committing(keys, fits)
            groups.update(keys.groups)
            keys.clear()
    matching |= _committing(keys, fits)
    return {group: group in matching for group in sorted(groups.union(keys.groups, matching))}


def _committing(keys: KeyDictionary, fits: re.Pattern[str]) -> set[str]:
    """The groups with a commit key of a matching topic."""
    groups, topics = list(keys.groups), list(keys.topics)
    matches = np.array([*(bool(fits.match(topic)) for topic in topics), False], np.bool_)
    return {groups[code] for code in np.unique(keys.group[matches[keys.topic]]).tolist() if code >= 0}


def _topics_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the group of each raw group record, and the topics to which members subscribe by this record."""
    for raw in rows:
        record = decode_record(raw["key"], raw["value"])
        row = generation_row(raw, record)
        if row is not None:
            yield row["group_id"], [topic for member in row["members"] for topic in member["topics"] or ()]
        elif (other := modern_row(raw, record)) is not None:
            value = other["value"] or {}
            matched = (value.get("topics") or ()) if other["record_type"] == _PATTERN else ()
            yield other["group_id"], [*(value.get("subscribed_topic_names") or ()), *matched]


def _fits(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns))
