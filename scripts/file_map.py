"""Keeps the file map in ARCHITECTURE.md true: one line per module, from the first line of its docstring.

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
    *("errors", "wire", "model", "snapshot", "solver", "assignors", "laws", "metrics", "planning", "explanation", "simulation"),
    *("clients", "pipeline", "report", "cli"),
)


def file_map() -> str:
    """The map as Markdown: a heading and a list per layer, lowest layer first."""
    source = ROOT / "src" / "counterpoise"
    parts = []
    for layer in LAYERS:
        path = source / layer
        modules = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        title = first_line(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
        lines = [f"- `{module.relative_to(source)}`: {first_line(module)}" for module in modules if not is_face(module, path)]
        parts.append("\n".join([f"### {layer}\n", f"{title}\n", *(lines if path.is_dir() else [])]))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def is_face(module: Path, layer: Path) -> bool:
    """The layer's own __init__.py: its line is the heading's."""
    return module == layer / "__init__.py"


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
