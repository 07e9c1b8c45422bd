"""The page: whole, escaped, self-contained, true to the tables, bounded, and the same bytes for the same tables."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError, MissingExtraError
from counterpoise.extras import pip_install
from counterpoise.pipeline.storage.files import read_bytes
from counterpoise.pipeline.tables.transaction import TableTransaction
from counterpoise.report import audit_output, sections
from counterpoise.report.changes import change_words
from counterpoise.report.detail import detail
from counterpoise.report.group_table import group_rows
from counterpoise.report.limits import Limits
from counterpoise.report.picture import lane
from counterpoise.report.render import write_report
from counterpoise.report.ribbons import Axis
from counterpoise.report.words import slug
from tests.report import fleet
from tests.report.page import Element, cells, drawings, inflated, listed, read, ribbons, section, unpacked
from tests.s3_server import upload


def page_of(out: Path, limits: Limits | None = None) -> Path:
    return Path(write_report(out, limits))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(fleet.small(tmp_path_factory.mktemp("audit")))


@pytest.fixture(scope="module")
def page(path: Path) -> Element:
    return read(path)


def test_the_page_asks_nobody_for_anything(path, page):
    """No element loads anything, no style names an address, and the page's own policy forbids it."""
    loading = [
        e for tag in ("img", "iframe", "object", "embed", "audio", "video", "source", "base", "form") for e in page.all(tag)
    ]
    assert loading == []
    assert [e.attributes["href"] for e in page.all("link")] == ["data:,"]
    assert [e for e in page.all("script") if "src" in e.attributes] == []
    for tag in ("a", "use"):
        assert all(e.attributes["href"].startswith("#") for e in page.all(tag))
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert re.findall(r"https?:|@import|fetch\(|XMLHttpRequest|//[a-z]+\.", text) == []


def test_only_the_one_known_script_may_run_and_nothing_may_be_loaded_or_sent(page):
    """The policy comes before anything that it is about: only the encoding is declared earlier."""
    (script,) = page.all("script")
    digest = base64.b64encode(hashlib.sha256(str(script.children[0]).encode()).digest()).decode()
    first, policy = page.all("meta")[:2]
    assert first.attributes == {"charset": "utf-8"}
    assert policy.attributes == {
        "http-equiv": "Content-Security-Policy",
        "content": f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
    }


def test_hostile_names_are_text_and_nothing_else(path, page):
    """Names from group ids, client ids, topics, strategies, notes, findings and the source never become elements."""
    assert fleet.HOSTILE in page.text()
    assert fleet.HOSTILE not in path.read_text(encoding="utf-8")
    assert len(page.all("script")) == 1
    every = [e for tag in ("a", "b", "i", "bdi", "img", "p", "rect", "text", "title", "li", "td", "th") for e in page.all(tag)]
    assert not any(name.startswith("on") for e in every for name in e.attributes)
    assert page.all("img") == page.all("b") == page.all("i") == []
    assert not set("\u202e\x1b") & set(path.read_text(encoding="utf-8"))


def test_ids_are_unique_and_every_link_leads_somewhere(path, page):
    text = path.read_text(encoding="utf-8")
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    targets = {e.attributes["href"][1:].partition("?")[0] for tag in ("a", "use") for e in page.all(tag)}
    assert targets <= set(ids)
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(ids)


def test_every_group_is_in_the_table_and_has_a_section(page):
    names = {"eager", "coop", fleet.HOSTILE, "shared", "gone", "only-commits"}
    assert {row.all("bdi")[0].text() for row in listed(page)} == names
    assert {part.all("h3")[0].text() for part in page.all("details", class_="group")} == names


def test_the_table_of_groups_shows_the_numbers_of_group_report(page):
    shown = {row.all("bdi")[0].text(): cells(row) for row in listed(page)}
    assert shown["coop"][2:13] == ["1 notice", "45", "41", "\u2013", "2 of 3", "6", "2", "7", "3 s", "100%", "cooperative-sticky"]
    assert shown["only-commits"][2:13] == ["none", "45", "41", "4.2", "\u2013", "6", "0", "7", "3 s", "\u2013", "\u2013"]
    assert shown["eager"][0] == "eager partial classic"
    assert shown["gone"][0] == "gone classic, deleted"
    assert (shown["eager"][1], shown["only-commits"][1]) == ("falling behind", "\u2013")
    assert shown["eager"][5] == "73", "the largest time lag of a partition at the last sample"


