"""Lag as of each sample, and the silence of partitions around a rebalance."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.model import lag as model_lag
from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.ends_file import EndsFile
from counterpoise.pipeline.fold.ends_file import samples_of as laid_out
from counterpoise.pipeline.fold.group_figures import StopFigures, add_stops
from counterpoise.pipeline.fold.lag import lag_rows
from counterpoise.pipeline.fold.log_ends import mapped_log_ends
from counterpoise.pipeline.fold.ownership import NewSteps
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.stops import Stops, find_stops
from counterpoise.pipeline.scan.aggregation import AGGREGATE_COLUMNS
from counterpoise.pipeline.source.capture import CaptureFiles
from tests.pipeline.conftest import Audited
from tests.pipeline.rows import START

NO_ENDS = mapped_log_ends(EndsFile.empty())


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


Sample = tuple[datetime, int, int, int]
"""Time, start, end, and how often the log had shrunk before."""


def samples_of(shop: Path) -> dict[tuple[str, int], list[Sample]]:
    """Topic and partition -> its samples in order; a topic whose log shrinks anywhere was made anew as a whole."""
    rows = sorted(pq.read_table(shop / "log_offsets.parquet").to_pylist(), key=lambda row: row["sampled_at"])
    ends: dict[tuple[str, int], int] = {}
    anew: dict[str, list[datetime]] = defaultdict(list)
    for row in rows:
        key = (row["topic"], row["partition"])
        if row["log_end"] < ends.get(key, 0) and row["sampled_at"] not in anew[row["topic"]]:
            anew[row["topic"]].append(row["sampled_at"])
        ends[key] = row["log_end"]
    found: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for row in rows:
        life = bisect_right(anew[row["topic"]], row["sampled_at"])
        found[row["topic"], row["partition"]].append((row["sampled_at"], row["log_start"], row["log_end"], life))
    assert sum(map(len, anew.values())) == 1
    return found


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def ends_at(samples: list[Sample], moment: datetime) -> tuple[int, int, bool, int]:
    """Start, end, whether it lies on the line between two samples, and the log's life: looked up one by one."""
    at = bisect_right(samples, moment, key=lambda sample: sample[0]) - 1
    time, start, end, life = samples[at]
    if time == moment:
        return start, end, False, life
    after = samples[at + 1]
    assert after[3] == life
    share = (micros(moment) - micros(time)) / (micros(after[0]) - micros(time))
    return start, end + floor((after[2] - end) * share), True, life


