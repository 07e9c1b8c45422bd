"""The spelling check of `make lint` finds a misspelt word, and leaves code and names alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SPELLING = runpy.run_path(str(Path(__file__).resolve().parents[1] / "scripts" / "spelling.py"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A partion moves.", ["partion"]),
        ("Each member's partitions, and aiokafka's.", []),
        ("`partion`, [pages](partions.md), --partion, partion_lag, DataFrame, n2", []),
        ("```\npartion\n```\n\n    partion\n    partion\n\npartion : int\n    The partitoin.", ["partitoin"]),
    ],
)
def test_a_word_that_is_neither_english_nor_listed_is_found(text: str, words: list[str]) -> None:
    assert SPELLING["unknown"](text, SPELLING["english"]()) == words


def test_pages_notebooks_and_docstrings_are_read() -> None:
    places = {place.rpartition(".")[2] for place, text in SPELLING["texts"]() if text}
    assert places == {"md", "ipynb", "py"}