def test_the_overview_shows_the_numbers_of_the_summary(page):
    tiles = [(tile.all("dt")[0].text(), tile.all("dd")[0].text()) for tile in page.all("dl", class_="tiles")[0].all("div")]
    assert tiles == [
        ("groups", "6"),
        ("rebalances", "11"),
        ("members", "17"),
        ("findings", "3"),
        ("replay fidelity", "91.7%"),
        ("records", "24.2 k"),
    ]
    assert (
        page.all("h1")[0].text()
        == "6 groups made 11 rebalances in 10 min: 2 actions, 1 of them critical, would save 12 of 270 stopped partition-seconds."
    )
    assert "23,844 commits and 48 commit tombstones, 156 group generations and 2 group tombstones" in page.text()
    assert "3 commits were aborted" in page.text()


def test_the_page_leads_with_ranked_actions_with_groups_configuration_and_what_they_save_and_cost(path, page):
    text = path.read_text(encoding="utf-8")
    assert text.index('id="actions"') < text.index('class="tiles"') < text.index('id="groups"') < text.index('id="findings"')
    first, second = page.all("li", class_="action")
    assert first.all("h3")[0].text() == "Switch 2 groups from range to cooperative-sticky"
    assert first.all("p", class_="saves")[0].text().startswith("saves 12 of 100 stopped partition-seconds \u00b7 eager, ")
    assert "two rolling restarts" in first.all("span", class_="top")[0].text()
    assert first.all("a")[0].attributes["href"] == "#g-eager"
    assert "eager (12 s, 3 moves) , " in first.text()
    assert first.all("code")[0].text() == f"client.id={fleet.HOSTILE}"
    assert second.all("h3")[0].text() == fleet.HOSTILE
    assert "Data quality. 1 group, incomplete history: compaction removed older generations." in page.text()


def test_groups_of_an_action_beyond_the_summarys_are_counted(tmp_path):
    names = [f"g{at:02}" for at in range(25)]
    page = read(page_of(fleet.write(tmp_path, [fleet.action(1, names)], group_report=[fleet.report_row(n) for n in names])))
    (card,) = page.all("li", class_="action")
    assert len(card.all("a")) == 20 + 1
    assert "and 5 more in the table actions \u00b7 Show 25 groups in the table of groups" in card.text()
    assert card.all("a")[-1].attributes["href"] == "#groups?action=1"
    assert card.all("p", class_="saves")[0].text().endswith(" \u00b7 g00, g01, g02, and 22 more")
    assert [name.text() for name in card.all("small")] == ["g00, g01, g02, and 22 more"]


def test_a_group_that_is_alone_in_an_action_is_named_alone(tmp_path):
    (card,) = read(page_of(fleet.write(tmp_path, [fleet.action(1, ["a"])], group_report=[fleet.report_row("a")]))).all(
        "li", class_="action"
    )
    assert card.all("p", class_="saves")[0].text().endswith(" \u00b7 a")
    assert [name.text() for name in card.all("small")] == ["a"]


def test_a_group_of_an_action_is_a_link_whatever_its_name(tmp_path):
    names = ["a\u200bb", ""]
    page = read(page_of(fleet.write(tmp_path, [fleet.action(1, names)], group_report=[fleet.report_row(n) for n in names])))
    links = page.all("li", class_="action")[0].all("a")[:2]
    assert [(link.attributes["href"], link.text()) for link in links] == [
        (f"#{slug(names[0])}", "a\\u200bb"),
        (f"#{slug(names[1])}", "(empty name)"),
    ]


def test_one_move_is_no_moves(tmp_path):
    todo = fleet.action(1, ["a"])
    todo["groups"][0]["saved_moves"] = 1
    page = read(page_of(fleet.write(tmp_path, [todo], group_report=[fleet.report_row("a")])))
    assert "a (12 s, 1 move)" in page.all("li", class_="action")[0].text()


def test_names_are_not_translated_as_codes_are(tmp_path):
    rows = [fleet.report_row("g", protocol="least_loaded", libraries=["my_lib"])]
    page = read(page_of(fleet.write(tmp_path, group_report=rows, findings=[fleet.finding(1, "g", owner="leave")])))
    choices = {e.attributes["name"]: [o.text() for o in e.all("option")[1:]] for e in page.all("select")}
    assert [choices[name] for name in ("strategy", "library", "owner")] == [["least_loaded (1)"], ["my_lib (1)"], ["leave (1)"]]
    assert page.all("section", class_="chart")[-1].all("span", class_="name")[0].text() == "least_loaded"


