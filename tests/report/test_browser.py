"""The page in a real browser, with 2,000 groups: what is laid out, filters, addresses, CSV, phones, paper, no scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from counterpoise.report.render import write_report
from counterpoise.report.words import slug
from tests.report import fleet
from tests.report.browser import Browser, pages

GROUPS = 2000
ROWS = "[...document.querySelectorAll('#group-sheet tbody tr')]"
SHOWN = "document.querySelector('#matches').textContent"
Filter = Callable[..., str]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_report(fleet.many(tmp_path_factory.mktemp("fleet"), GROUPS)))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    running = Browser()
    yield running
    running.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The window as an operator has it; afterwards nothing may have failed, and nothing may have been forbidden."""
    chromium.size(1400, 1000)
    yield chromium
    assert chromium.complaints() == []


@pytest.fixture
def chosen(browser: Browser, page: Path) -> Filter:
    """Fills in filters as a reader does; returns how many groups are left."""
    browser.open(page)

    def fill(**filters: str) -> str:
        for name, value in filters.items():
            script = """
                const input = document.querySelector(`#view [name=${arguments[0]}]`);
                input.value = arguments[1];
                input.dispatchEvent(new Event("input", { bubbles: true }));
                return input.value"""
            assert browser.run(script, name, value) == value, "the filter offers it"
        browser.until(f"{SHOWN} || !location.hash.includes('?')")
        return str(browser.js(SHOWN))

    return fill


def names(browser: Browser) -> list[str]:
    found: list[str] = browser.js(f"{ROWS}.map(row => row.querySelector('bdi').textContent)")
    return found


def test_a_page_of_2000_groups_is_small_and_lays_out_few_elements(browser: Browser, page: Path) -> None:
    assert page.stat().st_size < 8_000_000
    browser.open(page)
    assert len(names(browser)) == 100
    assert browser.js("document.getElementsByTagName('*').length") < 6000
    assert browser.js("document.querySelectorAll('#sections > details:not([open]) *').length") < 60 * 16


def test_a_section_is_laid_out_when_it_opens(browser: Browser, page: Path) -> None:
    browser.open(page)
    drawn = "document.querySelectorAll('svg.life').length"
    assert browser.js(drawn) == 1
    browser.click("#sections > details > summary", 1)
    browser.until(f"{drawn} === 2")
    browser.click(".of-kind > summary", 1)
    browser.until("document.querySelectorAll('.of-kind')[1].querySelectorAll('tbody tr').length === 100")


def test_a_text_finds_a_group_a_topic_and_a_client_id(browser: Browser, chosen: Filter) -> None:
    assert (chosen(text="GROUP-0042"), names(browser)) == ("1 of 2,000 groups", ["group-0042"])
    assert chosen(text="topic-19") == "100 of 2,000 groups"
    assert (chosen(text="client-1742-b"), names(browser)) == ("1 of 2,000 groups", ["group-1742"])
    assert (chosen(text="onerror=alert(3)"), names(browser)) == ("1 of 2,000 groups", [fleet.NASTY])
    assert chosen(text="topic-19 client-1899-a") == "0 of 2,000 groups"


def test_filters_choose_groups_and_findings_alike(browser: Browser, chosen: Filter) -> None:
    assert chosen(severity="critical") == "20 of 2,000 groups"
    shown = "[...document.querySelectorAll('.of-kind:not([hidden])')]"
    kinds = f"{shown}.map(e => [e.dataset.kind, e.querySelector('.n-of').textContent])"
    assert browser.js(kinds) == [[kind, "5 findings"] for kind in fleet.KINDS]
    assert chosen(kind="storm") == "5 of 2,000 groups"
    browser.click("#kind-storm > summary")
    browser.until("document.querySelectorAll('#kind-storm tbody tr').length === 5")
    assert chosen(severity="", kind="", strategy="sticky") == "1,000 of 2,000 groups"
    assert chosen(library="librdkafka") == "0 of 2,000 groups"
    assert chosen(strategy="range") == "500 of 2,000 groups"
    assert chosen(strategy="", library="", action="2") == "40 of 2,000 groups"
    assert chosen(action="", health="stalled") == "20 of 2,000 groups"
    assert chosen(health="", text="stalled") == "20 of 2,000 groups"
    chosen(text="")
    browser.click("#clear")
    browser.until(f"{ROWS}.length === 100")
    assert browser.js(f"[location.hash, {shown}.length]") == ["#groups", 4]


