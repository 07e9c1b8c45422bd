"""All that is known of a bucket's groups without asking a strategy: their records and steps, lag, stops and counts of commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.direct.commits.sums_file import bucket_parts
from counterpoise.pipeline.direct.files.by_day import ByDay
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile
from counterpoise.pipeline.direct.groups.folding import Folded, Folding
from counterpoise.pipeline.direct.groups.group_sums import GroupStops, LagNow
from counterpoise.pipeline.direct.groups.handed_on import HandedOn
from counterpoise.pipeline.direct.groups.rest import in_log_order
from counterpoise.pipeline.direct.groups.slices import Slices
from counterpoise.pipeline.direct.lag.asked_lag import ASKED, AskedLag
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS, lag_rows
from counterpoise.pipeline.direct.lag.mapped_lives import lives_in
from counterpoise.pipeline.direct.lag.sampled import Sampled
from counterpoise.pipeline.direct.report.reporting import PARTS
from counterpoise.pipeline.direct.tasks import give_back
from counterpoise.pipeline.source.choice import Reset

__all__ = ["KnownOfGroups", "OfCluster", "judge_buckets"]


@dataclass(frozen=True)
class OfCluster:
    """What a task needs of one cluster.

    Attributes
    ----------
    name, folder : str
        Whose, and where files go.
    rest, sums : Marked
        As `decoding.decode_piece` told.
    sampled : Sampled
    names : mapping
        Topic id -> name.
    reset : "earliest" or "latest", optional
        As for `lag_rows`.
    salt : str, optional
        Names in tables are hashed with it.
    """

    name: str
    folder: str
    rest: Marked
    sums: Marked
    sampled: Sampled
    names: Mapping[str, str]
    reset: Reset | None = None
    salt: str | None = None


def judge_buckets(of: OfCluster, buckets: Sequence[int]) -> dict[str, Any]:
    """Write files of the tables up to `partition_lag` by day, and of the lag that replays may ask for.

    Returns
    -------
    dict
        What the task tells.
    """
    lives = lives_in(of.sampled.ends)
    until: int | None = None
    instants = np.array(of.sampled.instants, np.int64)
    with (
        Folding(of.folder, of.names, of.salt) as folding,
        ByDay(of.folder, "lag", LAG_COLUMNS, ("at",), ("committed",), salt=of.salt) as lag,
        MarkedFile(of.folder, "asked", ASKED) as asked,
        MarkedFile(of.folder, "groups", PARTS) as groups,
        HandedOn(of.folder) as handed,
    ):
        for number in buckets:
            give_back()  # or each bucket finds a heap that the one before has torn, and makes it larger
            folded = folding.fold(in_log_order(of.rest, number), handed.of_bucket(number))
            handed.settle(number)
            found, now = KnownOfGroups(folded), LagNow()
            with Slices(of.folder, bucket_parts(of.sums, number), folded, instants, of.sampled.width) as slices:
                for stopped in slices.stops():
                    found.add(stopped)
                wanted = AskedLag(folded.generations, instants)
                for at in range(len(slices)):
                    for rows in lag_rows(slices.bucket(at), lives, of.sampled.now_ids, of.reset):
                        now.add(rows.newest())
                        lag.write(rows.rows, rows.time)
                        asked.write(wanted.of(rows.rows), number)
            groups.write(found.parts(slices.counted, now), number)
            last = pc.max(slices.counted["log_ts"].cast(pa.int64())).as_py()
            until = max((at for at in (until, last) if at is not None), default=None)
    about: dict[str, Any] = {"lag": {"days": lag.files, "rows": lag.rows}}
    about |= {"first": lag.first, "last": lag.last}
    about |= {"asked": [asked.file, asked.marks], "groups": [groups.file, groups.marks], "last_commit": until}
    about["handed"] = handed.told
    return {**folding.told, **about}


class KnownOfGroups:
    """What is known of a bucket's groups before strategies are asked.

    Parameters
    ----------
    folded : Folded
    """

    def __init__(self, folded: Folded) -> None:
        self._folded, self._stops, self._silent = folded, GroupStops(), folded.kicks.silent()

    def add(self, stopped: pa.RecordBatch) -> None:
        """Rows of `stop_rows.stop_rows` for some partitions, all there are of each."""
        self._stops.add(stopped)
        self._silent.add(stopped)

    def parts(self, counted: pa.Table, now: LagNow) -> pa.Table:
        """A row per group, with `counts_of` its commits and its newest lag."""
        rows: dict[str, dict[str, Any]] = {}
        parts = [self._folded.figures.items(), ((row["group_id"], row) for row in counted.to_pylist())]
        for group, figures in chain(*parts, self._stops.groups(), self._silent.groups()):
            rows.setdefault(group, {"group_id": group}).update(figures)
        for group, figures in now.groups():
            if group in rows:
                rows[group].update(figures)
        for group, row in rows.items():
            if row.get("committed_partitions") is None:  # stops are told between steps: of a group without any there are none
                row["committed_partitions"] = now.committed(group)
        return pa.Table.from_pylist([rows[group] for group in sorted(rows)], schema=PARTS)