def test_the_findings_of_a_group_are_in_its_section_with_evidence_cost_and_settings_to_copy(page):
    numbers = [len(section(page, name).all("div", class_="finding")) for name in (fleet.HOSTILE, "eager", "coop", "gone")]
    assert numbers == [1, 1, 1, 0]
    (found,) = section(page, "eager").all("div", class_="finding")
    assert found.attributes["id"] == "finding-2"
    assert found.all("h4")[0].text() == "Moves of eager"
    assert [term.text() for term in found.all("dt")] == ["Evidence", "Cost", "What to do"]
    assert found.all("code")[0].text() == "partition.assignment.strategy=cooperative-sticky"


def test_findings_are_listed_by_kind_with_what_they_cost_and_a_link_to_each(tmp_path):
    found = [fleet.finding(1, "b", "critical", kind="storm"), fleet.finding(2, "a"), fleet.finding(3, "b", "notice")]
    page = read(page_of(fleet.write(tmp_path, group_report=[fleet.report_row(n) for n in "ab"], findings=found)))
    storm, moves = page.all("details", class_="of-kind")
    assert storm.all("summary")[0].text() == "storm critical 1 finding ; first b : Moves of b"
    assert moves.attributes["id"] == "kind-needless_moves"
    assert [cells(row) for row in moves.all("tr")[1:]] == [
        ["2", "warning", "a", "Moves of a", "12 partition-seconds"],
        ["3", "notice", "b", "Moves of b", "12 partition-seconds"],
    ]
    assert [a.attributes["href"] for a in moves.all("a")] == ["#finding-2", "#finding-3"]


def test_each_kind_of_finding_links_to_its_part_of_the_documentation_if_its_address_is_known(tmp_path):
    out = fleet.write(tmp_path, group_report=[fleet.report_row("a")], findings=[fleet.finding(1, "a")])
    assert "docs/findings.md explains each kind" in read(page_of(out)).text()
    summary = json.loads((out / "summary.json").read_text())
    (out / "summary.json").write_text(json.dumps({**summary, "docs": "https://docs.example.com/balance"}))
    found = [a.attributes["href"] for a in read(page_of(out)).all("a") if not a.attributes["href"].startswith("#")]
    page = "https://docs.example.com/balance/findings.html"
    assert found == [page, f"{page}#needless_moves"]


def test_an_accepted_finding_says_so_and_counts_no_more(tmp_path):
    mine = {"owner": "<team>", "accepted_until": date(2027, 1, 31), "accepted_reason": "<planned>"}
    found = [fleet.finding(1, "a"), fleet.finding(2, "b", "critical", **mine)]
    groups = [fleet.report_row("a"), fleet.report_row("b")]
    page = read(page_of(fleet.write(tmp_path, group_report=groups, findings=found)))
    (card,) = section(page, "b").all("div", class_="finding")
    assert [tag.text() for tag in card.all("span", class_="tag")] == ["accepted", "<team>"]
    assert section(page, "b").all("summary")[0].all("span", class_="badge")[0].text() == "accepted"
    assert "until 2027-01-31: <planned>" in card.text()
    assert "1 warning, 1 accepted" in page.text()
    assert [cells(row)[2] for row in listed(page)] == ["1 warning", "none"]
    (kind,) = page.all("details", class_="of-kind")
    assert [cells(row)[1] for row in kind.all("tr")[1:]] == ["warning", "accepted"]
    choices = {e.attributes["name"]: [o.text() for o in e.all("option")[1:]] for e in page.all("select")}
    assert (choices["severity"], choices["owner"]) == (["accepted (1)", "warning (1)"], ["<team> (1)"])


def test_loads_are_those_of_the_last_step_with_members(page):
    loads = section(page, "coop").all("ul", class_="loads")[0]
    assert [(e.all("bdi")[0].text(), e.all("span", class_="value")[0].text()) for e in loads.all("li")] == [
        ("app-1", "2 partitions"),
        ("app-2", "2 partitions"),
    ]
    assert [e.text() for e in loads.all("div", class_="holds")] == ["clicks 0-1", "clicks 2-3"]
    gone = section(page, "gone")
    assert gone.all("div", class_="holds")[0].text() == "old 0"
    assert "the last one with members" in gone.text()
    assert "41 behind" in section(page, "eager").all("ul", class_="loads")[0].text()


def test_one_run_of_partitions_that_is_not_listed_is_no_runs(tmp_path):
    steps = [fleet.step("a", 1, 0, {"m": {"t": list(range(0, 26, 2))}})]
    page = read(page_of(fleet.write(tmp_path, group_report=[fleet.report_row("a")], rebalances=steps)))
    assert section(page, "a").all("div", class_="holds")[0].text().endswith(", 22 and 1 more run")


