"""What `judging` finds out about a bucket's groups, gone on with: from what the last audit left, and new records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import NEVER
from counterpoise.pipeline.direct.commits.sums_file import bucket_parts
from counterpoise.pipeline.direct.files.by_day import ByDay
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile
from counterpoise.pipeline.direct.groups.bucket import Bucket
from counterpoise.pipeline.direct.groups.group_sums import LagNow
from counterpoise.pipeline.direct.groups.handed_on import HandedOn
from counterpoise.pipeline.direct.groups.rest import group_of, in_log_order, keys_and_times
from counterpoise.pipeline.direct.groups.slices import Slices
from counterpoise.pipeline.direct.judging import KnownOfGroups
from counterpoise.pipeline.direct.lag.asked_lag import ASKED, AskedLag
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS, Found, lag_rows
from counterpoise.pipeline.direct.lag.mapped_lives import lives_in
from counterpoise.pipeline.direct.lag.sampled import Sampled
from counterpoise.pipeline.direct.report.reporting import PARTS
from counterpoise.pipeline.incremental.kept.kept_file import Kept, KeptFile, but_of, kept_parts, kept_rows
from counterpoise.pipeline.incremental.kept.kept_replays import asked_again
from counterpoise.pipeline.incremental.kept.kept_sums import SUMS, compacted, single_sums
from counterpoise.pipeline.incremental.kept.newest_lag import NEWEST, newest_of
from counterpoise.pipeline.incremental.kept.stored_rows import stored_commits, stored_records
from counterpoise.pipeline.incremental.tasks.folding_on import Before, FoldingOn
from counterpoise.pipeline.source.choice import Reset

__all__ = ["News", "judge_on"]


@dataclass(frozen=True)
class News:
    """What a task needs of one cluster.

    Attributes
    ----------
    name, folder, base, out : str
        Whose, where files of this audit alone go, where those go that are left for the next one, and where the tables are.
    rest, sums, tail : Marked
        Of the new records: as `decoding.decode_piece` told, and `kept_sums.tail_of`.
    kept : Kept
        What the last audit left.
    sampled : Sampled
    names : mapping
        Topic id -> name.
    was_settled, settled : int, optional
        Up to which sample rows of `partition_lag` were final after the last audit, and will be after this one; in microseconds.
    aborted : str, optional
        As `decoding.Wanted`.
    anew : frozenset of str
        Topics that were made anew since: which of their commits count is to be told again.
    reset : "earliest" or "latest", optional
        As for `lag_rows`.
    """

    name: str
    folder: str
    base: str
    out: str
    rest: Marked
    sums: Marked
    tail: Marked
    kept: Kept
    sampled: Sampled
    names: Mapping[str, str]
    was_settled: int | None
    settled: int | None
    aborted: str | None
    anew: frozenset[str]
    reset: Reset | None = None


def judge_on(of: News, buckets: Sequence[int]) -> dict[str, Any]:
    """Write files of the tables up to `partition_lag`, what is left for the next audit, and the lag that replays may ask for.

    Returns
    -------
    dict
        What the task tells; `again` are the groups of a bucket that were made again from their stored records.
    """
    lives = lives_in(of.sampled.ends)
    until: int | None = None
    made_again: dict[str, list[str]] = {}
    with (
        FoldingOn(of.folder, of.base, of.name, of.names, of.settled) as folding,
        ByDay(of.folder, "lag", LAG_COLUMNS, ("at",), ("committed",)) as lag,
        ByDay(of.folder, "open-lag", LAG_COLUMNS, ("at",), ("committed",)) as open_lag,
        MarkedFile(of.folder, "asked", ASKED) as asked,
        MarkedFile(of.folder, "groups", PARTS) as groups,
        KeptFile(of.base, "kept", SUMS) as sums,
        KeptFile(of.base, "kept", NEWEST) as newest,
        HandedOn(of.folder) as handed,
    ):
        for number in buckets:
            before = Before.read(of.kept, number)
            again = _again(of, number, before)
            before, records = before.without(again), stored_records(of.out, of.name, again)
            new_records = in_log_order(of.rest, number)
            folded, unsettled = folding.go_on(number, new_records, before, records, handed.of_bucket(number))
            handed.settle(number)
            known, now = KnownOfGroups(folded), LagNow()
            times = [*folded.generations, *asked_again(of.kept, number, of.was_settled, again)]
            wanted = AskedLag(times, np.array(of.sampled.instants, np.int64))
            last = [but_of(kept_rows(of.kept, "newest", NEWEST, number), again)]
            last_final = list(last)
            told = _told(of, number, again)
            with Slices(of.folder, told, folded, _instants(of), of.sampled.width, keep=True) as slices:
                for stopped in slices.stops():
                    known.add(stopped)
                for at in range(len(slices)):
                    bucket = slices.bucket(at)
                    found = _Lag(bucket, _Finals(of, bucket, before.settled, unsettled, again), lag, open_lag)
                    for rows in lag_rows(bucket, lives, of.sampled.now_ids, of.reset, found.since):
                        found.add(rows)
                        asked.write(wanted.of(rows.rows), number)
                    last += found.newest
                    last_final += found.newest_final
                    sums.write(compacted(bucket, slices.told(at), of.was_settled, set(unsettled)), number)
            now.add(newest_of(last))
            newest.write(newest_of(last_final), number)
            groups.write(known.parts(slices.counted, now), number)
            at_last = pc.max(slices.counted["log_ts"].cast(pa.int64())).as_py()
            until = max((one for one in (until, at_last) if one is not None), default=None)
            if again:
                made_again[str(number)] = sorted(again)
    about: dict[str, Any] = {"lag": {"days": lag.files, "rows": lag.rows}, "again": made_again}
    about |= {"asked": [asked.file, asked.marks], "groups": [groups.file, groups.marks], "last_commit": until}
    about["handed"] = handed.told
    steps = folding.told
    steps["open"]["partition_lag"] = {"days": open_lag.files, "rows": open_lag.rows}
    steps["kept"] |= {"sums": sums.told, "newest": newest.told}
    return {**steps, **about}


class _Finals:
    """From when on each group's rows of lag are to be made, and which of them are final then; times per group of a bucket."""

    def __init__(self, of: News, bucket: Bucket, before: Mapping[str, int], now: Mapping[str, int], again: Iterable[str]) -> None:
        was = {**before, **dict.fromkeys(again, -NEVER)}
        usual, will = [-NEVER if one is None else one for one in (of.was_settled, of.settled)]
        self.after: Int64 = np.array([was.get(group, usual) for group in bucket.groups], np.int64)
        self.until: Int64 = np.array([now.get(group, will) for group in bucket.groups], np.int64)


