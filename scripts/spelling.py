"""Checks the spelling of pages, notebooks and docstrings: each word is English (pyspellchecker) or in scripts/words.txt.

Code, addresses, paths and names in CamelCase are not checked. Exits with 1 and one line per unknown word and place.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from spellchecker import SpellChecker

__all__ = ["english", "texts", "unknown"]

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(
    r"```.*?```|\n\n(?: {4}[^\n]*\n?)+|`[^`\n]*`|\]\([^)\n]*\)|<[^>\n]*>|\S*://\S+"  # blocks, spans, links, tags, addresses
    r"|^\s*[\w*, ]+ : [^\n]*$|^>>>[^\n]*$"  # parameters and examples of a docstring
    r"|[^\W\d_]+\.[^\W\d_]+\S*|\S*[_/\\={}@<>]\S*|\S*[\d\u00b2\u03a3\u03c3]\S*|--?[a-z]\S*",  # names, paths, options, numbers
    re.DOTALL | re.MULTILINE,
)
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
CAMEL_CASE = re.compile(r".+[A-Z]")


def texts() -> Iterator[tuple[str, str]]:
    """Place and text of everything that is checked."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]):
        yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    for notebook in sorted(ROOT.glob("examples/notebooks/*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        yield str(notebook.relative_to(ROOT)), "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for module in sorted(ROOT.glob("src/**/*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield str(module.relative_to(ROOT)), ast.get_docstring(node) or ""


@cache
def english() -> SpellChecker:
    """The dictionary, with the words of scripts/words.txt."""
    dictionary = SpellChecker(language="en")
    dictionary.word_frequency.load_words((ROOT / "scripts" / "words.txt").read_text(encoding="utf-8").split())
    return dictionary


def unknown(text: str, dictionary: SpellChecker) -> list[str]:
    """Words of a text that the dictionary does not have, in lower case and sorted."""
    words = {re.sub(r"'s?$", "", word) for word in WORD.findall(CODE.sub(" ", text)) if not CAMEL_CASE.match(word)}
    return sorted(dictionary.unknown(words))


def main() -> int:
    """Print each unknown word with its place; returns the exit code."""
    dictionary = english()
    found = sorted({(place, word) for place, text in texts() for word in unknown(text, dictionary)})
    for place, word in found:
        print(f"{place}: {word!r} is unknown; correct it, mark it as code, or add it to scripts/words.txt", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