def test_the_section_says_how_many_members_its_production_needs(page):
    figures = [tile.text() for tile in section(page, "eager").all("div", class_="tile")]
    assert figures[-1] == "members needed 4 for 90/s in the busiest ten minutes; a member does 52.6/s; more than 11 do not help"


@pytest.mark.parametrize(
    ("able", "quality", "needed", "expected"),
    [
        (50.0, "lower_bound", 4, "members needed: at most 4"),
        (50.0, "lower_bound", None, "members needed: unknown"),
        (50.0, "sustained", None, "members needed: no number"),
        (None, "unknown", None, "produced: 90/s"),
    ],
)
def test_what_is_not_known_about_the_size_is_said(able, quality, needed, expected):
    sized = {"production_per_second": 90.0, "capacity_per_second": able, "capacity_quality": quality, "members_needed": needed}
    group = fleet.report_row("a", causes={}, fidelity_by_library={}, **sized)
    shown = detail(group, None, None, [], (fleet.START, fleet.END), Limits(), [])["figures"][-1]
    assert f"{shown.name}: {shown.value}" == expected
    assert ("at least 50/s" in shown.remark) == (quality == "lower_bound")


def test_changes_stand_with_figures_before_and_after_the_newest_first(page):
    table = section(page, "eager").all("table", class_="changes")[0]
    rows = [cells(row) for row in table.all("tbody")[0].all("tr")]
    figures = ["4 \u2192 0", "6", "38 \u2192 \u2013", "900 \u2192 12"]
    lasted = "5 min \u2192 4 min"
    assert rows == [
        ["04:08:00", "members 2 \u2192 members 3", "better", "97%", lasted, *figures],
        ["04:05:00", f"members 2 \u2192 {fleet.HOSTILE}", "better", "97%", lasted, *figures],
    ]
    assert section(page, "coop").all("table", class_="changes") == []


def test_figures_of_long_eras_are_per_day():
    daily = {"rebalances_per_day": 4.25, "moved_per_day": 6.0, "stopped_seconds_per_day": 7260.0}
    row = fleet.change("a")
    row["before"] |= daily
    row["after"] |= daily | {"rebalances_per_day": 31391.4}
    figures = change_words([row], (fleet.START, fleet.END))[0]["figures"]
    assert figures == ["4.2 \u2192 31,391 a day", "6 a day", "7,260 a day", "900 \u2192 12"]


def test_strategies_stand_beside_what_was_observed(page):
    rows = section(page, "eager").all("table", class_="strategies")[0].all("tr")[1:]
    assert [cells(row) for row in rows] == [
        ["observed", "", "7", "15", "45", "1", "\u2013", "\u2013", "\u2013", "\u2013"],
        ["sticky", "replay", "3", "15", "\u2248 45", "1", "1", "3 of 3", "12.3 k", "\u00d7 1.00"],
        ["cooperative-sticky suggested", "closed loop", "3", "3", "\u2248 18", "1", "1", "3 of 3", "60", "\u00d7 1.50"],
    ]
    fleet = next(e for e in page.all("section") if e.attributes.get("id") == "strategies")
    assert [cells(row)[4] for row in fleet.all("table", class_="strategies")[0].all("tr")[1:]] == ["\u2248 63"]
    heads = [e.text() for e in fleet.all("table", class_="strategies")[0].all("th") if e.attributes.get("scope") == "col"]
    assert heads[-1] == "Balanced generations", "where no lag is known there is no column about it"
    code = [e.text() for e in section(page, "eager").all("code")]
    assert "partition.assignment.strategy=CooperativeStickyAssignor,RangeAssignor" in code


def test_what_is_missing_is_said(page):
    assert "no longer holds this group's whole history (1 step with an unknown history before)" in section(page, "eager").text()
    assert "compaction removed older generations, or --from left them out" in section(page, "eager").text()
    assert "Incomplete" not in section(page, "coop").text()
    assert "No rebalance of this group was recorded" in section(page, "only-commits").text()
    assert "Not measured" not in section(page, "coop").text()


def test_what_polls_missed_was_not_removed_by_compaction(tmp_path):
    row = fleet.report_row("p", polled=True, complete=False)
    text = section(read(page_of(fleet.write(tmp_path, group_report=[row]))), "p").text()
    assert "Incomplete. This group was recorded by polls" in text
    assert "compaction" not in text


