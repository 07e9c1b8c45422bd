"""The command line: `counterpoise COMMAND`, one module per command."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit code 0 fine, 1 found something, 2 wrong use, 3 unexpected error, 130 interrupted."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # a closed stream: the next file that is opened would take its place, and get what is printed
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # closed: None
            stream.reconfigure(errors="backslashreplace")
    try:
        from counterpoise.cli.app import app
    except ImportError as error:
        if error.name not in {"click", "rich"}:
            if "--debug" in sys.argv:
                raise
            print(f"counterpoise: a package cannot be imported: {error}; install counterpoise again", file=sys.stderr)
            sys.exit(2)
        from counterpoise.extras import pip_install

        print(f"counterpoise: the command line needs click and rich: {pip_install('cli')}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before there is a command; afterwards `app` says so
        print("counterpoise: interrupted", file=sys.stderr)
        sys.exit(130)
    app(prog_name="counterpoise")
