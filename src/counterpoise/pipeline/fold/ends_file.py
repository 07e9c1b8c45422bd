"""A file of samples of log ends, sorted by log and time. Tasks map it into memory; an update appends to it in place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa

from counterpoise.errors import CaptureError
from counterpoise.model.arrays import ranges, ranks_in_runs
from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import last_at, last_of_runs, run_starts, slices, widened
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.scan.read import Window
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.source.parquet_rows import time_spans
from counterpoise.pipeline.storage.files import absolute, download, is_local, join, read_bytes, upload, write_bytes

__all__ = ["END", "START", "TIME", "EndsFile", "samples_of", "with_samples"]

TIME, START, END = range(3)
_WIDTH = 3
_AT_ONCE = 1 << 20
_LIVES = ("life_log", "life_at", "life_number")
_ARRAYS = ("first", "count", "room", *_LIVES, "instants", "conflicting")


@dataclass(frozen=True)
class EndsFile:
    """The index of a file of samples: rows of three int64 (time in microseconds, start, end), one per log and time."""

    file: str
    logs: tuple[tuple[str, int], ...]
    # For each log, its first row, its number of rows, and the number of rows reserved for it
    first: Int64
    count: Int64
    room: Int64
    # One row per life of a log (see `log_ends`): the log, the place of its first sample in the log, and its number from 0
    life_log: Int64
    life_at: Int64
    life_number: Int64
    instants: Int64  # Times of samples, ascending
    conflicting: Int64  # Times at which a log has several samples with different ends, one entry per log; the largest end counts
    upload_to: str = field(default="", kw_only=True)  # Where `share` uploads the file of samples; empty: beside the index
    local_rows: Int64 | None = field(
        default=None, kw_only=True, compare=False, repr=False
    )  # The rows of a local copy of `file`, if that is on a store

    @classmethod
    def empty(cls) -> EndsFile:
        """An index without samples and without a file."""
        nothing = np.zeros(0, np.int64)
        return cls("", (), *[nothing] * len(_ARRAYS))

    def rows(self, mode: Literal["r", "r+"] = "r") -> Int64:
        """The rows of the file, mapped into memory (`mode` as in `numpy.memmap`); of a file on a store, a local copy."""
        if not self.file:
            return np.zeros((1, _WIDTH), np.int64)
        rows = np.asarray(np.memmap(self.file, np.int64, mode) if self.local_rows is None else self.local_rows.view())
        rows.flags.writeable = mode == "r+"
        return rows.reshape(-1, _WIDTH)

    def up_to(self, moment: int) -> EndsFile:
        """The index without samples after a time."""
        count = last_at(self.rows()[:, TIME], self.first, self.first + self.count, np.full(len(self.first), moment))
        count = np.where(count < 0, 0, count - self.first + 1)
        stay = self.life_at < count[self.life_log]
        lives = {name: getattr(self, name)[stay] for name in _LIVES}
        instants, conflicting = (times[times <= moment] for times in (self.instants, self.conflicting))
        return replace(self, count=count, instants=instants, conflicting=conflicting, **lives)

    def lives_of_topics(self) -> dict[str, int]:
        """Topic with samples -> how often it was recreated."""
        lives: dict[str, int] = {}
        for log, number in zip(self.life_log.tolist(), self.life_number.tolist(), strict=True):
            topic = self.logs[log][0]
            lives[topic] = max(lives.get(topic, 0), number)
        return lives

    def ids_at_end(self, files: CaptureFiles, until: int | None) -> Mapping[str, str] | None:
        """The id of each topic at the end of the window, `until`; without topics whose id is unknown.

        A capture has the ids at the end of the recording. They are returned if no sample is later than `until`, or if it is None.
        Otherwise only topics that were recreated within the window have an id: the newest one, which is wrong if the topic was
        recreated again after the window.
        """
        if files.topic_ids is None or until is None:
            return files.topic_ids
        spans = chain.from_iterable(time_spans(files.ends, "sampled_at"))
        if not any(span is None or span[1] > until for span in spans):
            return files.topic_ids
        lives = self.lives_of_topics()
        return {topic: one for topic, one in files.topic_ids.items() if lives.get(topic)}

    def save(self, place: str) -> None:
        """Write the index; the samples stay in their file."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        write_bytes(place, json.dumps({"file": self.file, "logs": self.logs, **arrays}).encode())

    def share(self, folder: str) -> str:
        """Write the index for tasks, and upload the samples if `folder` is in an object store. Returns the path."""
        name, shared = f"ends-{uuid4().hex}", self
        if self.file and not is_local(folder):
            shared = replace(self, file=self.upload_to or join(folder, f"{name}.bin"))
            upload(shared.file, pa.BufferReader(pa.py_buffer(self.rows())))
        place = join(folder, f"{name}.json")
        shared.save(place)
        return place

    @classmethod
    def load(cls, place: str, file: str | None = None) -> EndsFile:
        """Read an index; the samples are in `file` if it is given."""
        about = json.loads(read_bytes(place))
        file = file or about["file"]
        local_rows = _local_copy(file) if file and not is_local(file) else None
        logs = tuple((topic, partition) for topic, partition in about["logs"])
        return cls(file and absolute(file), logs, *(np.array(about[name], np.int64) for name in _ARRAYS), local_rows=local_rows)