class _Lag:
    """A bucket's rows of `partition_lag`: written as they come, those that may still change apart; of others the newest."""

    def __init__(self, bucket: Bucket, finals: _Finals, out: ByDay, open_: ByDay) -> None:
        self._bucket, self._finals, self._out, self._open = bucket, finals, out, open_
        self.newest: list[pa.RecordBatch] = []
        self.newest_final: list[pa.RecordBatch] = []

    @property
    def since(self) -> Int64:
        """Per group, from when on rows are wanted; those at the last sample that was settled because replays ask for them."""
        return self._finals.after

    def add(self, found: Found) -> None:
        """Rows of some partitions, all there are of each."""
        group = self._bucket.key_group[found.key]
        new = found.known_at > self._finals.after[group]
        final = found.known_at <= self._finals.until[group]
        self.newest.append(found.newest())
        self.newest_final.append(found.newest(final))
        for rows, out in ((new & final, self._out), (new & ~final, self._open)):
            out.write(found.rows.take(pa.array(np.flatnonzero(rows))), found.time[rows])


def _instants(of: News) -> Int64:
    """Where sums are cut: at samples, and at what was a sample when the last audit ended."""
    known = {one for one in (of.was_settled, of.settled) if one is not None}
    return np.array(sorted({*of.sampled.instants, *known}), np.int64)


def _told(of: News, bucket: int, again: set[str]) -> Iterator[pa.Table]:
    """All sums of a bucket, some at a time: of groups that are made again from their stored commits."""
    for part in kept_parts(of.kept, "sums", SUMS, bucket):
        yield but_of(part, again)
    if again:
        yield single_sums(stored_commits(of.out, of.name, again), of.aborted)
    yield from _new_sums(of, bucket)


def _new_sums(of: News, bucket: int) -> Iterator[pa.Table]:
    """The new commits: summed up between samples that are settled, and one by one after them."""
    if of.settled is not None:
        for part in bucket_parts(of.sums, bucket):
            yield part.filter(pc.less_equal(part["max_ts"], of.settled))
    yield from kept_parts(Kept({"tail": of.tail}), "tail", SUMS, bucket)


def _again(of: News, bucket: int, before: Before) -> set[str]:
    """The groups of a bucket that are made again from their beginning: something older than what is final came in, or what
    their steps or lag were made with has changed.
    """
    found = {group for group, (*_, unnamed) in before.states.items() if any(one in of.names for one in unnamed)}
    for part in kept_parts(of.kept, "sums", SUMS, bucket) if of.anew else ():
        known = part.filter(pc.is_in(part["topic"], pa.array(sorted(of.anew), pa.string())))
        found.update(known["group_id"].unique().to_pylist())
    if of.was_settled is None:
        return found
    times: list[tuple[str, int]] = []
    for new in _new_sums(of, bucket):
        first = pc.min_element_wise(new["ts"], new["live_ts"])
        firsts = pa.table({"g": new["group_id"], "at": first}).group_by("g", use_threads=False).aggregate([("at", "min")])
        times += [(row["g"], row["at_min"]) for row in firsts.to_pylist()]
    for rows in keys_and_times(of.rest, bucket):
        pairs = zip(rows["key"].to_pylist(), rows["timestamp"].cast(pa.int64()).to_pylist(), strict=True)
        times += [(group_of(key).decode(errors="replace"), at) for key, at in pairs if at is not None]
    found.update(group for group, at in times if at <= before.settled.get(group, of.was_settled))
    return found
