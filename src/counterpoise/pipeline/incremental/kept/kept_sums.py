"""The commits of a bucket as an audit leaves them for the next: summed up as far as nobody will look between them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import NEVER, Marks, Sums, mark_counts, summed
from counterpoise.pipeline.direct.commits.sums_file import read_bucket
from counterpoise.pipeline.direct.files.buckets import bucket_of
from counterpoise.pipeline.direct.groups.bucket import Bucket
from counterpoise.pipeline.direct.groups.held import coded
from counterpoise.pipeline.incremental.kept.kept_file import KeptFile

__all__ = ["SUMS", "compacted", "single_sums", "tail_of"]

SUMS = read_bucket((), 0).schema
_COLUMNS = ["group_id", "topic", "partition", "topic_id", "deleted", "log_ts", "log_partition", "log_offset", "committed_offset"]
_MICROS = pa.timestamp("us", tz="UTC")
Bool = npt.NDArray[np.bool_]


def tail_of(file: str, after: int | None, aborted: str | None, folder: str) -> dict[str, Any]:
    """Write the commits in a file of `offset_commits` that are later than `after` (None: all), one by one, by bucket: a sample of
    log ends that comes later may fall between them.
    """
    wanted = None if after is None else ds.field("log_ts") > pa.scalar(after, pa.int64()).cast(_MICROS)
    rows = single_sums(ds.dataset(file, format="parquet").to_table(columns=_COLUMNS, filter=wanted), aborted)
    with KeptFile(folder, "tail", SUMS) as out:
        group, names = coded(rows["group_id"])
        bucket = np.array([*(bucket_of(name.encode()) for name in names), 0], np.int64)[group]
        for number in sorted(set(bucket.tolist())):
            out.write(rows.filter(pa.array(bucket == number)), number)
    return {"tail": out.told}


def single_sums(commits: pa.Table, aborted: str | None) -> pa.Table:
    """Rows of `offset_commits` as sums of one commit each; without those that never took effect."""
    pairs = json.loads(Path(aborted).read_bytes()) if aborted is not None else []
    if pairs:
        never = {(int(partition), int(offset)) for partition, offset in pairs}
        near = pc.is_in(commits["log_offset"], pa.array(sorted({offset for _, offset in never}), pa.int64()))
        suspects = np.flatnonzero(near.to_numpy())
        places = zip(*(commits[name].take(suspects).to_pylist() for name in ("log_partition", "log_offset")), strict=True)
        gone = [row for row, place in zip(suspects.tolist(), places, strict=True) if place in never]
        keep = np.ones(len(commits), np.bool_)
        keep[gone] = False
        commits = commits.filter(pa.array(keep))
    deleted = commits["deleted"].to_numpy()
    at, offset = commits["log_ts"].cast(_MICROS).cast(pa.int64()).to_numpy(), commits["log_offset"].to_numpy()
    committed = np.where(deleted, -1, commits["committed_offset"].fill_null(-1).to_numpy())
    live = (~deleted).astype(np.int64)
    numbers = {"ts": at, "offset": offset, "committed": committed, "max_ts": at, "live": live, "dead": 1 - live}
    numbers |= {"live_ts": np.where(deleted, NEVER, at), "live_offset": np.where(deleted, NEVER, offset)}
    numbers["live_until"] = np.where(deleted, -NEVER, at)
    columns = [commits[name] if name in _COLUMNS[:5] else pa.array(numbers[name]) for name in SUMS.names]
    return pa.table(columns, names=SUMS.names).cast(SUMS)


def compacted(bucket: Bucket, told: pa.Table, until: int | None, left: set[str]) -> pa.Table:
    """The sums of a bucket, but of what lies up to `until` only one row per partition and span between two steps.

    Parameters
    ----------
    bucket : Bucket
        Made of `told`, cut at `until`.
    told : pyarrow.Table
        Rows of `SUMS`.
    until : int, optional
        No sample at or before it will be looked at again, in microseconds; None: all will be.
    left : set of str
        Groups whose steps up to then may still change: theirs stay as they are.

    Notes
    -----
    Neither are those of groups summed up whose times do not rise with their offsets: which commit is the newest then depends on
    where is looked.
    """
    if until is None:
        return told
    sums = bucket.sums
    group = bucket.key_group[sums.key]
    fine = np.array([name not in left for name in bucket.groups], np.bool_)
    fine[group[sums.ts != sums.max_ts]] = False
    falls = (sums.key[1:] == sums.key[:-1]) & (sums.offset[1:] < sums.offset[:-1])
    fine[group[1:][falls]] = False
    old = sums.take(np.flatnonzero((sums.max_ts <= until) & fine[group]))
    marks = Marks.of(bucket.steps.group, bucket.steps.time, bucket.steps.offset)
    old, _ = summed(old, mark_counts(marks, bucket.key_group[old.key], old.ts, old.offset))
    names = pa.array([name for name, is_fine in zip(bucket.groups, fine.tolist(), strict=True) if is_fine], pa.string())
    done = pc.and_(pc.less_equal(told["max_ts"], until), pc.is_in(told["group_id"], names))
    return pa.concat_tables([_table(bucket, old), told.filter(pc.invert(done))])


def _table(bucket: Bucket, rows: Sums) -> pa.Table:
    """Sums with names in the place of codes."""
    columns: dict[str, Any] = {name: pa.array(getattr(rows, name)) for name in SUMS.names[4:]}
    columns["group_id"] = _names(bucket.groups, bucket.key_group[rows.key])
    columns["topic"] = _names(bucket.topics, bucket.key_topic[rows.key])
    columns["partition"] = pa.array(bucket.key_partition[rows.key].astype(np.int32))
    columns["topic_id"] = _names(bucket.ids, rows.topic_id.astype(np.int64))
    return pa.table([columns[name] for name in SUMS.names], names=SUMS.names).cast(SUMS)


def _names(names: list[str], code: Int64) -> pa.Array:
    """Names by code; a null for -1."""
    return pa.array([*names, None], pa.string()).take(pa.array(np.where(code < 0, len(names), code)))
