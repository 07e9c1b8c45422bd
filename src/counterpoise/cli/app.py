"""The click group: commands are imported when they are called, errors become one line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from counterpoise._version import __version__
from counterpoise.errors import CounterpoiseError

__all__ = ["app"]

_COMMANDS = {
    "audit": "Audit every rebalance a capture or a cluster has recorded (the main job).",
    "capture": "Record a cluster's group history, once or continuously.",
    "compare": "Measure several strategies on one group.",
    "explain": "Say why a partition is where a plan puts it.",
    "export": "Share a group's partitions out over Spark queries: assign, starting offsets, what to restart.",
    "lag": "Show the lag of a live group: who holds it, and whether another assignment would cut it.",
    "lead": "Act as a group leader: JSON lines of member metadata in, assignments out.",
    "plan": "Plan one group and show what moves.",
    "simulate": "Say what a change would cost a group: rounds, moves, time without an owner.",
    "synthesize": "Write a made-up fleet as a capture, to try the audit at any size.",
    "verify": "Check any plan: valid, complete, balanced, sticky.",
}
"""Name -> one line of help; the module is `counterpoise.cli.<name>_command`, the command its attribute `command`."""


class _LazyGroup(click.Group):
    """Commands by name, imported on use, so that `plan` never waits for Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"counterpoise.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CounterpoiseError as error:
            click.echo(f"counterpoise: {error}", err=True)
            sys.exit(2)
        except BrokenPipeError:
            _drop_the_rest()
            sys.exit(1)
        except OSError as error:
            # A full disk, a folder that may not be written to: what was being written is not whole, whatever the exit code said.
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"counterpoise: {where}{error.strerror or error}; what was being written is not whole", err=True)
            _drop_the_rest()
            sys.exit(2)


def _drop_the_rest() -> None:
    """What waits to be printed goes nowhere: Python would fail on it once more at its end."""
    with suppress(OSError):  # standard output may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="counterpoise")
def app() -> None:
    """Who gets which partition in a Kafka consumer group: planned, proven, audited.

    Exit codes: 0 fine, 1 found something, 2 wrong use or unreadable input.
    """
