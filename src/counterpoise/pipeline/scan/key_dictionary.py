"""A dictionary of commit keys: each distinct key is decoded once per task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from counterpoise.model.problem import Int32
from counterpoise.pipeline.records.commits import binary_column, coded_commits, strings
from counterpoise.pipeline.records.place import without_place
from counterpoise.wire.offsets_topic.batch import CommitBatch, decode_commits
from counterpoise.wire.offsets_topic.batch_keys import KeyColumns, decode_keys
from counterpoise.wire.offsets_topic.keys import RecordType
from counterpoise.wire.offsets_topic.records import Fault

__all__ = ["KeyDictionary"]

_MOST = 200_000
"""Maximal number of keys (some 60 bytes each), so that memory does not grow with the capture."""


class KeyDictionary:
    """Codes of keys, and columns by code; `fitting` returns for names of groups whether each is audited (default: all are)."""

    def __init__(self, fitting: Callable[[Iterable[str]], list[bool]] | None = None) -> None:
        self._fitting = fitting
        self.clear()

    def clear(self) -> None:
        """Remove all keys; codes begin at 0 again."""
        self._raw = pa.array([], pa.binary())
        self.columns = decode_keys(binary_column(pa.array([], pa.binary())))  # by code, without the names
        self.group, self.topic = np.zeros(0, np.int32), np.zeros(0, np.int32)  # by code; -1: no commit key, or damaged
        self.chosen = np.zeros(0, np.bool_)  # by code: whether it is a valid commit key of an audited group
        self._fits: list[bool] = []
        self.groups: dict[str, int] = {}  # name -> code in `group`
        self.topics: dict[str, int] = {}  # name -> code in `topic`

    def __len__(self) -> int:
        return len(self.group)

    @property
    def full(self) -> bool:
        """Whether it holds so many keys that the caller shall `clear` it."""
        return len(self) > _MOST

    def codes(self, keys: pa.Array) -> Int32:
        """The code of each row's key, -1 for a null; keys as bytes, of Arrow's large type too, or as a dictionary of them."""
        if not pa.types.is_dictionary(keys.type):
            return self._codes_of(keys.cast(pa.binary()))
        at = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(at + 1, minlength=len(keys.dictionary) + 1)[1:])
        raw = keys.dictionary.take(pa.array(used)).cast(pa.binary())
        code = np.full(len(keys.dictionary) + 1, -1, np.int32)  # the last one is for nulls
        code[used] = self._codes_of(raw)
        return np.asarray(code[at])

    def commits(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, CommitBatch]:
        """The commits of a batch of raw records as rows of `CODED_COLUMNS`, and the result of the kernel.

        Other records, damaged commits and records without a place in the log are in `rest` of the kernel's result.
        """
        codes, values = self.codes(batch.column("key")).copy(), binary_column(batch.column("value").cast(pa.binary()))
        codes[without_place(batch)] = -1  # no table can show when such a record was written
        decoded = decode_commits(self.columns, codes, values)
        return coded_commits(batch, self._names(decoded.key), values, decoded), decoded

    def _names(self, key: Int32) -> list[pa.Array]:
        """Columns ``group_id, topic, partition`` of keys; names as a dictionary of those that occur."""
        columns = []
        for code, names in ((self.group[key], self.groups), (self.topic[key], self.topics)):
            used = np.flatnonzero(np.bincount(code, minlength=len(names)))
            place = np.zeros(len(names), np.int32)
            place[used] = np.arange(len(used), dtype=np.int32)
            listed = pa.array(list(names), pa.string()).take(pa.array(used))
            columns.append(pa.DictionaryArray.from_arrays(pa.array(place[code]), listed))
        return [*columns, pa.array(self.columns.partition[key])]

    def _codes_of(self, raw: pa.Array) -> Int32:
        """Codes of keys as bytes: Arrow appends new keys to the dictionary of known ones."""
        if not len(raw):
            return np.zeros(0, np.int32)
        encoded = pa.chunked_array([self._raw, raw], pa.binary()).dictionary_encode().chunks[-1]  # an empty one is left out
        if len(encoded.dictionary) > len(self):
            self._raw = encoded.dictionary
            self._add(self._raw.slice(len(self)))
        return np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False))

    def _add(self, raw: pa.Array) -> None:
        """Decode and add new keys, in the order of their codes."""
        column = binary_column(raw)
        new = decode_keys(column)
        sound = (new.fault == Fault.NONE) & (new.record_type >= 0) & (new.record_type <= RecordType.OFFSET_COMMIT)
        group = _codes(strings(column.data, new.group_start, new.group_length), sound, self.groups)
        topic = _codes(strings(column.data, new.topic_start, new.topic_length), sound, self.topics)
        fresh = list(self.groups)[len(self._fits) :]
        self._fits += [True] * len(fresh) if self._fitting is None else self._fitting(fresh)
        kept = ("record_type", "fault", "partition")
        of: dict[str, Any] = {name: np.concatenate((getattr(self.columns, name), getattr(new, name))) for name in kept}
        zeros = np.broadcast_to(np.int64(0), len(self) + len(raw))  # the bytes of the names are in this batch only
        self.columns = KeyColumns(**of, group_start=zeros, group_length=zeros, topic_start=zeros, topic_length=zeros)
        self.group, self.topic = np.concatenate((self.group, group)), np.concatenate((self.topic, topic))
        self.chosen = np.concatenate((self.chosen, np.array([*self._fits, False], np.bool_)[group]))


def _codes(names: pa.StringArray, sound: npt.NDArray[np.bool_], known: dict[str, int]) -> Int32:
    encoded = names.filter(pa.array(sound)).dictionary_encode()
    of_name = np.array([known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()], np.int32)
    code = np.full(len(sound), -1, np.int32)
    code[sound] = of_name[encoded.indices.to_numpy()] if len(of_name) else -1
    return code
