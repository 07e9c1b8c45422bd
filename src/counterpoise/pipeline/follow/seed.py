"""Figures to begin with, read from the tables of an audit; and the newest sample of log ends of a capture."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from counterpoise.pipeline.follow.events import COMMIT_FIGURES, last_words
from counterpoise.pipeline.follow.folder_source import parquet_files
from counterpoise.pipeline.follow.gauges import End, Now
from counterpoise.pipeline.stored.tables import dataset, folder_of

__all__ = ["Samples", "begin_with"]

_PLACE = ["log_partition", "log_offset"]
_COUNTED = ["group_id", *_PLACE, "log_ts", "kind", "n_moved", "missed_generations"]
_STANDING = ["cluster", *_COUNTED, "protocol_kind", "n_members", "n_idle", "assignment", "left", "n_withheld"]
_ENDS_FILE, _TOPICS_FILE = "log_offsets.parquet", "topics.json"


def begin_with(now: Now, out: Path, cluster: str, aborted: Collection[tuple[int, int]] = ()) -> None:
    """The figures of all groups of a cluster as the tables in `out` have them.

    Notes
    -----
    Of steps all rows are counted, but only the last two of a group are read whole; of commits what is held is the last one per
    partition, however many there are.
    """
    with now.lock:
        for row in _last_steps(now, folder_of(out, "rebalances"), cluster):
            now.stand(row)
    for row in _last_commits(folder_of(out, "offset_commits"), cluster, frozenset(aborted)).to_pylist():
        now.commit(cluster, row)


def _last_steps(now: Now, folder: Path, cluster: str) -> Iterator[dict]:  # type: ignore[type-arg]
    steps = dataset(folder)
    if not steps.files:
        return
    of_cluster = ds.field("cluster") == cluster
    places: dict[str, list[tuple[int, int]]] = {}
    for row in steps.to_table(columns=_COUNTED, filter=of_cluster).to_pylist():
        now.group(cluster, row["group_id"]).count(row)
        places.setdefault(row["group_id"], []).append((row["log_partition"], row["log_offset"]))
    last = {(group, place) for group, all_of_it in places.items() for place in sorted(all_of_it)[-2:]}
    offsets = pa.array(sorted({place[1] for _, place in last}), pa.int64())
    found = steps.to_table(columns=_STANDING, filter=of_cluster & ds.field("log_offset").isin(offsets)).to_pylist()
    rows = [row for row in found if (row["group_id"], (row["log_partition"], row["log_offset"])) in last]
    yield from sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def _last_commits(folder: Path, cluster: str, aborted: frozenset[tuple[int, int]]) -> pa.Table:
    commits = dataset(folder)
    if not commits.files:
        return pa.schema([]).empty_table()
    held = pa.schema([commits.schema.field(name) for name in COMMIT_FIGURES]).empty_table()
    for batch in commits.to_batches(columns=list(COMMIT_FIGURES), filter=ds.field("cluster") == cluster):
        table = pa.Table.from_batches([batch])
        if aborted:
            pairs = zip(*(table[name].to_pylist() for name in _PLACE), strict=True)
            table = table.filter(pa.array([pair not in aborted for pair in pairs], pa.bool_()))
        held = last_words(pa.concat_tables([held, table]))
    return held


class Samples:
    """The newest sample of log ends in a capture folder, looked for when its files have changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[str, ...] = ()

    def newest(self) -> tuple[list[End], dict[str, str]] | None:
        """The log ends and the topics' ids; None when nothing has changed, or nothing is sampled."""
        if not (self._folder / _ENDS_FILE).exists():
            return None
        files = parquet_files(self._folder, _ENDS_FILE)
        names = tuple(f"{file} {file.stat().st_mtime_ns}" for file in files)
        if names == self._seen or not files:
            return None
        self._seen = names
        return _last_sample(files[-1]), self._ids()

    def _ids(self) -> dict[str, str]:
        file = self._folder / _TOPICS_FILE
        known = json.loads(file.read_bytes()) if file.exists() else {}
        return {topic: about["topic_id"] for topic, about in known.items() if about.get("topic_id")}


def _last_sample(file: Path) -> list[End]:
    """The rows of the newest time in a file that is ordered by time: read from its end."""
    columns = ["topic", "partition", "log_start", "log_end", "sampled_at"]
    with pq.ParquetFile(file) as opened:
        parts: list[pa.Table] = []
        newest = None
        for at in reversed(range(opened.num_row_groups)):
            part = opened.read_row_group(at, columns=columns)
            newest = newest or pc.max(part["sampled_at"]).as_py()
            kept = part.filter(pc.equal(part["sampled_at"], pa.scalar(newest, part["sampled_at"].type))).drop_null()
            parts.append(kept)
            if kept.num_rows < part.num_rows:
                break
    found = pa.concat_tables(parts[::-1]) if parts else pa.table({name: [] for name in columns})
    return list(zip(*(found[name].to_pylist() for name in columns[:-1]), strict=True))
