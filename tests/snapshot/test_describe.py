"""The text of kafka-consumer-groups --describe, 3.x and 4.x forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.describe import looks_like_describe, read_describe

DATA = Path(__file__).parent.parent / "data" / "describe"
OFFSETS_3, OFFSETS_4, MEMBERS_3, MEMBERS_4 = (
    (DATA / f"{name}.txt").read_text() for name in ("offsets-3", "offsets-4", "members-3", "members-4")
)


@pytest.mark.parametrize("text", [OFFSETS_3, OFFSETS_4], ids=["3.x", "4.x"])
def test_the_offsets_table_gives_owners_and_lag(text: str) -> None:
    assert looks_like_describe(text)
    (group,) = read_describe(text)
    assert group.name == "orders"
    assert {name: topic.partitions for name, topic in group.topics.items()} == {"t": 3, "old": 1}
    assert {member.id: (list(member.topics), dict(member.owned)) for member in group.members} == {
        "c-1": (["t"], {"t": [0, 1]}),
        "c-2": (["t"], {"t": [2]}),
    }
    assert group.lag is not None
    assert dict(group.lag) == {"t": [2, 0, 0], "old": [6]}


@pytest.mark.parametrize("text", [MEMBERS_3, MEMBERS_4], ids=["3.x", "4.x"])
def test_the_members_table_gives_owners_and_instance_ids(text: str) -> None:
    (group,) = read_describe(text)
    assert [(member.id, member.instance_id, dict(member.owned)) for member in group.members] == [
        ("c-1", "i-1", {"t": [0, 1], "u": [2]}),
        ("c-2", None, {"t": [2]}),
        ("c-3", None, {}),
    ]
    assert group.lag is None


def test_several_groups_stay_apart() -> None:
    second = OFFSETS_3.replace("orders", "second")
    assert [group.name for group in read_describe(OFFSETS_3 + second)] == ["orders", "second"]


def test_an_id_with_spaces_is_read_by_column() -> None:
    (group,) = read_describe(OFFSETS_3.replace("/127.0.0.1      c\n", "/127.0.0.1      my app\n"))
    assert [member.id for member in group.members] == ["c-1", "c-2"]


WRONG = [
    ("a row with words missing", OFFSETS_3.replace("old             0 ", "old"), r"line 7: 8 words under a header of 9"),
    ("members without their partitions", "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS\n", "line 1: this table holds no owners"),
    ("a header alone", OFFSETS_3.split("orders   ")[0], "the table has no rows"),
    ("a partition that is a word", OFFSETS_3.replace("old             0 ", "old             x "), "line 7: invalid literal"),
    ("an assignment of another form", MEMBERS_3.replace("t(2)", "t-2"), "line 4: assignment 't-2' is neither"),
]


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_row_names_its_line(text: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        read_describe(text)


def test_json_is_not_mistaken_for_a_table() -> None:
    assert not looks_like_describe('{"topics": {}, "members": []}')
