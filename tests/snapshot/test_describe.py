"""The text of kafka-consumer-groups --describe: as Kafka 3.9.1 and 4.3.1 really print it, and as 3.x up to 3.8 did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import SnapshotError
from counterpoise.planning.assign import assign
from counterpoise.snapshot import Group
from counterpoise.snapshot.describe import looks_like_describe, parts_and_unknown_lags

DATA = Path(__file__).parent.parent / "data" / "describe"
TEXT = {path.stem: path.read_text() for path in DATA.glob("*.txt")}


def read_describe(text: str) -> list[Group]:
    return [Group(**parts) for parts, _ in parts_and_unknown_lags(text)]


def client(member_id: str) -> str:
    """The ids of a run without the random part."""
    return member_id[:5]


@pytest.mark.parametrize("name", ["offsets-3.9.1", "offsets-4.3.1"])
def test_the_offsets_table_gives_owners_and_lag(name: str) -> None:
    assert looks_like_describe(TEXT[name])
    (group,) = read_describe(TEXT[name])
    assert group.name == "order-service"
    assert {topic: known.partitions for topic, known in group.topics.items()} == {"orders": 4, "returns": 2}
    held = {client(member.id): {topic: sorted(at) for topic, at in member.owned.items()} for member in group.members}
    assert held == {
        "app-2": {"orders": [0], "returns": [0]},
        "app-3": {"orders": [1], "returns": [1]},
        "app-4": {"orders": [2]},
        "app-5": {"orders": [3]},
    }
    assert group.lag is not None
    assert {topic: list(lag) for topic, lag in group.lag.items()} == {"orders": [60, 60, 60, 0], "returns": [0, 0]}
    assert all(list(member.topics) == ["orders", "returns"] for member in group.members)


def test_the_members_table_of_4_x_gives_owners_idle_members_and_instance_ids() -> None:
    (group,) = read_describe(TEXT["members-4.3.1"])
    found = {client(member.id): (member.instance_id, sum(map(len, member.owned.values()))) for member in group.members}
    assert found == {"app-2": (None, 2), "app-3": (None, 2), "app-4": (None, 1), "app-5": (None, 1), "pod-1": ("pod-1", 0)}
    assert group.lag is None


def test_only_both_tables_have_the_lag_and_the_members_without_a_partition() -> None:
    """So a plan of the offsets alone is proven for fewer members than there are (docs/faq.md)."""
    offsets, members = TEXT["offsets-4.3.1"], TEXT["members-4.3.1"]
    (some,), (both,) = read_describe(offsets), read_describe(f"{offsets}\n{members}")
    assert {client(member.id) for member in both.members} - {client(member.id) for member in some.members} == {"pod-1"}
    assert (assign(some, "sticky").moved, assign(both, "sticky").moved) == (0, 1)
    assert both.lag == some.lag


def test_the_members_table_of_older_3_x_gives_what_that_of_4_x_gives() -> None:
    (group,) = read_describe(TEXT["members-3.7"])
    assert [(member.id, member.instance_id, dict(member.owned)) for member in group.members] == [
        ("c-1", "i-1", {"t": [0, 1], "u": [2]}),
        ("c-2", None, {"t": [2]}),
        ("c-3", None, {}),
    ]


def test_the_members_table_of_3_9_names_no_topics_and_is_refused() -> None:
    with pytest.raises(SnapshotError, match="names no topics; leave --members out"):
        read_describe(TEXT["members-3.9.1"])


def test_partitions_whose_lag_is_not_shown_are_counted_unless_none_is() -> None:
    none_shown = TEXT["offsets-3.9.1"].replace(" 60 ", " -  ").replace(" -40 ", " -   ")
    texts = (TEXT["offsets-3.9.1"], none_shown, TEXT["members-4.3.1"])
    assert [unknown for text in texts for _, unknown in parts_and_unknown_lags(text)] == [2, 0, 0]


def test_the_same_owner_may_be_shown_twice() -> None:
    (group,) = read_describe(TEXT["offsets-4.3.1"] + TEXT["members-4.3.1"])
    assert sum(len(held) for member in group.members for held in member.owned.values()) == 6
    assert group.lag is not None


def test_several_groups_stay_apart() -> None:
    second = TEXT["offsets-4.3.1"].replace("order-service", "other-service")
    assert [group.name for group in read_describe(TEXT["offsets-4.3.1"] + second)] == ["order-service", "other-service"]


def test_an_id_with_spaces_is_read_by_column() -> None:
    *rows, last = lines()
    assert last.endswith("app-5")
    (group,) = read_describe("\n".join([*rows, last.removesuffix("app-5") + "my app"]))
    assert sorted(client(member.id) for member in group.members) == ["app-2", "app-3", "app-4", "app-5"]


BLANK_INSTANCE_3_X = """
GROUP           CONSUMER-ID          GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT
g               worker-1-aaaa        worker-1          /127.0.0.1      app             2               orders(0,1)
g               app-bbbb                               /127.0.0.1      app             3               orders(2), payments(0,1)
"""
BLANK_INSTANCE_4_X = """
GROUP     CONSUMER-ID   GROUP-INSTANCE-ID HOST        CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH
my group  app-uuid0                       /127.0.0.1  app       2           -             orders:0,2         -
my group  inst-1-uuid1  inst-1            /127.0.0.1  app       1           -             orders:1           -
"""


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        (BLANK_INSTANCE_3_X, {"worker-1-aaaa": {"orders": [0, 1]}, "app-bbbb": {"orders": [2], "payments": [0, 1]}}),
        (BLANK_INSTANCE_4_X, {"app-uuid0": {"orders": [0, 2]}, "inst-1-uuid1": {"orders": [1]}}),
    ],
)
def test_a_blank_instance_id_is_not_made_up_for_by_a_space_elsewhere(text: str, owned: dict[str, dict[str, list[int]]]) -> None:
    """Such a row has as many words as the header, but not in the same columns."""
    (group,) = read_describe(text)
    assert {member.id: {topic: list(at) for topic, at in member.owned.items()} for member in group.members} == owned
    assert [member.instance_id is None for member in group.members] == ["app" in member.id for member in group.members]


def lines() -> list[str]:
    return [line.rstrip() for line in TEXT["offsets-3.9.1"].splitlines()]


HEADER = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS\n"
WRONG = [
    ("a row cut short", "\n".join([*lines()[:2], lines()[2][:50]]), r"line 3: 4 words under a header of 9"),
    ("members without their partitions", HEADER, "line 1: this table holds no owners; add --verbose"),
    ("a header alone", "\n".join(lines()[:2]), "the table has no rows"),
    ("a partition that is a word", TEXT["offsets-3.9.1"].replace(" 1          4", " x          4"), "is no whole number"),
    ("a partition below 0", TEXT["offsets-3.9.1"].replace(" 1          4", " -1         4"), "line 4: partition -1 of orders"),
    (
        "a partition beyond all memory",
        TEXT["offsets-3.9.1"].replace(" 1          4", f" {9**15}  4"),
        "orders: partition 2058.* only 6 of",
    ),
    (
        "a lag beyond int64",
        TEXT["offsets-3.9.1"].replace("60 ", f"{9**30} "),
        r"lag\.orders\[0\]: Expected `int` <= ",
    ),
    ("a table without topics", TEXT["offsets-3.9.1"].replace("TOPIC", "TOPICS"), "line 2: a table with PARTITION and"),
    (
        "a partition shared by two members",
        TEXT["members-3.7"].replace("t(2)", "t(1)"),
        "^line 4: partition 1 of t has two owners, c-1 and c-2: a share group, or several outputs in one text; give one output",
    ),
    (
        "two outputs with another owner in the second",
        TEXT["offsets-3.9.1"] + TEXT["offsets-3.9.1"].replace("app-5-", "app-9-"),
        "^line 15: partition 3 of orders has two owners, app-5-.* and app-9-",
    ),
    (
        "an assignment cut short",
        TEXT["members-3.7"].replace("u(2)", "u(2"),
        r"line 3: 3 partitions, and 2 in the assignment 't\(0,1\)",
    ),
    ("an assignment of another form", TEXT["members-3.7"].replace("t(2)", "t-2"), "line 4: assignment 't-2' is neither"),
]


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_row_names_its_line(text: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_describe(text)


def test_json_is_not_mistaken_for_a_table() -> None:
    assert not looks_like_describe('{"topics": {}, "members": []}')


def test_a_group_is_read_from_the_text() -> None:
    second = TEXT["offsets-4.3.1"].replace("order-service", "other-service")
    assert Group.from_describe(TEXT["offsets-4.3.1"]) == read_describe(TEXT["offsets-4.3.1"])[0]
    assert Group.from_describe(TEXT["offsets-4.3.1"] + second, "other-service").name == "other-service"
    for name in (None, "third"):
        with pytest.raises(SnapshotError, match=rf"expected one of the groups of the text \(order-.*, other-.*\), got {name!r}"):
            Group.from_describe(TEXT["offsets-4.3.1"] + second, name)
    for text in ("hello", "", "Error: Consumer group 'x' does not exist."):
        with pytest.raises(SnapshotError, match="no table of `kafka-consumer-groups --describe`"):
            Group.from_describe(text)
    printed: Any = TEXT["offsets-4.3.1"].encode()  # as `subprocess.check_output` returns it
    with pytest.raises(SnapshotError, match="text: expected a str with what the tool printed, not bytes"):
        Group.from_describe(printed)


def test_an_owner_that_one_table_names_stays_if_another_shows_none() -> None:
    members, offsets = TEXT["members-3.7"], "GROUP TOPIC PARTITION LAG CONSUMER-ID\norders t 1 2 -\n"
    for text in (members + offsets, offsets + members):
        (group,) = read_describe(text)
        assert {topic: sorted(held) for topic, held in group.members[0].owned.items()} == {"t": [0, 1], "u": [2]}
