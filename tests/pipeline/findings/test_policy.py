"""counterpoise.toml: what it may say, and what becomes of the findings that it accepts."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.errors import OptionError
from counterpoise.pipeline.findings.policy import Acceptance, Owner, Policy, read_policy
from counterpoise.pipeline.findings.ranking import finding_rows
from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.findings.test_findings import healthy

ACCEPT = '[[accept]]\nfinding = "dead_*"\ngroup = "old-*"\nreason = "deleted in spring"\nuntil = 2027-01-31\n'
OWNER = '[[owner]]\nname = "team"\ngroup = "old-?"\ncluster = "east"\n'
POLICY = Policy(
    (Acceptance(finding="dead_*", group="old-*", reason="deleted in spring", until=date(2027, 1, 31)),),
    (Owner(name="team", group="old-?", cluster="east"),),
)


def read(tmp_path: Path, text: str) -> Policy:
    file = tmp_path / "counterpoise.toml"
    file.write_text(text)
    return read_policy(file, ["storm", "dead_groups"])


def test_accepted_findings_and_owners_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, ACCEPT + OWNER) == POLICY
    assert read(tmp_path, "") == Policy()
    assert read(tmp_path, 'docs = "https://docs.example.com/balance/"') == Policy(docs="https://docs.example.com/balance")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ACCEPT.replace("until = 2027-01-31", ""), r"\[\[accept\]\] number 1: Object missing required field until"),
        (ACCEPT.replace("2027-01-31", '"soon"'), r"\[\[accept\]\] number 1: .*date.*until"),
        (ACCEPT + ACCEPT.replace("reason", "because"), r"\[\[accept\]\] number 2: .*unknown field because"),
        (ACCEPT.replace("dead_*", "strom"), "no finding is called 'strom'; there are: dead_groups, storm"),
        ("[accept]\n", r"write \[\[accept\]\] with two brackets"),
        ("owner = [1]\n", r"\[\[owner\]\] number 1: Expected object, got int"),
        ("[[accepted]]\n", r"'accepted' is unknown; there are docs, \[\[accept\]\] and \[\[owner\]\]"),
        ('docs = "javascript:alert(1)"', r"docs: 'javascript:alert\(1\)' is no address; it begins with https:// or http://"),
        ("accept", "not TOML: "),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path}/counterpoise.toml")
    assert "\n" not in str(raised.value)


def rows(day: str, plain: list[str] | None = None) -> tuple[list[tuple[object, ...]], list[str]]:
    """Owner, end and reason of the findings of three groups without members; and the groups of the actions."""
    names = ["old-1", "old-22", "new"]
    report = [healthy(group_id=f"hash-{name}" if plain else name, cluster="east", state="empty", lag_now=5) for name in names]
    (batch,) = pa.Table.from_pylist(report, schema=TABLES["group_report"]).to_batches()
    end = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1e6)
    found, parts = finding_rows(batch, POLICY, end, plain)
    columns = ("owner", "accepted_until", "accepted_reason")
    return [tuple(row[name] for name in columns) for row in found.to_pylist()], parts["group_id"].to_pylist()


def test_an_accepted_finding_asks_for_no_action_up_to_its_day_and_returns_after_it() -> None:
    accepted = (date(2027, 1, 31), "deleted in spring")
    assert rows("2027-01-31T23:59:59") == ([("team", *accepted), (None, *accepted), (None, None, None)], ["new"])
    assert rows("2027-02-01") == ([("team", None, None), (None, None, None), (None, None, None)], ["old-1", "old-22", "new"])
    assert POLICY.ended({"east": date(2027, 1, 31)}) == []
    assert POLICY.ended({"east": date(2027, 1, 31), "west": date(2027, 1, 1)}) == []
    east = Policy((Acceptance(finding="*", group="*", reason="", until=date(2027, 1, 31), cluster="east"),))
    assert east.ended({"east": date(2027, 1, 31), "west": date(2027, 2, 1)}) == []
    assert POLICY.ended({"east": date(2027, 2, 1)}) == [
        "counterpoise.toml: no longer accepted: dead_* of old-* (until 2027-01-31)"
    ]


def test_hashed_names_are_matched_by_the_plain_ones_and_no_text_of_the_file_is_stored() -> None:
    hidden = (None, date(2027, 1, 31), None)
    assert rows("2027-01-01", ["old-1", "old-22", "new"]) == ([hidden, hidden, (None, None, None)], ["hash-new"])