def test_steps_are_listed_in_words(page):
    rows = section(page, "eager").all("details", class_="steps")[0].all("tr")[1:]
    assert cells(rows[0])[:4] == ["4", "04:06:00", "rebalance, a member left", "-app-1"]
    assert cells(rows[0])[9] == "1 generation before it failed"
    assert cells(rows[2])[9] == "history before it unknown"


def test_over_several_days_every_time_has_its_day(tmp_path: Path) -> None:
    out = fleet.small(tmp_path)
    summary = json.loads((out / "summary.json").read_text())
    summary["to"] = "2026-11-23T04:10:00.000Z"
    (out / "summary.json").write_text(json.dumps(summary))
    page = read(page_of(out))
    rows = section(page, "eager").all("details", class_="steps")[0].all("tr")[1:]
    assert cells(rows[0])[1] == "2026-11-21 04:06:00"
    times = [e.text() for e in page.all("span", class_="when")]
    assert times
    assert all("2026-11-21 04:" in one for one in times if "UTC" in one)
    assert "2026-11-21 04:01:00 to 2026-11-21" in (out / "report.html").read_text()


def test_of_a_group_that_only_commits_nobody_says_that_its_history_is_not_whole() -> None:
    rows = [fleet.report_row("a", complete=None), fleet.report_row("b", complete=False), fleet.report_row("c")]
    assert [row.complete for row in group_rows(rows, {}, {}, {}, {})] == [True, False, True]


def drawn(path: Path, topic: str) -> list[tuple[float, float, str]]:
    found = [[(left, right, title) for _, left, right, title in ribbons(d)] for d in drawings(path)]
    (pieces,) = [pieces for pieces in found if any(f"{topic}-" in title for _, _, title in pieces)]
    return [piece for piece in pieces if f"{topic}-" in piece[2]]


def test_a_withheld_partition_leaves_a_gap_in_its_ribbon(path):
    before, after = [piece for piece in drawn(path, "clicks") if piece[2].startswith("clicks-3:")]
    minute = (992 - 44) / 10
    assert after[0] - before[1] == pytest.approx(minute, abs=1)
    assert before[2] == "clicks-3: app-1, 04:01:00 to 04:04:00 (3 min), generation 1"
    assert after[2] == "clicks-3: app-2, 04:05:00 to 04:10:00 (5 min), generation 3"


def test_a_deleted_group_has_no_ribbon_after_it_emptied(path):
    assert [title for _, _, title in drawn(path, "old")] == ["old-0: app-1, 04:01:00 to 04:02:00 (60 s), generation 1"]


def test_members_of_a_share_group_share_a_ribbon(path):
    titles = {title for _, _, title in drawn(path, "jobs")}
    assert titles == {f"jobs-{p}: shared by app-1, app-3, 04:01:00 to 04:10:00 (9 min), generation 1" for p in (0, 1)}


def test_a_partition_of_two_members_is_called_contested_elsewhere(tmp_path):
    both = fleet.step("g", 1, 1, {"a#1": {"t": [0]}, "b#1": {"t": [0]}})
    out = fleet.write(tmp_path, rebalances=[both], group_report=[fleet.report_row("g")])
    assert "t-0: CONTESTED by a, b" in drawn(page_of(out), "t")[0][2]


def test_lag_is_drawn_and_put_into_words(page):
    labels = {e.text() for e in page.all("text", class_="topic") if "behind" in e.text()}
    assert labels == {"records behind: peak 90, last known 41 at 04:05:00", "records behind: peak 4, last known 3 at 04:05:00"}


def test_a_group_that_hands_out_no_partitions_shows_its_rebalances(tmp_path):
    steps = [fleet.step("connect", 1, 1, {"w-1#1": {}, "w-2#2": {}}, group_type="connect", n_partitions=None)]
    page = read(page_of(fleet.write(tmp_path, rebalances=steps, group_report=[fleet.report_row("connect")])))
    part = section(page, "connect")
    assert [e.text() for e in part.all("ul", class_="legend")[0].all("li")] == ["A w-1", "B w-2"]
    assert "This group hands out no topic partitions" in part.text()


def lanes(path: Path) -> list[list[tuple[str, float, float, str]]]:
    """Of each drawing the pieces of its lane of health."""
    return [[piece for piece in ribbons(drawing) if piece[3].startswith("health: ")] for drawing in drawings(path)]


