"""A bucket laid out some partitions at a time gives what it gives as a whole; no more than so many rows are laid out at once."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.direct.groups.commit_counts import counts_of, slim_counts
from counterpoise.pipeline.direct.groups.rest import mark_others
from counterpoise.pipeline.direct.judging import OfCluster, judge_buckets
from counterpoise.pipeline.direct.lag.sampled import sampled_in
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.pipeline.source.layout import local_files
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from tests.pipeline.laid_out import at_once

AT_ONCE = 300


@dataclass(frozen=True)
class Split:
    """A capture decoded, as the tasks that judge are given it."""

    of: OfCluster
    folder: Path

    def judged(self, name: str) -> dict[str, Any]:
        """Rows of everything that is written, sorted."""
        out = self.folder / name
        told = judge_buckets(replace(self.of, folder=str(out)), range(BUCKETS))
        files: dict[str, Sequence[str]] = {table: list(about["days"].values()) for table, about in told["tables"].items()}
        files["partition_lag"] = list(told["lag"]["days"].values())
        files |= {kind: [told[kind][0]] for kind in ("asked", "groups") if told[kind][0]}
        left = sorted(str(path) for path in out.rglob("part-*") if path.stat().st_size)
        assert left == sorted(file for listed in [*files.values(), [told["handed"][0]]] for file in listed)
        return {kind: rows_of(listed) for kind, listed in files.items() if listed}


def rows_of(files: Sequence[str]) -> Any:
    parts = [pq.read_table(file) if file.endswith(".parquet") else pa.ipc.open_file(file).read_all() for file in files]
    table = pa.concat_tables(parts)
    if any(pa.types.is_nested(field.type) for field in table.schema):
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())
    return table.sort_by([(name, "ascending") for name in table.schema.names])


def split(capture: Path, out: Path) -> Split:
    file = capture / "consumer_offsets.parquet"
    local = local_files(file, capture)
    sampled = sampled_in(local, str(out))
    half = pq.read_metadata(file).num_row_groups // 2
    pieces = [Piece("c", ((str(file), groups),)) for groups in (tuple(range(half)), tuple(range(half, 2 * half))) if groups]
    assert pieces
    marks = tuple(mark_others(piece, str(out))["marks"] for piece in pieces)
    wanted = Wanted(str(out), marks, sampled.instants, sampled.width)
    told = [decode_piece(piece, wanted) for piece in reversed(pieces)]  # later files hold earlier records too
    rest = [(about["rest"], about["buckets"]) for about in told]
    sums = [pair for about in told for pair in about["sums"].items()]
    names = {one: name for about in told for one, name in about["names"]}
    return Split(OfCluster("c", str(out), rest, sums, sampled, names), out)


@pytest.fixture(scope="module", params=["shop", "made up"])
def decoded(request: pytest.FixtureRequest, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A recording with groups of both protocols, and a fleet whose times are whole seconds."""
    out = tmp_path_factory.mktemp("slices")
    return split(in_parts(shop, out) if request.param == "shop" else fleet(out), out)


def in_parts(shop: Path, out: Path) -> Path:
    """The shop in row groups of a few records."""
    place = out / "capture"
    place.mkdir()
    pq.write_table(pq.read_table(shop / "consumer_offsets.parquet"), place / "consumer_offsets.parquet", row_group_size=4_000)
    for name in ("log_offsets.parquet", "topics.json"):
        (place / name).symlink_to(shop / name)
    return place


def fleet(out: Path) -> Path:
    synthesize(Fleet(records=6_000, groups=12, rebalances=90, seconds=900.0, sample_every=60.0, seed=3), out / "capture")
    file = out / "capture" / "consumer_offsets.parquet"
    records = pq.read_table(file)
    seconds = pa.compute.floor_temporal(records["timestamp"], unit="second")
    records = records.set_column(records.schema.get_field_index("timestamp"), "timestamp", seconds)
    pq.write_table(records, file, row_group_size=3_000)
    return out / "capture"


def test_in_slices_everything_is_as_it_is_whole(decoded: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decoded.judged("whole")
    sizes = at_once(monkeypatch, AT_ONCE)
    found = decoded.judged("slices")
    assert {kind for kind in whole if found[kind] != whole[kind]} == set()
    assert {"partition_lag", "asked", "rebalances", "groups"} <= whole.keys()
    # A large bucket is looked at three times: what owners committed, stops, lag.
    assert len(sizes) >= 12
    assert max(sizes) <= AT_ONCE


def test_counts_of_parts_together_are_those_of_all_rows() -> None:
    """Whether the last commit deletes is told by log offsets, which do not rise from part to part."""
    chance = random.Random(4)
    offsets = chance.sample(range(1_000), 400)
    rows: list[dict[str, Any]] = [
        {
            **{name: chance.randrange(50) for name in ("live", "dead", "live_ts", "live_until", "max_ts")},
            "group_id": f"g{at % 8}",
            "deleted": chance.random() < 0.5,
            "offset": offset,
        }
        for at, offset in enumerate(offsets)
    ]
    whole = pa.Table.from_pylist(rows)
    parts = [whole.slice(first, 40) for first in range(0, 400, 40)]
    counts, of_parts = (
        counts_of(rows).sort_by("group_id") for rows in (whole, pa.concat_tables([slim_counts(part) for part in parts]))
    )
    assert of_parts == counts
    last = [max((row for row in rows if row["group_id"] == f"g{at}"), key=lambda row: row["offset"]) for at in range(8)]
    assert counts["commits_gone"].to_pylist() == [row["deleted"] for row in last]
