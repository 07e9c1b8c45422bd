"""Keeps the file map in ARCHITECTURE.md true: one row per folder, from the first line of its docstring.

python scripts/file_map.py            # write it
python scripts/file_map.py --check    # exit 1 if it is not true
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- file map: scripts/file_map.py -->\n", "<!-- end of the file map -->"
LAYERS = (
    "errors", "extras", "wire", "model", "snapshot", "solver", "assignors", "laws", "metrics", "planning", "explanation",
    "simulation", "testing", "clients", "pipeline", "report", "cli",
)  # fmt: skip


def file_map() -> str:
    """The map as a Markdown table: each layer and its folders, lowest layer first; a layer without a folder is a module."""
    source = ROOT / "src" / "counterpoise"
    rows = ["| folder | what is in it |", "|---|---|"]
    for layer in LAYERS:
        for face in sorted((source / layer).rglob("__init__.py")) or [source / f"{layer}.py"]:
            name = (face.parent if face.name == "__init__.py" else face).relative_to(source)
            rows.append(f"| `{name}` | {first_line(face)} |")
    return "\n".join(rows) + "\n"


def first_line(module: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "(no docstring)").splitlines()[0]


def updated(page: str) -> str:
    """The page with the map as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


def main() -> int:
    """Write or check the map."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = updated(page)
    if "--check" in sys.argv[1:]:
        if page != wanted:
            print("ARCHITECTURE.md: the file map is not true; run: python scripts/file_map.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