def test_the_lane_of_health_shows_the_states_of_the_group_in_order_and_its_head_the_last_one(path, page):
    only_commits, eager = sorted((lane for lane in lanes(path) if lane), key=len)
    assert [(code, title) for code, _, _, title in eager] == [
        ("h ok", "health: ok, 04:01:00 to 04:04:54 (3 min 54 s); 10 behind, then 1,200"),
        (
            "h stopped",
            "health: stopped, 04:04:54 to 04:05:00 (6 s); seen at 04:05:24, 1 partition; 10 behind, then 1,200",
        ),
        (
            "h falling_behind",
            "health: falling behind, 04:05:00 to 04:10:00 (5 min), still; seen at 04:05:30, 2 partitions; 10 behind, then 1,200",
        ),
    ]
    assert [code for code, _, _, _ in only_commits] == ["h ok"]
    for (_, _, end, _), (_, begin, _, _) in pairwise(eager):
        assert begin - end == pytest.approx(0.6, abs=0.2)
    assert section(page, "eager").all("span", class_="badge")[0].text() == "falling behind"


def test_of_too_many_states_the_longest_are_drawn():
    rows = [fleet.state("a", "stopped" if at % 2 else "ok", at, at + (1 if at % 2 else 0.1)) for at in range(8)]
    axis = Axis(fleet.START, fleet.END, 0, 100)
    states, notes = lane(rows, axis, 4, brief=True)
    assert [(state.code, state.x) for state in states] == [("stopped", x) for x in (10, 30, 50, 70)]
    assert notes == ["Of 8 states of health the 4 longest are drawn."]
    later = Axis(fleet.START + round(2.5 * fleet.MINUTE), fleet.END, 0, 100)
    states, notes = lane(rows, later, 9, brief=True)
    assert (len(states), notes) == (5, [])


def test_a_waiting_eager_group_and_an_unknown_past_are_drawn(path):
    classes = [rect.get("class") for drawing in drawings(path) for rect in drawing.iter("rect")]
    assert classes.count("wait") == 1
    assert classes.count("unknown") == 1


