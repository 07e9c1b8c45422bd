"""The README tells the truth: its Python runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from counterpoise.assignors.registry import strategies
from counterpoise.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    live, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "orders-2" in capsys.readouterr().out
    compile(live, "README.md", "exec")
    exec(live.split("\n\n")[0], {})


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """To a file that is there, and to a heading of it."""
    path = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            found = path.parent / target if target else path
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_modules_and_tests_that_a_page_names_exist(page: str) -> None:
    """By their path in the repository, in the package, or in its pipeline; and so do the targets of `make`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    places = [ROOT, ROOT / "src" / "counterpoise", ROOT / "src" / "counterpoise" / "pipeline"]
    for name in re.findall(r"`([\w/]+/\w+\.py)`", text):
        assert any((place / name).exists() for place in places), name
    for module in re.findall(r"python -m ([\w.]+)", text):
        assert find_spec(module), module
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reachable_from_the_readme() -> None:
    """By links from page to page."""
    found, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            targets = re.findall(r"\]\(([^)#\s:]+\.md)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
            waiting += [((ROOT / page).parent / target).resolve().relative_to(ROOT).as_posix() for target in targets]
    assert set(PAGES) - found == set()


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    """Those of docs, those beside README.md, and those that the hook generates."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1].split("\ntheme:")[0]
    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    written = {"index.md" if page == "README.md" else page.removeprefix("docs/") for page in PAGES}
    assert sorted(listed) == sorted({*written, "api.md", "commands.md", "examples.md"})


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_begins_with_the_question_it_answers(page: str) -> None:
    """In its title or first sentence."""
    title, first = (ROOT / page).read_text(encoding="utf-8").split("\n\n")[:2]
    assert "?" in title + first.split(". ")[0]


def test_every_extra_that_a_page_installs_exists() -> None:
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES if page != "CHANGELOG.md"]
    installed = {
        extra for text in texts for line in re.findall(r"pip install '\.\[([\w,-]+)\]'", text) for extra in line.split(",")
    }
    in_table = README.split("## Install")[1].split("## ")[0].split("|---|---|")[1]
    named = {extra for words in re.findall(r"`([\w,-]+)`", in_table) for extra in words.split(",")}
    assert "live" in installed & named
    assert (installed | named) - known == set()


def test_every_error_message_of_the_page_of_questions_is_one_of_the_program() -> None:
    """Its pieces between dots are words of the source, in their order in one message."""
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split("## Error messages")[1]
    messages = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    joined = re.sub(r"\"\n\s*f?\"", "", source)
    absent = [each for each in messages if not re.search(".*".join(map(re.escape, each.split("..."))), joined)]
    assert (len(messages), absent) == (9, [])


def test_every_command_named_in_the_readme_exists() -> None:
    (console,) = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    named = set(re.findall(r"counterpoise (\w+)", console))
    assert named <= set(app.list_commands(None))  # type: ignore[arg-type]
    assert {"audit", "plan", "verify", "explain", "lag"} <= named


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_a_page_gives_to_a_command_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    assert set(re.findall(r"`counterpoise ([a-z]+)", text if page != "CHANGELOG.md" else "")) <= set(app.list_commands(None))  # type: ignore[arg-type]
    for name, rest in re.findall(r"counterpoise ([a-z]+)([^|&`#\n]*)", text if page != "CHANGELOG.md" else ""):
        if command := app.get_command(None, name):  # type: ignore[arg-type]
            known = {option for parameter in command.params for option in parameter.opts}
            assert set(re.findall(r"(?<![\w-])--[a-z-]+", rest)) <= known | {"--help"}, name


def test_the_python_of_pages_is_right_by_its_types(tmp_path: Path) -> None:
    """Names that a sample leaves out (`consumer`) are of any type. With the cache of `make lint` this takes a second."""
    leaves_out = '# mypy: disable-error-code="empty-body, name-defined, no-redef, no-untyped-def"'
    for page in PAGES:
        found = re.findall(r"^```python\n(?!>>>)(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        (tmp_path / page.replace("/", "_").replace(".md", ".py")).write_text("\n".join([leaves_out, *found]), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", *map(str, sorted(tmp_path.iterdir()))]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_strategy_is_in_the_table() -> None:
    table = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8").split("## Strategies")[1].split("## ")[0]
    for name in strategies():
        assert f"`{name}`" in table
