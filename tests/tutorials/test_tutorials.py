"""Every command of the tutorials is run, in the order of the page, and prints what the page says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.java import java_home
from tests.tutorials.reader import Block, Reader, blocks, matches

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OWN = {".git", "out", "docs"}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader at a clone: links to all that is in this one, and an `out` of its own; a free port in place of 9092."""
    for each in ROOT.iterdir():
        if each.name not in OWN:
            (tmp_path / each.name).symlink_to(each)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    reader = Reader(tmp_path, {"9092": port}, {"PORT": port, "JAVA_HOME": java_home()})
    try:
        yield reader
    finally:
        reader.close()


@pytest.mark.kafka
def test_a_safer_rebalance_and_an_audit_of_the_cluster(reader: Reader) -> None:
    """The second page goes on with the broker and the workers of the first."""
    for page in ("tutorial-consumer.md", "tutorial-cluster.md"):
        reader.read((DOCS / page).read_text(encoding="utf-8"))


def test_from_the_demo_to_a_decision(reader: Reader) -> None:
    reader.read((DOCS / "tutorial-demo.md").read_text(encoding="utf-8"))


def test_every_tutorial_is_done() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    assert [page.name for page in DOCS.glob("tutorial-*.md") if f'"{page.name}"' not in source] == []


@pytest.mark.parametrize(
    ("expected", "output", "found"),
    [
        ("a ... c\n", "x\na b c\ny\n", True),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\nc\n", "a\nb\nc\n", False),
        ("a 1\n", "a 10\n", False),
        ("a  b c\n", "a    b c\n", True),
        ("a  b c\n", "a  b  c\n", False),
        ("...\nc\n", "a\nb\n", False),
    ],
)
def test_an_output_that_the_page_does_not_print_is_found(expected: str, output: str, found: bool) -> None:
    assert matches(expected, output) is found


def test_blocks_are_read_with_their_titles() -> None:
    page = 'x\n\n```sh title="terminal 1"\na\n```\n<!-- Ctrl-C: terminal 1 -->\n```text\nb\n```\n'
    assert blocks(page) == [Block("sh", "terminal 1", "a\n"), Block("Ctrl-C", "", "terminal 1"), Block("text", "", "b\n")]


def test_a_command_that_fails_fails_the_page(reader: Reader) -> None:
    reader.read("```sh\n(exit 1)\n```\n")
    with pytest.raises(AssertionError, match=r"exit 2.* ended with 2"):
        reader.read("```sh\n(exit 2)\n```\n")
