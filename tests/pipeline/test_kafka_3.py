"""Groups of a broker of Kafka 3.9.1 against what was done to them, what their members heard and what the broker's log says.

Recorded as it comes (``classic.parquet``, its older group coordinator) and with the newer coordinator switched on, as a preview
of KIP-848 (``kip848.parquet``). Such a broker differs from those of Kafka 4: a classic group has no record of its birth, and the
topics of KIP-848 groups stand in records of type 4. Only records of groups are kept, no commits. Members were Java 3.9.1,
kafka-python 3.0.12, aiokafka 0.14.0 and librdkafka 2.16.1, and wrote down the calls of their rebalance listeners.

``truth.json``: `done` has begin, end, group, action and the steps it must leave (kind, cause, clients that joined and left),
`heard` time, group, client, member id, generation and partitions, `stabilized` time, group, generation and members by the
broker's log.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.history.modern_fold import NAMES
from counterpoise.pipeline.history.steps import steps_of_group
from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.conftest import COLUMNS
from tests.pipeline.pieces_of_folds import history_of
from tests.pipeline.rows import generation_rows, modern_rows

FOLDER = Path(__file__).parents[1] / "data" / "recorded" / "kafka39"
TRUTH = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
UNHEARD = 13
"""A generation of g-coop that stabilized, but another member joined before its leader had answered."""
Step = dict[str, Any]


@cache
def steps(metadata: bool = True) -> dict[str, list[Step]]:
    """The steps of every group, in log order, with everything a row of the table has."""
    topics = json.loads((FOLDER / "topics.json").read_text(encoding="utf-8")) if metadata else {}
    names = json.dumps({about["topic_id"]: name for name, about in topics.items()})
    found: dict[str, list[Step]] = {}
    for file in ("classic.parquet", "kip848.parquet"):
        (raw,) = pq.read_table(FOLDER / file, columns=COLUMNS).combine_chunks().to_batches()
        rows: dict[str, list[Step]] = defaultdict(lambda: [{"record_type": NAMES, "payload": names, "deleted": False}])
        for row in [*({**one, "record_type": None} for one in generation_rows(raw)), *modern_rows(raw)]:
            rows[row["group_id"]].append(row)
        for group, of in rows.items():
            history = [of[0], *sorted(of[1:], key=lambda row: row["log_offset"])]
            found[group] = [dict.fromkeys(TABLES["rebalances"].names) | step for step in steps_of_group(history)]
    return found


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def owned(step: Step) -> dict[str, list[str]]:
    return {
        member["member_id"]: sorted(f"{held['topic']}-{p}" for held in member["assigned"] for p in held["partitions"])
        for member in step["assignment"]
    }


@pytest.mark.parametrize(("begin", "end", "group", "action", "expected"), TRUTH["done"])
def test_events_on_kafka_3_are_reported_and_nothing_else(
    begin: int, end: int, group: str, action: str, expected: list[Any]
) -> None:
    """Group, time, kind, cause and who; second rounds of cooperative pairs come on top."""
    clients = {member["member_id"]: member["client_id"] for step in steps()[group] for member in step["assignment"]}
    seen = [
        [step["kind"], step["cause"], *(sorted(clients[one] for one in step[side]) for side in ("joined", "left"))]
        for step in steps()[group]
        if begin - 60 <= millis(step["log_ts"]) <= end and step["kind"] != "cooperative_followup"
    ]
    assert seen == expected, action


def test_listeners_heard_the_assignments_that_the_steps_hold() -> None:
    """The whole of what they owned, of classic members; a member of a KIP-848 group gets to its target bit by bit.

    One came back under a new id in time, being static: that leaves no step, and nothing followed.
    """
    equal = within = 0
    unknown: list[str] = []
    for at, group, client, member, number, partitions in TRUTH["heard"]:
        mine = [step for step in steps()[group] if step["generation"] == number and member in owned(step)]
        if group.startswith("n-"):
            known = [owned(step)[member] for step in steps()[group] if millis(step["log_ts"]) <= at + 5 and member in owned(step)]
            within += any(set(partitions) <= set(held) for held in known)
            unknown += [] if known else [client]
        else:
            assert owned(mine[-1])[member] == sorted(partitions), (group, client, number)
            equal += 1
    assert (equal, within, unknown) == (179, 20, ["m1"])


def test_generations_are_those_that_the_brokers_log_says() -> None:
    """85 of them with their members; one that failed is reported as missed before the next one."""
    rounds = {
        (group, step["incarnation"], step["generation"]): step["n_members"]
        for group, of in steps().items()
        for step in of
        if step["group_type"] == "classic" and step["kind"] in ("rebalance", "cooperative_followup")
    }
    lives: dict[str, int] = defaultdict(int)
    broker = {}
    for _, group, number, members in TRUTH["stabilized"]:
        lives[group] += number == 1 and (group, 0, 1) in broker
        broker[group, lives[group], number] = members
    assert len(broker) == len(TRUTH["stabilized"]) == 85
    failed = {key for key in broker if key not in rounds}
    assert failed == {("g-coop", 0, UNHEARD)}
    assert rounds == {key: n for key, n in broker.items() if key not in failed}
    missed = [(group, step["generation"], step["missed_generations"]) for group, of in steps().items() for step in of]
    assert [one for one in missed if one[2]] == [("g-coop", UNHEARD + 1, 1)]


def test_every_group_was_recorded_from_its_beginning() -> None:
    """Though a broker of Kafka 3 writes no generation 0: what there was before the first record is nothing."""
    assert len(steps()) == 14
    assert {group for group, of in steps().items() if not history_of(of)["complete"]} == set()
    assert {step["complete"] for of in steps().values() for step in of} == {True}


def test_topics_are_named_by_the_groups_own_records_where_nobody_else_names_them() -> None:
    """A broker of Kafka 3 writes them (type 4), one of Kafka 4 does not."""
    alone, named = steps(metadata=False), steps()
    assert [owned(step) for step in alone["n-848"]] == [owned(step) for step in named["n-848"]]
    assert {name.rsplit("-", 1)[0] for step in alone["n-848"] for held in owned(step).values() for name in held} == {
        *("pay", "view", "geo")
    }