def test_the_view_is_in_the_address(browser: Browser, chosen: Filter, page: Path) -> None:
    chosen(text="topic-3 client", severity="warning")
    browser.click("#group-sheet th[data-k=lag] button")
    browser.until(f"{ROWS}[0].textContent.includes('group-0399')")
    before, address = names(browser), browser.js("location.hash")
    assert address == "#groups?text=topic-3+client&severity=warning&sort=-lag"
    browser.open(page, address)
    browser.until(f"{ROWS}[0].textContent.includes('group-0399')")
    assert names(browser) == before
    assert browser.js("document.querySelector('#view [name=text]').value") == "topic-3 client"
    browser.click("#group-sheet tbody a", 5)
    browser.until("document.getElementById('g-group-0394')")
    assert browser.js("location.hash") == "#g-group-0394?text=topic-3+client&severity=warning&sort=-lag"
    browser.run("history.back()")
    browser.until(f"location.hash === '{address}'")
    assert names(browser) == before


@pytest.mark.parametrize("group", ["group-0001", "group-1234", fleet.NASTY])
def test_a_link_to_a_group_opens_it_wherever_it_is(browser: Browser, page: Path, group: str) -> None:
    anchor = slug(group)
    browser.open(page, f"#{quote(anchor)}")
    browser.until(f"document.getElementById('{anchor}')?.open && scrollY > 0")
    section = f"document.getElementById('{anchor}')"
    assert browser.js(f"{section}.querySelector('h3').textContent") == group
    assert browser.js(f"{section}.querySelectorAll('svg.life, .finding').length") == 1 + 3
    assert not browser.js(f"{section}.querySelector('details.steps').open")
    top = browser.js(f"{section}.getBoundingClientRect().top")
    assert 0 <= top < 100
    assert browser.js("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("rank", [2, 3 * GROUPS])
def test_a_link_to_a_finding_opens_its_group(browser: Browser, page: Path, rank: int) -> None:
    browser.open(page, f"#finding-{rank}")
    browser.until(f"document.getElementById('finding-{rank}')?.checkVisibility() && scrollY > 0")
    found = f"document.getElementById('finding-{rank}')"
    assert 0 <= browser.js(f"{found}.getBoundingClientRect().top") < 100
    expected = fleet.NASTY if rank == 3 * GROUPS else "group-0001"
    assert browser.js(f"{found}.closest('details').querySelector('h3').textContent") == expected


def test_a_link_shows_a_group_that_the_filter_leaves_out(browser: Browser, page: Path) -> None:
    browser.open(page, "#g-group-0003?text=group-0001")
    browser.until("document.getElementById('g-group-0003').checkVisibility() && document.getElementById('g-group-0003').open")
    assert browser.js(SHOWN) == "1 of 2,000 groups"


def test_the_table_sorts_by_numbers_and_by_names_and_shows_more_on_demand(browser: Browser, page: Path) -> None:
    browser.open(page)
    head = "#group-sheet th[data-k={}] button"
    browser.click(head.format("stopped"))
    browser.until(f"{ROWS}[0].textContent.includes('group-1998')")
    browser.click(head.format("stopped"))
    browser.until(f"{ROWS}[0].textContent.includes('group-0009')")
    assert browser.js("document.querySelector('#group-sheet th[data-k=stopped]').ariaSort") == "ascending"
    assert browser.js(f"{ROWS}[0].cells[3].textContent") == "\u2013", "what is not known comes before the smallest"
    browser.click(head.format("health"))
    browser.until(f"{ROWS}[0].textContent.includes('group-0007')")
    states = browser.js(f"{ROWS}.map(row => row.cells[1].textContent)")
    assert states == 20 * ["stalled"] + 20 * ["catching up"] + 60 * ["ok"], "the worst first"
    browser.click(head.format("group"))
    browser.until(f"{ROWS}[0].textContent.includes('=cmd')")
    browser.click("#group-sheet .more")
    browser.until(f"{ROWS}.length === 200")
    assert names(browser)[1] == "group-0000"


def test_a_table_of_strategies_sorts_by_what_its_numbers_mean(browser: Browser, page: Path) -> None:
    browser.open(page, "#g-group-0000")
    browser.until("document.querySelector('#g-group-0000 table.strategies thead button')")
    first = "document.querySelector('#g-group-0000 table.strategies tbody tr').cells[{}].textContent"
    browser.click("#g-group-0000 table.strategies th:nth-child(9) button")
    assert browser.js(first.format(8)) == "12.3 k"
    browser.click("#g-group-0000 table.strategies th:nth-child(5) button")
    browser.click("#g-group-0000 table.strategies th:nth-child(5) button")
    assert browser.js(first.format(4)) == "\u2248 18"


def table_of(browser: Browser, sheet: str) -> list[list[str]]:
    """The CSV that the button of a sheet saves."""
    script = """
        const box = document.querySelector(arguments[0]), saved = [];
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { saved.push(blob); return make(blob); };
        box.querySelector("button.csv").click();
        URL.createObjectURL = make;
        return await saved[0].text()"""
    return list(csv.reader(io.StringIO(browser.run(script, sheet))))


def test_any_table_is_saved_as_csv_with_all_rows_of_the_view(browser: Browser, chosen: Filter) -> None:
    chosen(text="topic-19")
    head, *rows = table_of(browser, "#group-sheet")
    assert head[:6] == ["group", "health", "findings", "stopped", "lag", "time_lag"]
    assert len(rows) == 100
    first = dict(zip(head, rows[0], strict=True))
    assert (first["group"], first["findings"], first["stopped"], first["lag"]) == ("group-1900", "3", "237.5", "3800")
    assert (head.count("health"), [row[1] for row in rows[6:9]]) == (1, ["ok", "stalled", "catching up"])
    assert (first["type"], first["libraries"], first["kinds"].split()[0]) == ("classic", "librdkafka", "storm:warning:1901")
    last = dict(zip(head, rows[-1], strict=True))
    assert (last["group"], last["stopped"]) == (f"'{fleet.NASTY}", ""), "text for a spreadsheet; what is unknown is empty"
    browser.click("#kind-storm > summary")
    browser.until("document.querySelector('#kind-storm tbody tr')")
    head, *rows = table_of(browser, "#kind-storm .sheet")
    assert head == ["Rank", "Severity", "Group", "What was seen", "What it costs"]
    assert rows[0] == ["1901", "warning", "group-1900", "Moves of group-1900", "12 partition-seconds"]
    assert len(table_of(browser, "#strategies .sheet")) == 2
    browser.click("#clear")
    browser.until(f"{ROWS}.length === 100")
    assert len(table_of(browser, "#group-sheet")) == 1 + GROUPS


def test_on_a_phone_nothing_is_wider_than_the_screen_and_an_operators_columns_are_there(browser: Browser, page: Path) -> None:
    browser.size(390, 844, phone=True)
    browser.open(page, "#groups")
    assert browser.js("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    heads = """[...document.querySelectorAll('#group-sheet th[data-k]')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().right <= innerWidth).map(e => e.dataset.k)"""
    assert browser.js(heads) == ["group", "health", "findings", "stopped", "lag", "time_lag"]
    browser.open(page, "#g-group-1234")
    browser.until("document.getElementById('g-group-1234')?.open")
    assert browser.js("document.documentElement.scrollWidth") == 390


def test_the_report_prints_on_few_pages(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert pages(browser.pdf()) <= 20
    browser.open(page, "#groups?text=topic-19")
    browser.until(SHOWN)
    assert pages(browser.pdf()) <= 20


def test_on_paper_nothing_is_wider_than_the_page(browser: Browser, page: Path) -> None:
    """A4 with margins of 12 mm has 703 CSS pixels; Chromium would make everything smaller, or cut it."""
    browser.size(703, 1000)
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    try:
        browser.open(page, "#g-group-0000")
        browser.until("document.getElementById('g-group-0000')?.open")
        assert browser.js("document.querySelectorAll('#g-group-0000 table.strategies').length") == 1
        ends = "[...document.querySelectorAll('table, main')].map(e => [e.className, e.getBoundingClientRect().right])"
        assert browser.js(f"{ends}.filter(e => e[1] > 703)") == []
    finally:
        browser.cdp("Emulation.setEmulatedMedia", media="")


def test_without_scripts_every_group_and_every_finding_can_be_read_in_order(browser: Browser, page: Path) -> None:
    browser.scripts(on=False)
    try:
        browser.open(page)
        found = browser.cdp("Runtime.evaluate", expression="document.body.textContent", returnByValue=True)
    finally:
        browser.scripts(on=True)
    text = found["result"]["value"]
    words = "What to do", "group-0000", "group-1998", "Findings by kind", "Moves of group-0000", "Who owned which partition"
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert [text.count(f"Moves of group-{at}") for at in (1234, 1998)] == [3, 3]
    assert text.count("12 partition-seconds") >= 3 * GROUPS
    n_full = page.read_text().count('<details class="card group"')
    assert n_full >= 40
    assert f"The sections of {GROUPS - n_full:,} more groups need scripts" in text


def test_a_piece_of_ribbon_says_whose_it_is(browser: Browser, page: Path) -> None:
    browser.open(page)
    ribbon = "document.querySelector('svg.life g[data-p] rect')"
    browser.run(f"{ribbon}.dispatchEvent(new Event('pointerover', {{ bubbles: true }}))")
    assert browser.js("document.querySelector('#tip').textContent").startswith("topic-0-0: client-0-a, 04:01:00 to 04:10:00")


def test_a_member_in_the_legend_picks_out_its_ribbons(browser: Browser, page: Path) -> None:
    browser.open(page, "#g-group-1234")
    browser.until("document.getElementById('g-group-1234')?.open")
    group = "document.getElementById('g-group-1234')"
    browser.click("#g-group-1234 .legend li", 1)
    assert browser.js(f"[...{group}.querySelectorAll('rect.hot')].every(e => e.closest('svg.life') && e.matches('.m1'))")
    assert browser.js(f"{group}.querySelectorAll('rect.hot').length") == 2