@lru_cache(maxsize=8)
def _local_copy(uri: str) -> Int64:
    """The content of a file on an object store, in an unnamed local file that is mapped into memory.

    The copy exists as long as an array that maps it. A process caches its last 8 copies for its next tasks.
    """
    with TemporaryFile() as scratch:
        download(uri, scratch)
        scratch.flush()
        return np.memmap(scratch, np.int64, "r+")


def samples_of(
    files: CaptureFiles,
    new_file: str,
    window: Window = (None, None),
    previous: EndsFile | None = None,
    previous_until: int | None = None,
) -> EndsFile:
    """All samples of a capture, in a file on this machine, `new_file` if a new one is needed.

    Samples outside `window` are skipped. `previous`: the index of the previous update, with samples up to `previous_until`
    (microseconds). Later samples are appended as in `with_samples`.
    """
    if not files.ends:
        return EndsFile.empty()
    if previous is None or not previous.logs:
        previous, previous_until = EndsFile.empty(), None
    since, until = window
    first = [at for at in (previous_until, None if since is None else since - 1) if at is not None]
    return with_samples(previous, NewSamples(files.ends, max(first, default=None), until), new_file)


def with_samples(before: EndsFile, new: NewSamples, new_file: str) -> EndsFile:
    """`before` with new samples, which are all later.

    New rows are written to the reserved rows of its file, or all rows to `new_file`, if these are too few.
    """
    work = _SampleWriter(before, new, new_file)
    for table in new.tables():
        work.add(table)
    return work.finish(new.instants)


