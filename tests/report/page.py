"""Reads a page back, as a browser would, for tests: elements, attributes, text, tables and drawings."""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

VOID = {"meta", "link", "input", "br", "img"}


@dataclass
class Element:
    """An element with its children in order; text is a child too."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str, **wanted: str) -> list[Element]:
        """Every descendant of this tag whose attributes hold `wanted` (``class_`` as one of the classes)."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag and all(
                    value in child.attributes.get(name.rstrip("_"), "").split() for name, value in wanted.items()
                ):
                    found.append(child)
                found.extend(child.all(tag, **wanted))
        return found

    def text(self) -> str:
        """All text below, white space folded."""
        parts = [child if isinstance(child, str) else child.text() for child in self.children]
        return " ".join(" ".join(parts).split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(path: Path) -> Element:
    """The page as a tree; badly nested elements are an error."""
    return parsed(path.read_text(encoding="utf-8"))


def parsed(text: str) -> Element:
    """HTML as a tree."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert len(builder.open) == 1, f"<{builder.open[-1].tag}> is never closed"
    return builder.root


def section(page: Element, name: str) -> Element:
    """The section of one group."""
    return next(part for part in page.all("details", class_="group") if part.all("h3")[0].text() == name)


def listed(page: Element) -> list[Element]:
    """The rows of the table of groups, those that wait in a <noscript> too."""
    return [row for table in page.all("table", class_="groups") for row in table.all("tr")[1:]]


def inflated(packed: str) -> str:
    """What the page holds packed, as its script unpacks it."""
    return zlib.decompress(base64.b64decode(packed)).decode()


def unpacked(path: Path) -> list[Element]:
    """The packed blocks of sections, each as a tree."""
    return [parsed(inflated(block)) for block in re.findall(r'<data value="([^"]*)">', path.read_text(encoding="utf-8"))]


def cells(row: Element) -> list[str]:
    """The texts of a table row."""
    return [child.text() for child in row.children if isinstance(child, Element) and child.tag in ("th", "td")]


def drawings(path: Path) -> list[ET.Element]:
    """The drawings of the groups, each read by a strict XML parser."""
    text = path.read_text(encoding="utf-8")
    return [ET.fromstring(part) for part in re.findall(r'<svg class="life".*?</svg>', text, flags=re.DOTALL)]


def ribbons(drawing: ET.Element) -> list[tuple[str, float, float, str]]:
    """(class, left, right, title) of every piece of ribbon; titles as the page's tooltips show them, with the partition."""
    pieces = []
    for strip in drawing.iter("g"):
        for rect in strip.iter("rect") if strip.get("data-p") else ():
            left = float(rect.get("x", "nan"))
            title = f"{strip.get('data-p')}: {rect.findtext('title')}"
            pieces.append((rect.get("class", ""), left, left + float(rect.get("width", "nan")), title))
    return pieces
