"""HTML tables of values for notebooks (``_repr_html_``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from counterpoise.snapshot.json_text import visible

__all__ = ["html_table"]

_MOST = 50


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of at most 50 rows, and how many more. A row has one cell per column; cells are HTML-escaped, None is empty."""
    listed = list(rows)
    lines = [_row("th", columns), *(_row("td", row) for row in listed[:_MOST])]
    if len(listed) > _MOST:
        lines.append(f'<tr><td colspan="{len(columns)}">{len(listed) - _MOST} more</td></tr>')
    return f"<table><caption>{_text(title)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    return "" if value is None else "<br>".join(escape(visible(line)) for line in str(value).split("\n"))