class _SampleWriter:
    """Appends the samples `new` to the rows of their logs.

    `new_file` is created if there is not enough room. Samples before `new.oldest` may be dropped, because the capture has
    dropped them.
    """

    def __init__(self, before: EndsFile, new: NewSamples, new_file: str) -> None:
        self._number = {log: at for at, log in enumerate(before.logs)}
        number = np.array([self._number.setdefault(log, len(self._number)) for log in new.logs], np.int64)
        grown = np.zeros(len(self._number), np.int64)
        grown[number] = new.counts
        first, count, room = (widened(column, len(grown)) for column in (before.first, before.count, before.room))
        now = replace(before, logs=tuple(self._number), first=first, count=count, room=room)
        if (now.count + grown > now.room).any():
            now = _larger_file(now, grown, Path(new_file), new.oldest)
        self._now, self._base, self._count = now, now.count, now.count.copy()
        self._mixed: set[int] = set()
        self._rows: Any = now.rows("r+")

    def add(self, table: pa.Table) -> None:
        """Add rows of ``topic, partition, log_start, log_end, us``."""
        topic = table["topic"].combine_chunks()
        code = (topic.indices.to_numpy().astype(np.int64) << 32) + table["partition"].to_numpy()
        different, of_row = np.unique(code, return_inverse=True)
        names = topic.dictionary.to_pylist()
        topic_of, partition_of = different + (1 << 31) >> 32, (different + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
        logs = zip(map(names.__getitem__, topic_of.tolist()), partition_of.tolist(), strict=True)
        log = np.array([self._number[one] for one in logs], np.int64)[of_row]
        samples = np.stack([table[name].to_numpy() for name in ("us", "log_start", "log_end")], axis=1)
        order = np.lexsort((samples[:, START], samples[:, END], samples[:, TIME], log))
        log, samples = log[order], samples[order]
        begins = run_starts(log)
        mine = log[begins]
        size = np.diff(np.append(begins, len(log)))
        at = self._now.first[mine] + self._count[mine]
        fresh = self._count[mine] > self._base[mine]
        self._mixed.update(mine[fresh & (self._rows[at - 1, TIME] >= samples[begins, TIME])].tolist())
        self._rows[np.repeat(at - begins, size) + np.arange(len(log))] = samples
        self._count[mine] += size

    def finish(self, instants: Int64) -> EndsFile:
        """The index with all added samples."""
        for log in sorted(self._mixed):
            first = int(self._now.first[log])
            part = self._rows[first + int(self._base[log]) : first + int(self._count[log])]
            part[:] = part[np.lexsort((part[:, START], part[:, END], part[:, TIME]))]
        conflicting = np.concatenate((self._now.conflicting, self._deduplicate()))
        whole = replace(self._now, count=self._count, instants=np.union1d(self._now.instants, instants), conflicting=conflicting)
        return _with_lives(whole, sorted(self._recreated()))

    def _deduplicate(self) -> Int64:
        """Keep one new sample per log and time: the last one, with the largest end. Returns the times of samples that differ."""
        first, base, conflicting = self._now.first, self._base, [np.zeros(0, np.int64)]
        for part in slices(self._count - base, _AT_ONCE):
            begin = first[part] + base[part]
            row = ranges(begin, np.maximum(first[part] + self._count[part] - 1 - begin, 0))
            again = row[self._rows[row, TIME] == self._rows[row + 1, TIME]]
            log = np.searchsorted(first, again, "right") - 1
            differ = (self._rows[again, START:] != self._rows[again + 1, START:]).any(axis=1)
            places = set(zip(log[differ].tolist(), self._rows[again[differ], TIME].tolist(), strict=True))
            conflicting.append(np.array(sorted(at for _, at in places), np.int64))
            logs, begins = np.unique(log, return_index=True)
            for one, dropped in zip(logs.tolist(), np.split(again, begins[1:]), strict=False):  # one empty part without a log
                start, count = int(first[one] + base[one]), int(self._count[one] - base[one])
                stay = np.delete(self._rows[start : start + count], dropped - start, axis=0)
                self._rows[start : start + len(stay)] = stay
                self._count[one] = base[one] + len(stay)
        return np.concatenate(conflicting)

    def _recreated(self) -> set[tuple[int, int]]:
        """Log and place of new samples that begin a life. If one log of a topic shrank, all its logs begin a life."""
        first, base, count = self._now.first, self._base, self._count
        recreated: set[tuple[str, int]] = set()
        for part in slices(count - base, _AT_ONCE):
            begin = first[part] + np.maximum(base[part], 1)
            row = ranges(begin, np.maximum(first[part] + count[part] - begin, 0))
            shrunk = row[self._rows[row, END] < self._rows[row - 1, END]]
            log = np.searchsorted(first, shrunk, "right") - 1
            times = self._rows[shrunk, TIME].tolist()
            recreated.update((self._now.logs[one][0], at) for one, at in zip(log.tolist(), times, strict=True))
        places: set[tuple[int, int]] = set()
        time = self._rows[:, TIME]
        logs_of: dict[str, list[int]] = {}
        for number, (topic, _) in enumerate(self._now.logs if recreated else ()):
            logs_of.setdefault(topic, []).append(number)
        for topic, at in sorted(recreated):
            logs = np.array(logs_of[topic], np.int64)
            after = first[logs] + count[logs]
            low, high = (last_at(time, first[logs], after, np.full(len(logs), moment)) for moment in (at - 1, at))
            low = np.where(low < 0, first[logs] - 1, low)
            for log, begin, end in zip(logs.tolist(), (low + 1).tolist(), high.tolist(), strict=True):
                places.update((log, row - int(first[log])) for row in range(begin, end + 1))
        return places


def _with_lives(whole: EndsFile, recreated: list[tuple[int, int]]) -> EndsFile:
    """The index with the first lives of new logs, and with lives that begin at the places `recreated`."""
    known = np.zeros(len(whole.first), np.bool_)
    known[whole.life_log] = True
    new = np.flatnonzero(~known & (whole.count > 0))
    zeros = np.zeros_like(new)
    log, at, number = (
        np.concatenate(pair) for pair in ((whole.life_log, new), (whole.life_at, zeros), (whole.life_number, zeros))
    )
    newest = np.zeros(len(known), np.int64)
    np.maximum.at(newest, log, number)
    again, place = np.array(recreated, np.int64).reshape(-1, 2).T
    rank = ranks_in_runs(np.diff(np.append(run_starts(again), len(again))))
    more = np.stack((again, place, newest[again] + 1 + rank))
    lives = np.concatenate((np.stack((log, at, number)), more), axis=1)
    lives = lives[:, np.lexsort(lives[::-1])]
    last = last_of_runs(*lives[:2])  # a life that begins at place 0 was counted twice
    return replace(whole, **dict(zip(_LIVES, lives[:, last], strict=True)))


def _larger_file(now: EndsFile, grown: Int64, place: Path, oldest: int | None) -> EndsFile:
    """A new file with room for `grown` more samples per log and a quarter beyond, without samples before `oldest`."""
    dropped = np.zeros(len(now.first), np.int64)
    rows = now.rows()
    if oldest is not None:
        last = last_at(rows[:, TIME], now.first, now.first + now.count, np.full(len(dropped), oldest - 1))
        dropped = np.where(last < 0, 0, last - now.first + 1)
    count = now.count - dropped
    room = (count + grown) + (count + grown) // 4 + 16
    first = np.cumsum(room) - room
    place.parent.mkdir(parents=True, exist_ok=True)
    _reserve(place, (int(room.sum()) + 1) * _WIDTH * 8)
    into: Any = np.memmap(place, np.int64, "r+").reshape(-1, _WIDTH)
    for part in slices(count, _AT_ONCE):
        from_, to = now.first[part] + dropped[part], first[part]
        into[ranges(to, count[part])] = rows[ranges(from_, count[part])]
    into.flush()
    at = np.maximum(now.life_at - dropped[now.life_log], 0)
    stays = (at < count[now.life_log]) & (last_of_runs(now.life_log) | (np.append(at[1:], 0)[: len(at)] > 0))
    now = replace(now, life_log=now.life_log[stays], life_at=at[stays], life_number=now.life_number[stays])
    instants = now.instants if oldest is None else now.instants[now.instants >= oldest]
    return replace(now, file=str(place), local_rows=None, first=first, count=count, room=room, instants=instants)


def _reserve(place: Path, size: int) -> None:
    """Create a file of `size` bytes. A full disk raises an error here; writing to mapped memory would kill the process."""
    try:
        with place.open("wb") as out:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(out.fileno(), 0, size)
            else:
                out.truncate(size)
    except OSError as error:
        words = f"{error.strerror}; samples of log ends need {size / 1e6:.0f} MB there; give another --out, or make room"
        raise CaptureError(f"{place.parent}: {words}") from error
