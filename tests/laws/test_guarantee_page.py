"""The page that explains the guarantee says what the library does."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from counterpoise.laws import LAWS

PAGE = Path(__file__).parents[2] / "docs" / "guarantee.md"


def test_the_examples_of_the_page_come_out_as_printed() -> None:
    """Every example is run."""
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted > 5) == (0, True)


def test_the_page_names_every_law_and_shows_pictures_that_exist() -> None:
    """A law added or renamed must reach the page."""
    text = PAGE.read_text(encoding="utf-8")
    assert [law for law in LAWS if f"`{law}`" not in text] == []
    pictures = re.findall(r"\]\((img/[^)]+)\)", text)
    assert len(pictures) == 2
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
