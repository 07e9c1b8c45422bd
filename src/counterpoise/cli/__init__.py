"""The command line: `counterpoise COMMAND`, one module per command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit code 0 fine, 1 found something, 2 wrong use, 3 unexpected error, 130 interrupted."""
    try:
        from counterpoise.cli.app import app
    except ImportError as error:
        if error.name not in {"click", "rich"}:
            raise
        print("counterpoise: the command line needs click and rich: pip install 'counterpoise[cli]'", file=sys.stderr)
        sys.exit(2)
    app(prog_name="counterpoise")
