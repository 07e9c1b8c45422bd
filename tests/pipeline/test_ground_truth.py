"""The audit of the shop capture against what others say about it.

The figures are those of an independent decoder (they come with the capture), of the clients' callbacks (truth.jsonl), of
AdminClient (admin_snapshots.jsonl) and of the broker's own log (coordinator.log); none is our own output.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Audited

# group: commits, commit tombstones, GroupMetadata values, with assignment, highest generation, distinct member ids, protocol
ABORTED = {"route-optimizer": 120, "settlement": 119}
"""Commits of transactions that were aborted: in the table of commits, but counted for no group."""
GROUPS = {
    "bi-loader": (2095, 0, 7, 6, 6, 5, "range"),
    "billing": (1656, 0, 4, 3, 3, 3, "roundrobin"),
    "catalog-watcher": (458, 0, 0, 0, None, 0, None),
    "cdp-export": (926, 0, 4, 3, 3, 4, "range"),
    "click-archiver": (1233, 0, 7, 6, 5, 5, "range"),
    "connect-cluster": (0, 0, 5, 4, 4, 2, "sessioned"),
    "crm-sync": (426, 0, 4, 3, 3, 2, "range"),
    "dwh-loader": (324, 0, 0, 0, None, 0, None),
    "fraud-detection": (657, 0, 6, 5, 5, 4, "sticky"),
    "image-resizer": (1464, 0, 6, 5, 5, 4, "range"),
    "ledger-export": (171, 0, 0, 0, None, 0, None),
    "loyalty-points": (450, 0, 5, 4, 4, 3, "sticky"),
    "mail-out": (1560, 6, 6, 5, 5, 3, "roundrobin"),
    "old-report": (132, 12, 3, 1, 2, 1, "range"),
    "order-cache": (767, 0, 10, 9, 9, 5, "cooperative-sticky"),
    "order-service": (1723, 0, 7, 6, 6, 5, "range"),
    "payment-flagger": (470, 0, 6, 5, 5, 3, "stream"),
    "pricing": (627, 0, 10, 9, 9, 6, "cooperative-sticky"),
    "recommendations": (1562, 12, 0, 0, None, 0, None),
    "replay-invoices": (576, 0, 5, 3, 4, 2, "range"),
    "returns-handler": (414, 6, 4, 3, 3, 2, "range"),
    "route-optimizer": (496, 0, 3, 2, 2, 2, "range"),
    "search-index": (910, 0, 6, 5, 5, 3, "sticky"),
    "settlement": (691, 0, 4, 3, 3, 2, "cooperative-sticky"),
    "shipping-planner": (912, 0, 22, 21, 21, 11, "cooperative-sticky"),
    "slow-reports": (1008, 0, 3, 1, 2, 1, "range"),
    "tmp-backfill-7f3": (150, 12, 5, 3, 4, 2, "roundrobin"),
    "warehouse": (662, 0, 8, 7, 7, 3, "cooperative-sticky"),
    "web-analytics": (1324, 0, 6, 5, 5, 3, "range"),
}
OTHER_TYPES = {3: 11, 5: 10, 6: 11, 7: 21, 8: 40, 10: 3, 11: 4, 12: 4, 13: 6, 14: 6, 15: 2, 16: 6}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def test_totals_equal_the_independent_decoders(audited: Audited) -> None:
    records = audited.result.summary["records"]
    by_type = {"1": 23892, "2": 158, **{str(kind): n for kind, n in OTHER_TYPES.items()}}
    assert records == {
        "total": 24174,
        "commits": 23844,
        "commit_tombstones": 48,
        "group_metadata": 156,
        "group_metadata_tombstones": 2,
        "modern": 124,
        "errors": 0,
        "by_type": by_type,
    }


def test_commits_and_tombstones_per_group(audited: Audited) -> None:
    seen = Counter((row["group_id"], row["deleted"]) for row in audited.table("offset_commits", "group_id", "deleted"))
    expected = {(group, False): figures[0] for group, figures in GROUPS.items()}
    expected |= {(group, True): figures[1] for group, figures in GROUPS.items()}
    assert seen == {key: n for key, n in expected.items() if n}


def test_transactional_commits_have_no_topic_id(audited: Audited) -> None:
    rows = audited.table("offset_commits", "topic_id", "deleted")
    assert sum(row["topic_id"] is None and not row["deleted"] for row in rows) == 1187


def test_generations_per_group(audited: Audited) -> None:
    seen: dict[str, dict[str, Any]] = defaultdict(lambda: {"values": 0, "assigned": 0, "top": 0, "ids": set(), "names": set()})
    for row in audited.table("group_generations"):
        if not row["deleted"]:
            about = seen[row["group_id"]]
            about["values"] += 1
            about["assigned"] += bool(row["members"])
            about["top"] = max(about["top"], row["generation"])
            about["ids"].update(member["member_id"] for member in row["members"])
            about["names"].update({row["protocol"]} - {None})
    found = {g: (a["values"], a["assigned"], a["top"], len(a["ids"]), "".join(a["names"])) for g, a in seen.items()}
    assert found == {group: figures[2:] for group, figures in GROUPS.items() if figures[2]}


def test_other_record_types(audited: Audited) -> None:
    seen = Counter(row["record_type"] for row in audited.table("modern_group_records", "record_type"))
    assert seen == OTHER_TYPES


def test_nothing_is_left_undecoded(audited: Audited) -> None:
    assert audited.table("decode_errors") == []


def test_group_report_has_every_group_once(audited: Audited) -> None:
    rows = audited.table("group_report")
    assert len(rows) == len({row["group_id"] for row in rows}) == 30
    by_type = Counter(row["group_type"] for row in rows)
    assert by_type == {"classic": 24, "connect": 1, "consumer": 2, "share": 1, "simple": 2}
    by_id = {row["group_id"]: row for row in rows}
    for group, (commits, tombstones, _, assigned, _, members, protocol) in GROUPS.items():
        row = by_id[group]
        aborted = ABORTED.get(group, 0)
        assert (row["commits"] or 0, row["commit_tombstones"] or 0) == (commits - aborted, tombstones), group
        if protocol:
            steps = row["generations"] + row["static_replacements"]
            assert (steps, row["distinct_members"], row["protocol"]) == (assigned, members, protocol), group


def test_partitions_with_a_commit_are_counted_of_every_group(audited: Audited, shop: Path) -> None:
    """Of those without members too: 458 and 324 commits by hand on so many partitions."""
    partitions: dict[str, set[tuple[str, int]]] = defaultdict(set)
    aborted = {(p, o) for p, o in json.loads((shop / "aborted_offsets.json").read_text())}
    for row in audited.table("offset_commits", "group_id", "topic", "partition", "deleted", "log_partition", "log_offset"):
        if not row["deleted"] and (row["log_partition"], row["log_offset"]) not in aborted:
            partitions[row["group_id"]].add((row["topic"], row["partition"]))
    reported = {row["group_id"]: row["committed_partitions"] or 0 for row in audited.table("group_report")}
    assert reported == {group: len(partitions[group]) for group in reported}
    assert len(partitions["catalog-watcher"]) * len(partitions["dwh-loader"]) > 0


def test_clients_saw_the_assignments_that_the_table_holds(audited: Audited, shop: Path) -> None:
    """All 278 `assigned` callbacks of classic clients equal their generation; all 23 of KIP-848 ones lie within the target.

    An eager client's callback names all partitions, a cooperative one's only the new ones.
    """
    equal, within = Counter[str](), 0
    expected: dict[tuple[str, str, int], set[tuple[str, int]]] = {}
    targets: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    before: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    steps = audited.table("rebalances", "log_offset", "group_id", "generation", "group_type", "assignment", "protocol_kind")
    for step in sorted(steps, key=lambda step: (step["group_id"], step["log_offset"])):
        for member in step["assignment"]:
            who = (step["group_id"], member["member_id"])
            held = {(entry["topic"], partition) for entry in member["assigned"] for partition in entry["partitions"]}
            if step["group_type"] == "classic":
                expected[*who, step["generation"]] = held - before[who] if step["protocol_kind"] == "cooperative" else held
                before[who] = held
            else:
                targets[who] |= held
    for line in lines(shop / "truth.jsonl"):
        if line["src"] != "client" or line["event"] != "assigned":
            continue
        seen = {(topic, partition) for topic, listed in line["partitions"].items() for partition in listed}
        who = (line["group"], line["member_id"])
        if who in targets:
            within += seen <= targets[who]
        else:
            equal["equal" if seen == expected[*who, line["generation"]] else "differs"] += 1
    assert equal == {"equal": 278}
    assert within == 23


def stabilized(log: Path) -> dict[tuple[str, int], list[int]]:
    pattern = re.compile(r"^(\d+) .*Stabilized group (\S+) generation (\d+) with (\d+) members")
    found: dict[tuple[str, int], list[int]] = {}
    with log.open(encoding="utf-8") as file:
        for line in file:
            if match := pattern.match(line):
                found[match[2], int(match[3])] = [int(match[1]), int(match[4])]
    return found


def test_broker_stabilized_the_generations_that_the_table_holds(audited: Audited, shop: Path) -> None:
    """126 generations, with their members; the leader's latency agrees with the broker's log within a few ms."""
    broker = stabilized(shop / "coordinator.log")
    received: dict[tuple[str, int], int] = {}
    pattern = re.compile(r"^(\d+) .*Assignment received from leader \S+ for group (\S+) for generation (\d+)\.")
    for line in (shop / "coordinator.log").read_text(encoding="utf-8").splitlines():
        if match := pattern.match(line):
            received[match[2], int(match[3])] = int(match[1])
    steps = audited.table("rebalances", "group_id", "generation", "kind", "group_type", "n_members", "sync_latency_ms", "log_ts")
    rounds = [s for s in steps if s["group_type"] == "classic" and s["kind"] in ("rebalance", "cooperative_followup")]
    ours = {(s["group_id"], s["generation"]): s for s in rounds}
    assert len(rounds) == len(ours) == 126
    assert {key: n for key, (_, n) in broker.items() if key in ours} == {key: step["n_members"] for key, step in ours.items()}
    for key, step in ours.items():
        assert abs(millis(step["log_ts"]) - received[key]) <= 5, key
        assert abs(step["sync_latency_ms"] - (received[key] - broker[key][0])) <= 8, key


def test_no_generation_failed_in_the_broker_log_nor_in_the_table(audited: Audited) -> None:
    assert audited.result.summary["rebalances"]["failed_generations"] == 0


def test_committed_offsets_equal_what_admin_client_saw(audited: Audited, shop: Path) -> None:
    """11,984 committed offsets of 15-second snapshots equal the table's last commit at that time."""
    aborted = {tuple(pair) for pair in json.loads((shop / "aborted_offsets.json").read_text())}
    history: dict[tuple[str, str], list[tuple[int, int | None, bool]]] = defaultdict(list)
    columns = ("log_partition", "log_offset", "log_ts", "group_id", "topic", "partition", "committed_offset", "topic_id")
    rows = sorted(audited.table("offset_commits", *columns), key=lambda row: (row["log_partition"], row["log_offset"]))
    for row in rows:
        if (row["log_partition"], row["log_offset"]) not in aborted:
            key = (row["group_id"], f"{row['topic']}-{row['partition']}")
            history[key].append((millis(row["log_ts"]), row["committed_offset"], row["topic_id"] is None))
    equal = 0
    for shot in lines(shop / "admin_snapshots.jsonl"):
        for partition, offset in (shot["detail"].get("offsets") or {}).items():
            past = history[shot["group"], partition]
            begin = bisect_right(past, shot["ts_ms"], key=lambda commit: commit[0])
            end = bisect_right(past, shot["detail"]["offsets_ts_ms"], key=lambda commit: commit[0])
            # a transactional commit takes effect at its marker, a little after its record
            open_before = max(0, begin - 2) if begin and past[begin - 1][2] else max(0, begin - 1)
            assert offset in {value for _, value, _ in past[open_before : max(end, begin)]}, (shot["group"], partition)
            equal += 1
    assert equal == 11984


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_fidelity_is_one_where_kafka_or_librdkafka_led(audited: Audited, strategy: str) -> None:
    rows = [row for row in audited.table("group_report") if row["protocol"] == strategy]
    assert rows
    for row in rows:
        assert row["replay_fidelity"] == 1.0, row["group_id"]


def test_fidelity_below_one_is_explained(audited: Audited) -> None:
    below = [row for row in audited.table("group_report") if row["replay_fidelity"] is not None and row["replay_fidelity"] < 1]
    assert below
    for row in below:
        assert row["fidelity_note"], row["group_id"]


def test_fidelity_is_reported_by_library_of_the_leader(audited: Audited) -> None:
    """The share of generations that each library led and the declared strategy reproduces, counted here from `metrics`."""
    led: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in audited.table("metrics", "group_id", "mode", "declared", "leader_library", "matches_observed"):
        if row["declared"] and row["mode"] == "replay":
            led[row["group_id"]][row["leader_library"]].append(row["matches_observed"])
    reported = {row["group_id"]: dict(row["fidelity_by_library"] or ()) for row in audited.table("group_report")}
    assert {group: about for group, about in reported.items() if about} == {
        group: {library: sum(of) / len(of) for library, of in by_library.items()} for group, by_library in led.items()
    }
    assert len({library for by_library in led.values() for library in by_library}) >= 3