def test_pieces_stay_inside_the_drawing(path):
    for drawing in drawings(path):
        _, _, width, height = map(float, drawing.get("viewBox", "").split())
        for strip in drawing.iter("g"):
            top = float(strip.get("transform", "(0 0)").strip(")").split()[-1]) if strip.get("data-p") else 0
            for rect in strip.iter("rect"):
                x, y, w, h = (float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
                assert 0 <= x < x + w <= width
                assert 0 < top <= top + y < top + y + h <= height


def big(out: Path, groups: int) -> Path:
    members = {f"m{i:02d}#1": {"t": list(range(i * 10, i * 10 + 10))} for i in range(12)}
    other = {name: {"t": parts["t"][:9]} for name, parts in members.items()}
    names = [f"g{i:03d}" for i in range(groups)]
    steps = [fleet.step(name, n, n / 2, members if n % 2 else other) for name in names for n in range(1, 11)]
    return fleet.write(
        out,
        rebalances=steps,
        group_report=[fleet.report_row(name, rebalances=groups - i) for i, name in enumerate(names)],
        findings=[fleet.finding(i + 1, "g005") for i in range(9)],
    )


def test_findings_of_groups_that_are_left_out_are_counted(tmp_path):
    names = [f"g{at}" for at in range(5)]
    found = [fleet.finding(at + 1, name) for at, name in enumerate(names)]
    out = fleet.write(tmp_path, group_report=[fleet.report_row(name) for name in names], findings=found)
    text = read(page_of(out, Limits(groups=3))).text()
    assert "3 findings ; first g0" in text
    assert "2 more findings not shown" in text


def test_whatever_is_left_out_is_said(tmp_path):
    limits = Limits(groups=5, full=2, rows=3, findings=3, steps=8, listed=4, ribbons=16, segments=1000, members=10)
    page = read(page_of(big(tmp_path, 7), limits))
    assert [part.all("h3")[0].text() for part in page.all("details", class_="group")] == ["g005", "g000"]
    text = page.text()
    for words in (
        "The sections of 3 more groups open from the table of groups",
        "The sections of 3 more groups need scripts",
        "2 more groups not listed",
        "6 more findings not shown",
        "104 more partitions not drawn",
        "2 older steps not drawn",
        "10 steps in words, the newest 4",
        "2 more members not drawn, with 9 to 9 partitions each",
        "2 more members not listed",
    ):
        assert words in text
    assert [len(part.all("tr")) for part in page.all("table", class_="groups")] == [1 + 3, 1 + 2]


def test_every_choice_of_a_filter_counts_its_groups(page):
    choices = {e.attributes["name"]: [(o.attributes["value"], o.text()) for o in e.all("option")[1:]] for e in page.all("select")}
    assert choices["kind"] == [("needless_moves", "needless moves (3)")]
    assert choices["severity"] == [("critical", "critical (1)"), ("notice", "notice (1)"), ("warning", "warning (1)")]
    assert choices["library"] == [("java", "java (6)")]
    assert choices["health"] == [("falling behind", "falling behind (1)")]
    assert choices["strategy"][0] == ("range", "range (2)")
    assert {value for value, _ in choices["strategy"]} == {"range", "cooperative-sticky", fleet.HOSTILE, "simple", "\u2013"}
    assert [value for value, _ in choices["action"]] == ["1", "2"]


def test_sections_beyond_the_full_ones_are_brief_and_packed(tmp_path):
    """Each block has the same number of groups, in the order of the table; texts to find cover all groups."""
    path = page_of(big(tmp_path, 8), Limits(full=3, packed=2))
    page = read(path)
    order = [row.all("bdi")[0].text() for row in listed(page)]
    blocks = unpacked(path)
    assert [[part.all("h3")[0].text() for part in block.all("details", class_="group")] for block in blocks] == [
        order[3:5],
        order[5:7],
        order[7:],
    ]
    assert len(ribbons(drawings(path)[0])) == 48 * 2
    brief = section(blocks[0], order[3])
    strips = [e for e in brief.all("g") if "data-p" in e.attributes]
    assert (len(strips), sum(len(strip.all("rect")) for strip in strips)) == (6, 30)
    assert len(brief.all("table", class_="strategies")[0].all("tr")) == 1 + 2
    (packing,) = [e for e in page.all("div") if e.attributes.get("id") == "packed"]
    assert (packing.attributes["data-full"], packing.attributes["data-size"]) == ("3", "2")
    (terms,) = [e for e in page.all("data") if e.attributes.get("id") == "terms"]
    assert inflated(terms.attributes["value"]).split("\n") == ["t " + " ".join(f"m{i:02d}" for i in range(12))] * 8


def test_sections_in_full_end_where_their_bytes_are_used_up(tmp_path):
    path = page_of(big(tmp_path, 6), Limits(full_bytes=60_000))
    assert len(drawings(path)) == 2
    assert sum(len(block.all("details", class_="group")) for block in unpacked(path)) == 4


def test_the_page_grows_with_its_limits_and_not_with_the_fleet(tmp_path):
    limits = Limits(groups=3)
    small = page_of(big(tmp_path / "a", 12), limits).stat().st_size
    large = page_of(big(tmp_path / "b", 60), limits).stat().st_size
    assert large < small * 1.05


def test_of_groups_that_are_left_out_only_a_few_numbers_are_read(tmp_path, monkeypatch):
    real, sizes = audit_output._rows, []

    def counted(table):
        sizes.append(table.num_rows * table.num_columns)
        return real(table)

    monkeypatch.setattr(audit_output, "_rows", counted)
    read_of = []
    for groups in (12, 60):
        sizes.clear()
        page_of(big(tmp_path / str(groups), groups), Limits(groups=3))
        read_of.append(sum(sizes))
    assert read_of[1] - read_of[0] < 5 * (60 - 12)


def test_the_lag_of_all_groups_over_months_is_never_in_memory_at_once(tmp_path, monkeypatch):
    names = [f"g{at}" for at in range(6)]
    lag = [row for name in names for row in fleet.lag_rows(name, "m#1", range(9))]
    out = fleet.write(tmp_path, group_report=[fleet.report_row(name) for name in names], partition_lag=lag)
    whole, read_at_once = page_of(out).read_bytes(), []
    real = audit_output.Audit.lags

    def counted(self, *given):
        found = real(self, *given)
        read_at_once.append(sum(len(series.at) for series in found.values()))
        return found

    monkeypatch.setattr(audit_output.Audit, "lags", counted)
    monkeypatch.setattr(sections, "_SAMPLES_AT_ONCE", 20, raising=False)
    assert page_of(out).read_bytes() == whole
    assert read_at_once == [18, 18, 18]


def test_the_same_tables_give_the_same_bytes_whatever_their_order_and_timestamps(tmp_path):
    """Rows in another order, in several files, with Spark's INT96 timestamps."""
    one, other = fleet.small(tmp_path / "one"), fleet.small(tmp_path / "other")
    for folder in (other / "tables").iterdir():
        table = pq.read_table(folder / "part-0.parquet")
        turned = table.take(np.arange(table.num_rows)[::-1])
        half = turned.num_rows // 2
        pq.write_table(turned.slice(half), folder / "part-0.parquet", use_deprecated_int96_timestamps=True)
        pq.write_table(turned.slice(0, half), folder / "part-1.parquet", use_deprecated_int96_timestamps=True)
        (folder / "_SUCCESS").touch()
    assert page_of(one).read_bytes() == page_of(other).read_bytes()


def test_an_audit_that_found_nothing_still_makes_a_page(tmp_path):
    page = read(page_of(fleet.write(tmp_path)))
    assert "Nothing found." in page.text()
    assert page.all("h1")[0].text() == "0 groups made 0 rebalances in 10 min: nothing to do."


def test_a_table_without_any_file_is_an_empty_table(tmp_path):
    """Spark may write nothing but its marker where there is no row."""
    out = fleet.write(tmp_path)
    for folder in (out / "tables").iterdir():
        (folder / "part-0.parquet").unlink()
        (folder / "_SUCCESS").touch()
    assert "Nothing found." in read(page_of(out)).text()


def test_a_folder_that_is_no_audit_is_named_in_one_clear_line(tmp_path):
    with pytest.raises(CaptureError, match=r"summary\.json: not found; .* run `counterpoise audit"):
        page_of(tmp_path)
    (tmp_path / "summary.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CaptureError, match="is not an audit's summary"):
        page_of(tmp_path)
    (tmp_path / "summary.json").write_text("{", encoding="utf-8")
    with pytest.raises(CaptureError, match="cannot be read"):
        page_of(tmp_path)


@pytest.mark.parametrize("damage", ["gone", "torn", "column"])
def test_a_damaged_table_is_named_and_leaves_no_half_page(tmp_path, damage):
    out = fleet.small(tmp_path)
    file = out / "tables" / "rebalances" / "part-0.parquet"
    if damage == "gone":
        file.unlink()
        file.parent.rmdir()
    elif damage == "torn":
        file.write_bytes(file.read_bytes()[:100])
    else:
        pq.write_table(pq.read_table(file).drop_columns(["log_ts"]), file)
    with pytest.raises(CaptureError, match=r"tables.rebalances.*run the audit again"):
        page_of(out)
    assert sorted(p.name for p in out.iterdir()) == ["summary.json", "tables"]


@pytest.mark.parametrize("library", ["jinja2", "pyarrow"])
def test_a_missing_library_names_the_extra(tmp_path, monkeypatch, library):
    out = fleet.small(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("report"))):
        page_of(out)


@pytest.mark.parametrize(("table", "column"), [("group_report", "health"), ("findings", "accepted_until")])
def test_an_audit_of_an_earlier_version_is_refused_with_what_it_lacks(tmp_path, table, column):
    out = fleet.small(tmp_path)
    file = out / "tables" / table / "part-0.parquet"
    pq.write_table(pq.read_table(file).drop_columns([column]), file)
    words = rf"tables.{table}: no column {column}; an earlier version wrote it: run the audit again, into a new folder"
    with pytest.raises(CaptureError, match=words):
        page_of(out)


def test_the_summary_is_not_changed_by_reading_it(tmp_path):
    out = fleet.small(tmp_path)
    before = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    page_of(out)
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == before


def test_importing_the_report_needs_no_extra():
    """jinja2, pyarrow and rich are imported where they are used."""
    absent = "jinja2", "markupsafe", "pyarrow", "rich", "pyspark"
    code = f"import sys; sys.modules |= dict.fromkeys({absent}); import counterpoise.report"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stderr == ""


def test_an_audit_on_an_object_store_gets_the_same_page(tmp_path: Path, s3: str) -> None:
    """Its tables are read from there, and the page is put there."""
    local = page_of(fleet.small(tmp_path))
    local.unlink()
    place = write_report(upload(tmp_path, f"{s3}/out"))
    assert place == f"{s3}/out/report.html"
    assert read_bytes(place) == page_of(tmp_path).read_bytes()


def test_a_report_is_of_the_files_that_the_manifest_names(tmp_path: Path) -> None:
    """Of tables and summary alike, whatever else lies in the folder."""
    with (work := TableTransaction(str(fleet.small(tmp_path)))).open():
        work.publish([], (), {"summary.json": (tmp_path / "summary.json").read_bytes()})
    before = page_of(tmp_path).read_bytes()
    (tmp_path / "summary.json").write_text("{}")
    table = next((tmp_path / "tables" / "group_report").rglob("*.parquet"))
    shutil.copy(table, table.with_name("part-again.parquet"))
    assert page_of(tmp_path).read_bytes() == before