def time_lag(samples: list[Sample], moment: datetime, life: int, committed: int, end: int) -> int | None:
    """How long before `moment` the log had not yet grown beyond `committed`, in milliseconds."""
    if committed >= end:
        return 0
    same = [sample for sample in samples if sample[3] == life]
    below = [at for at, sample in enumerate(same) if sample[2] <= committed]
    if not below:
        return None
    (since, _, low, _), (until, _, high, _) = same[below[-1]], same[below[-1] + 1]
    reached = micros(since) + floor((committed - low) / (high - low) * (micros(until) - micros(since)))
    return max(0, (micros(moment) - reached) // 1000)


def test_rows_equal_the_last_commit_and_the_log_end_of_every_sample_and_step(audited: Audited, shop: Path) -> None:
    """Looked up one by one, without Spark, in the capture's own files."""
    aborted = {tuple(pair) for pair in json.loads((shop / "aborted_offsets.json").read_text())}
    columns = ("log_partition", "log_offset", "log_ts", "group_id", "topic", "partition", "committed_offset")
    past: dict[tuple[str, str, int], list[tuple[datetime, int | None]]] = defaultdict(list)
    for row in sorted(audited.table("offset_commits", *columns), key=lambda row: (row["log_partition"], row["log_offset"])):
        if (row["log_partition"], row["log_offset"]) not in aborted:
            past[row["group_id"], row["topic"], row["partition"]].append((row["log_ts"], row["committed_offset"]))
    samples, seen = samples_of(shop), Counter[str]()
    steps = {(row["group_id"], row["log_ts"]) for row in audited.table("rebalances", "group_id", "log_ts")}
    for row in audited.table("partition_lag"):
        key = (row["group_id"], row["topic"], row["partition"])
        before = bisect_right(past[key], row["at"], key=lambda commit: commit[0])
        committed = past[key][before - 1][1] if before else None
        start, end, between, life = ends_at(samples[row["topic"], row["partition"]], row["at"])
        assert (row["committed"], row["log_start"], row["log_end"]) == (committed, start, end), row
        assert row["quality"] == ("unknown" if committed is None else "interpolated" if between else "exact")
        assert not between or (row["group_id"], row["at"]) in steps
        assert row["lag"] == (None if committed is None else max(0, end - max(committed, start)))
        assert row["clamped"] == (committed is not None and not start <= committed <= end)
        late = None if committed is None else time_lag(samples[row["topic"], row["partition"]], row["at"], life, committed, end)
        assert row["time_lag_ms"] == late, row
        seen[row["quality"]] += 1
        seen["late"] += bool(late)
    print(f"\nlag: {dict(seen)}")  # noqa: T201
    assert seen["exact"] > 50_000
    assert seen["interpolated"] > 500
    assert seen["late"] > 10_000


def test_how_late_a_commit_is_and_what_is_left_of_a_topic_that_was_recreated(tmp_path: Path) -> None:
    """The log of partition 0 ends at 0, 100, 100, 200 every ten seconds; topic u, partition 1, shrinks to 5 under a new id."""
    committed = commits((0, 12, 50), (0, 25, 100), (1, 12, 90), topics="tu", topic_id="old")
    samples = ((0, 0, 0), (0, 10, 100), (0, 20, 100), (0, 30, 200), (1, 10, 95), (1, 20, 95), (1, 30, 5))
    life = steps((1, "eager", "rebalance", {"a": [0]}), (26, "eager", "rebalance", {"b": [0]}))
    found = lag_of(committed, life, ends(tmp_path, *samples, topics="tu"), ids_at_end={"t": "old", "u": "new"})
    rows = {(row["partition"], round((row["at"] - START).total_seconds())): row for row in found}

    def seen(partition: int, second: int) -> tuple[Any, ...]:
        row = rows[partition, second]
        return row["committed"], row["log_end"], row["lag"], row["time_lag_ms"], row["quality"], row["owner"]

    assert seen(0, 20) == (50, 100, 50, 15_000, "exact", "a")
    assert seen(0, 26) == (100, 160, 60, 6_000, "interpolated", "b")
    assert seen(0, 30) == (100, 200, 100, 10_000, "exact", "b")
    assert seen(1, 20) == (90, 95, 5, None, "exact", None)
    assert (1, 30) not in rows, "a commit under the old id is none of the new topic"
    assert (1, 26) not in rows, "no line joins the two topics"


def test_lag_is_counted_as_the_model_counts_it(audited: Audited) -> None:
    rows = [row for row in audited.table("partition_lag", "committed", "log_start", "log_end", "lag") if row["lag"] is not None]
    offsets = [[row[name] for row in rows] for name in ("committed", "log_start", "log_end")]
    assert [row["lag"] for row in rows] == model_lag.partition_lag(*offsets).lag.tolist()


def test_a_commit_below_the_start_of_the_log_waits_for_what_is_still_there(tmp_path: Path) -> None:
    (row,) = lag_of(commits((0, 10, 5)), steps(), ends(tmp_path, (0, 15, 40), start=30))
    assert (row["committed"], row["lag"], row["clamped"], row["quality"]) == (5, 10, True, "exact")


def test_replays_know_the_lag_of_the_last_sample_before_each_generation(audited: Audited, shop: Path) -> None:
    """The observed plan's largest summed lag per member, added up here from `partition_lag`."""
    lags: dict[tuple[str, datetime], dict[tuple[str, int], int]] = defaultdict(dict)
    instants = sorted({at for samples in samples_of(shop).values() for at, *_ in samples})
    for row in audited.table("partition_lag"):
        lags[row["group_id"], row["at"]][row["topic"], row["partition"]] = row["lag"] or 0
    figures = {(row["group_id"], row["log_offset"]): row for row in audited.table("metrics") if row["strategy"] == "observed"}
    judged = 0
    for row in audited.table("replays"):
        if row["strategy"] != "observed":
            continue
        metrics = figures[row["group_id"], row["log_offset"]]
        before = bisect_right(instants, row["log_ts"])
        assert (metrics["max_member_lag"] is None) == (before == 0)
        if before:
            known = lags[row["group_id"], instants[before - 1]]
            of = [
                sum(known.get((held["topic"], p), 0) for held in member["assigned"] for p in held["partitions"])
                for member in row["assignment"]
            ]
            assert metrics["max_member_lag"] == max(of), metrics
            judged += max(of) > 0
    assert judged > 50


def test_lag_sticky_never_lags_behind_the_bound_it_is_held_against(audited: Audited) -> None:
    rows = [row for row in audited.table("metrics") if row["strategy"] in ("lag", "lag-sticky")]
    assert {row["mode"] for row in rows} == {"replay", "closed_loop"}
    assert all(row["makespan_ratio"] >= 1 and row["lag_cv"] is not None and row["lag_unknown"] is not None for row in rows)


def test_every_member_that_owned_a_partition_is_known_by_the_steps(audited: Audited) -> None:
    members = {m["member_id"] for step in audited.table("rebalances", "assignment") for m in step["assignment"]}
    owners = {row["owner"] for row in audited.table("partition_lag", "owner")} - {None}
    assert owners
    assert owners <= members


def commits(*rows: tuple[int, float, int | None], topics: str = "tt", topic_id: str | None = None) -> pa.Table:
    """Commits of group g: (partition, seconds, offset); a null offset is a tombstone. `topics` has a letter per partition."""
    listed: list[dict[str, Any]] = []
    for number, (p, s, offset) in enumerate(rows):
        gone, time = offset is None, micros(at(s))
        row: dict[str, Any] = {"group_id": "g", "topic": topics[min(p, 1)], "partition": p, "topic_id": topic_id, "deleted": gone}
        row |= {"ts": time, "offset": number, "committed": -1 if gone else offset, "max_ts": time, "live": not gone, "dead": gone}
        live = {"live_ts": NEVER, "live_offset": NEVER, "live_until": -NEVER}
        listed.append(row | (live if gone else {"live_ts": time, "live_offset": number, "live_until": time}))
    columns = {name: [row[name] for row in listed] for name in AGGREGATE_COLUMNS.names}
    columns |= {name: [int(value) for value in columns[name]] for name in ("live", "dead")}
    return pa.table(columns, AGGREGATE_COLUMNS)


def steps(
    *rows: tuple[float, str, str, dict[str, list[int]]],
    anew: int | None = None,
    left: Mapping[int, list[str]] | None = None,
    withheld: Mapping[int, int] | None = None,
) -> list[dict[str, Any]]:
    """Steps of group g: (seconds, protocol kind, kind, {member: partitions}); `anew`: the first one with another topic t; `left`
    and `withheld`: what these columns say, by step, from 1.
    """
    return [
        {
            "group_id": "g",
            "log_partition": 0,
            "log_offset": 1000 + number,
            "log_ts": at(s),
            "kind": kind,
            "protocol_kind": how,
            "generation": number,
            "assignment": [{"member_id": name, "assigned": [{"topic": "t", "partitions": held}]} for name, held in owned.items()],
            "recreated": ["t"] if number == anew else None,
            "left": (left or {}).get(number, []),
            "n_withheld": (withheld or {}).get(number),
        }
        for number, (s, how, kind, owned) in enumerate(rows, 1)
    ]


def ends(folder: Path, *rows: tuple[int, float, int], topics: str = "tt", start: int = 0) -> EndsFile:
    """Samples: (partition, seconds, log end)."""
    stamps = pa.array([at(s) for _, s, _ in rows], pa.timestamp("us", tz="UTC"))
    columns = {
        "topic": [topics[min(p, 1)] for p, *_ in rows],
        "partition": pa.array([p for p, *_ in rows], pa.int32()),
        "log_start": [start] * len(rows),
        "log_end": [end for *_, end in rows],
        "sampled_at": stamps,
    }
    pq.write_table(pa.table(columns), folder / "ends.parquet")
    return laid_out(CaptureFiles((), (str(folder / "ends.parquet"),)), str(folder / "ends.bin"))


def partitions_of(committed: pa.Table, life: list[dict[str, Any]]) -> PartitionStates:
    parts = PartitionStates()
    new = NewSteps(parts.names)
    for row in life:
        new.add("g", row, micros(row["log_ts"]))
    parts.add(new, committed)
    return parts


def lag_of(committed: pa.Table, life: list[dict[str, Any]], samples: EndsFile | None, **more: Any) -> list[dict[str, Any]]:
    """Rows of `partition_lag`."""
    parts, lives = partitions_of(committed, life), mapped_log_ends(samples or EndsFile.empty())
    found = lag_rows(parts, lives, more.pop("ids_at_end", None), **more)
    return [row for one in found for row in one.written.batch(parts).to_pylist()]


def stops(committed: pa.Table, life: list[dict[str, Any]], samples: EndsFile | None = None) -> list[dict[str, Any]]:
    parts, sampled = partitions_of(committed, life), mapped_log_ends(samples or EndsFile.empty())
    found, members = find_stops(parts, sampled, NEVER, None), [*parts.members, None]
    return [
        {
            "partition": int(parts.keys.partition[found.key[row]]),
            "generation": int(found.generation[row]),
            "owner_before": members[found.owner_before[row]],
            "stop_s": None if np.isnan(found.stop[row]) else float(found.stop[row]),
            "left_out_s": float(found.left_out[row]),
            "commits_by_nobody": int(found.unowned[row]),
        }
        for row in range(len(found.key))
    ]


def summed_up(parts: PartitionStates, *some: Stops) -> dict[str, Any]:
    """What is said of group g."""
    figures = StopFigures()
    for one in some:
        add_stops({"g": figures}, parts, one)
    return figures.figures


def chosen(found: Stops, rows: Any) -> Stops:
    return Stops(**{name: column[rows] for name, column in vars(found).items()})


def test_qualities_owners_and_clamping(tmp_path: Path) -> None:
    committed = commits((0, 10, 5), (0, 20, 90), (1, 10, 7), (1, 25, None))
    life = steps((5, "eager", "rebalance", {"a": [0, 1, 2]}), (22, "eager", "emptied", {}))
    samples = ends(tmp_path, *((p, s, 40) for p in (0, 1, 2) for s in (0, 15, 30)))
    rows = {(r["partition"], r["at"].timestamp() - START.timestamp()): r for r in lag_of(committed, life, samples)}

    def seen(partition: int, seconds: float) -> tuple[Any, ...]:
        row = rows[partition, seconds]
        return row["committed"], row["lag"], row["owner"], row["quality"], row["clamped"]

    assert set(rows) == {(0, 15), (1, 15), (2, 15), (0, 30), (0, 22), (1, 22)}
    assert seen(0, 15) == (5, 35, "a", "exact", False)
    assert seen(0, 30) == (90, 0, None, "exact", True)
    assert seen(2, 15) == (None, None, "a", "unknown", False)
    assert seen(0, 22) == (90, 0, None, "interpolated", True)
    for reset, lag in (("earliest", 40), ("latest", 0)):
        by_policy = [row for row in lag_of(committed, life, samples, reset=reset) if row["partition"] == 2]
        assert {(r["committed"], r["lag"], r["quality"]) for r in by_policy} == {(None, lag, "reset_policy")}


def test_members_of_a_streams_group_own_no_partitions_of_topics(tmp_path: Path) -> None:
    """They are assigned tasks of subtopologies, numbered from 0: topics keep no owner, and are not unowned."""
    life = steps((5, "server", "rebalance", {"a": [0, 1]}))
    samples = ends(tmp_path, *((p, s, 40) for p in (0, 1) for s in (0, 15)), topics="tt")
    streams = [{**step, "group_type": "streams"} for step in life]
    owners = [{row["owner"] for row in lag_of(commits((0, 10, 5)), one, samples)} for one in (life, streams)]
    assert owners == [{"a"}, {None}]


def test_without_log_ends_there_is_one_row_of_unknown_lag_per_partition() -> None:
    rows = lag_of(commits((0, 10, 5), (0, 20, 9), (1, 5, 3), (1, 6, None)), steps(), None)
    assert [(r["partition"], r["at"], r["committed"], r["lag"], r["quality"]) for r in rows] == [(0, at(20), 9, None, "unknown")]


def test_a_stop_is_the_silence_between_two_owners_less_the_usual_gap() -> None:
    """Commits every 2 s; the rebalance at 10 s costs partition 0 six seconds of silence, four of them more than usual."""
    committed = commits(*((p, s, 1) for s in (2, 4, 6, 8, 14, 16, 18) for p in (0, 1)), (0, 40, 1))
    life = steps(
        (1, "eager", "rebalance", {"a": [0, 1]}),
        (10, "eager", "rebalance", {"a": [0], "b": [1]}),
        (30, "eager", "emptied", {}),
    )
    rows = {(r["partition"], r["generation"]): r for r in stops(committed, life)}
    assert [rows[p, 2]["stop_s"] for p in (0, 1)] == [4.0, 4.0]
    assert [rows[p, 2]["owner_before"] for p in (0, 1)] == ["a", "a"]
    assert rows[0, 1]["stop_s"] is None
    assert sum(row["commits_by_nobody"] for row in rows.values()) == 1


@pytest.mark.parametrize(
    ("sampled", "stop", "left_out"),
    [
        ((0, 2, 4, 6, 8, 16), 2.0, 6.0),  # 6 s of the 8 are missing, after the last sample
        ((0, 2, 4, 6, 8, 12, 14, 16), 8.0, 0.0),  # twice the time before is usual
        ((0, 1, 2, 3, 20), 0.0, 8.0),  # the samples of all of the stop are missing
        ((-6, -4, -2, 0, 2, 7, 9, 16, 18, 28), 3.0, 5.0),  # the gap from 2 to 7 s is before, and the one from 18 to 28 s after
        ((-2, 0, 16), 8.0, 0.0),  # what is usual is not known before three intervals
        ((0, 2, 4, 6, 14, 15, 16, 21), 2.0, 6.0),  # parts of two gaps
        ((0, 3, 6, 7, 10, 13, 16), 8.0, 0.0),  # the capture was started again at 7 s
        ((0, 3, 4, 7, 10, 13, 16), 8.0, 0.0),  # so early that little is known
        ((-1, 0, 5, 6, 11, 12, 17, 18), 8.0, 0.0),  # two samples at a time
        ((0, 1, 2, 3, 4, 11, 18), 0.0, 8.0),  # two gaps in turn: 4 to 10 s and 11 to 17 s are left out
    ],
)
def test_time_without_samples_is_no_stop(tmp_path: Path, sampled: tuple[float, ...], stop: float, left_out: float) -> None:
    """Commits every 2 s until 8 s and from 18 s on: the rebalance at 10 s costs 8 s more than usual."""
    committed = commits(*((0, s, 1) for s in (2, 4, 6, 8, 18, 20, 22)))
    life = steps((1, "eager", "rebalance", {"a": [0]}), (10, "eager", "rebalance", {"b": [0]}))
    (row,) = (one for one in stops(committed, life, ends(tmp_path, *((0, s, 9) for s in sampled))) if one["generation"] == 2)
    assert (row["stop_s"], row["left_out_s"]) == (stop, left_out)


@pytest.mark.parametrize("joins", [1, 2, 3])
@pytest.mark.parametrize(("kinds", "stop"), [((), 26.0), (("emptied",), 6.0), (("emptied", "deleted", "created"), 6.0)])
def test_time_without_members_is_no_stop(tmp_path: Path, kinds: tuple[str, ...], stop: float, joins: int) -> None:
    """Commits every 2 s until 8 s; the last member leaves at 10 s, others join from 30 s on, a second apart, and commit from 36 s
    on: the last step takes the partition before anybody has committed.
    """
    committed = commits(*((0, s, 1) for s in (2, 4, 6, 8, 36, 38)))
    empty: list[Any] = [(10 + number, "eager", kind, {}) for number, kind in enumerate(kinds)]
    life = steps(
        (1, "eager", "rebalance", {"a": [0]}), *empty, *((30 + n, "eager", "rebalance", {f"b{n}": [0]}) for n in range(joins))
    )
    samples = ends(tmp_path, *((0, s, 9) for s in (*range(0, 15, 2), *range(24, 40, 2))))
    for sampled in (None, samples):
        (row,) = (one for one in stops(committed, life, sampled) if one["generation"] == len(life))
        assert row["stop_s"] == (stop if sampled is None or kinds else 18.0)


def test_nothing_stopped_of_a_topic_that_was_recreated() -> None:
    """Both partitions change hands at 10 s, when the topic is another one, and again at 20 s."""
    committed = commits(*((p, s, 1) for s in (2, 4, 6, 8, 14, 16, 18, 24, 26) for p in (0, 1)))
    life = [(s, "server", "rebalance", {"ab"[s // 10 % 2]: [0], "ba"[s // 10 % 2]: [1]}) for s in (1, 10, 20)]
    for anew, known in ((None, {2: 4.0, 3: 4.0}), (2, {3: 4.0})):
        found = {(row["partition"], row["generation"]): row["stop_s"] for row in stops(committed, steps(*life, anew=anew))}
        assert found == {(p, n): known.get(n) for p in (0, 1) for n in (1, 2, 3)}


def test_a_stop_without_a_commit_before_or_after_it_is_unknown_and_not_0() -> None:
    """Partition 1 of the first step was never committed; after the last step nobody commits anything."""
    committed = commits(*((0, s, 1) for s in (2, 4, 8, 10)))
    life = steps(
        (1, "eager", "rebalance", {"a": [0], "b": [1]}),
        (6, "eager", "rebalance", {"a": [0, 1]}),
        (12, "eager", "rebalance", {"b": [0, 1]}),
    )
    seen = {(row["partition"], row["generation"]): row["stop_s"] for row in stops(committed, life)}
    assert seen == {(0, 1): None, (1, 1): None, (0, 2): 2.0, (1, 2): None, (0, 3): None, (1, 3): None}
    parts = partitions_of(committed, life)
    found = find_stops(parts, NO_ENDS, NEVER, None)
    row = summed_up(parts, chosen(found, found.generation == 3))
    assert (row["stopped_partition_seconds"], row["longest_stop_seconds"], row["longest_stop_generation"]) == (None, None, None)


def test_partitions_with_commits_by_nobody_are_named_those_with_most_first() -> None:
    """Seven of eight partitions have some when the group is empty, one of them twice: five are named, all are counted."""
    held = {"a": list(range(8))}
    life = steps(
        (1, "eager", "rebalance", held),
        (10, "eager", "emptied", {}),
        (20, "eager", "rebalance", held),
        (30, "eager", "emptied", {}),
    )
    outside = [*((p, s, 1) for p in range(7) for s in (40, 41)), (6, 42, 1), (2, 11, 1), (2, 12, 1)]
    parts = partitions_of(commits(*((p, 5, 1) for p in range(8)), *outside), life)
    found = find_stops(parts, NO_ENDS, NEVER, None)
    summary = summed_up(parts, found)
    named = [(one["topic"], one["partition"], one["commits"]) for one in summary["unowned_commits"]]
    assert named == [("t", 2, 4), ("t", 6, 3), ("t", 0, 2), ("t", 1, 2), ("t", 3, 2)]
    assert (summary["partitions_without_owner"], summary["commits_without_owner"], summary["unowned_generation"]) == (7, 17, 3)
    # Some stops at a time, as chunks of the log make them known.
    assert summed_up(parts, *(chosen(found, found.key % 2 == odd) for odd in (0, 1))) == summary


def test_a_cooperative_member_does_not_stop_what_it_keeps() -> None:
    """Partition 1 is withheld in the first round: its old owner goes on, and its commits are not nobody's."""
    committed = commits(*((p, s, 1) for s in (2, 4, 6, 8, 10, 12, 14, 16) for p in (0, 1)))
    life = steps(
        (1, "cooperative", "rebalance", {"a": [0, 1]}),
        (5, "cooperative", "rebalance", {"a": [0], "b": []}),
        (9, "cooperative", "cooperative_followup", {"a": [0], "b": [1]}),
        withheld={2: 1},
    )
    rows = {(r["partition"], r["generation"]): r for r in stops(committed, life)}
    assert {key: row["stop_s"] for key, row in rows.items() if key[0] == 0} == {(0, 1): None, (0, 2): None, (0, 3): None}
    assert rows[1, 3]["stop_s"] == 0.0
    assert sum(row["commits_by_nobody"] for row in rows.values()) == 0


@pytest.mark.parametrize(
    ("how", "left", "withheld", "until", "nobody_from"),
    [
        pytest.param("eager", [], 0, 10, 10, id="eager: nobody holds anything on"),
        pytest.param("cooperative", [], 1, 20, 20, id="cooperative: what is withheld is held until the second round"),
        pytest.param("cooperative", ["b"], 1, 10, 10, id="cooperative: who left holds nothing"),
        pytest.param("cooperative", [], 0, 10, 10, id="cooperative: what nobody claims is nobody's"),
        pytest.param("server", [], None, 10, 20, id="by the broker: given up at once, committed once more"),
        pytest.param("server", ["b"], None, 10, 10, id="by the broker: who left commits nothing any more"),
    ],
)
def test_what_a_step_no_longer_hands_out_is_soon_nobodys(
    tmp_path: Path, how: str, left: list[str], withheld: int | None, until: float, nobody_from: float
) -> None:
    """Partition 1 is b's at first, then nobody's; a keeps partition 0, and c has nothing."""
    life = steps(
        (1, how, "rebalance", {"a": [0], "b": [1], "c": []}),
        (10, how, "rebalance", {"a": [0], "c": []}),
        (20, how, "rebalance", {"a": [0], "c": []}),
        (30, how, "emptied", {}),
        left={2: left, 4: ["a", "c"]},
        withheld={} if withheld is None else {2: withheld},
    )
    committed = commits(*((p, s, 1) for p in (0, 1) for s in (5, 15, 25)))
    parts = partitions_of(committed, life)
    held = parts.spans
    rows = zip(parts.keys.partition[held.key], held.generation, held.until, held.nobody_from, strict=True)
    untils = {(int(p), int(n)): (int(one), int(two)) for p, n, one, two in rows}
    assert untils[1, 1] == (micros(at(until)), micros(at(nobody_from)))
    assert untils[0, 3] == (micros(at(30)), micros(at(30)))
    samples = ends(tmp_path, *((1, s, 40) for s in (0, 8, 18, 28)))
    owners = {r["at"].timestamp() - START.timestamp(): r["owner"] for r in lag_of(committed, life, samples)}
    assert {s: owners.get(s) for s in (8, 18, 28)} == {8: "b", 18: "b" if until > 10 else None, 28: None}
    assert sum(row["commits_by_nobody"] for row in stops(committed, life)) == (2 if nobody_from == 10 else 1)


def test_a_commit_in_the_millisecond_of_a_step_and_before_it_in_the_log_is_its_owners() -> None:
    committed = commits((0, 10, 1), (1, 10, 1), (1, 11, 1))
    life = steps((1, "eager", "rebalance", {"a": [0, 1]}), (10, "eager", "emptied", {}), left={2: ["a"]})
    assert {row["partition"]: row["commits_by_nobody"] for row in stops(committed, life)} == {0: 0, 1: 1}


def test_a_static_member_that_is_back_stops_what_it_has_and_nothing_else() -> None:
    """Both partitions are silent from 8 s to 16 s; b came back under another id meanwhile, and a did not rebalance."""
    committed = commits(*((p, s, 1) for s in (2, 4, 6, 8, 16, 18, 20) for p in (0, 1)))
    life = steps(
        (1, "eager", "rebalance", {"a": [0], "b": [1]}),
        (10, "eager", "static_replacement", {"a": [0], "b2": [1]}),
        left={2: ["b"]},
    )
    found = {(row["partition"], row["generation"]): row["stop_s"] for row in stops(committed, life)}
    assert found == {(0, 1): None, (1, 1): None, (0, 2): None, (1, 2): 6.0}


def test_commits_of_aborted_transactions_end_no_stop_and_count_for_no_group(audited: Audited, shop: Path) -> None:
    """The tables keep them; what is counted per group leaves them out."""
    aborted = {tuple(pair) for pair in json.loads((shop / "aborted_offsets.json").read_text())}
    valid: dict[str, int] = defaultdict(int)
    dropped = 0
    for row in audited.table("offset_commits", "log_partition", "log_offset", "group_id", "deleted"):
        gone = (row["log_partition"], row["log_offset"]) in aborted
        dropped += gone
        valid[row["group_id"]] += not gone and not row["deleted"]
    assert dropped > 100
    assert {row["group_id"]: row["commits"] or 0 for row in audited.table("group_report")} == {
        row["group_id"]: valid[row["group_id"]] for row in audited.table("group_report", "group_id")
    }
