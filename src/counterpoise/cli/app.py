"""The click group: commands are imported when they are called, errors become one line."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from counterpoise._version import __version__
from counterpoise.cli.render import say
from counterpoise.errors import CounterpoiseError, InvariantError, SourceError, SubscriptionWarning

__all__ = ["app", "exit_code_of"]

_COMMANDS = {
    "audit": "Audit every recorded rebalance of a capture or a cluster (the main job).",
    "capture": "Record a cluster's group history, once or continuously.",
    "compare": "Measure several strategies on one group.",
    "doctor": "Check Java, extras, clients, memory, disk and a cluster: what is missing, and what to do.",
    "explain": "Explain why a plan puts a partition where it does.",
    "diff": "Compare two audits: groups, figures, findings and actions.",
    "export": "Split a group's partitions over Spark queries: assignments, starting offsets, restarts.",
    "lag": "Show the lag of a live group: who holds it, and whether another assignment would reduce it.",
    "lead": "Act as a group leader: JSON lines of member metadata in, assignments out.",
    "plan": "Plan one group and show what moves.",
    "sql": "Query an audit's tables with DuckDB, without Spark.",
    "strategies": "List the strategies and their options.",
    "simulate": "Show what a change would cost a group: rounds, moves, time without an owner.",
    "synthesize": "Write a synthetic fleet as a capture, to test the audit at any size.",
    "verify": "Check any plan: valid, complete, balanced, sticky.",
}
"""Name -> one line of help; the module is `counterpoise.cli.<name>_command`, the command its attribute `command`."""
_WRONG_PLACE = {
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
"""Errors of the system that the user can avoid by naming another file. A full disk, for example, is not one of them."""
_REFUSED = re.compile("AWS Error (ACCESS_DENIED|NO_SUCH|INVALID|SIGNATURE|UNKNOWN .HTTP status 4)")
"""Arrow's messages for requests that an object store refuses. They have no errno."""
_PACKAGE = Path(__file__).parent.parent


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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for word in args:
            if not word.isascii() and word != word.encode(errors="ignore").decode():
                raise click.UsageError(f"{word!a} is not UTF-8; names and paths on the command line are UTF-8 text")
        with self._one_line(ctx):  # --help and --version print here
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if sys.stdout is None:
            say("counterpoise: standard output is closed; send it to a file, or to /dev/null", err=True)
            sys.exit(2)
        warnings.simplefilter("ignore", SubscriptionWarning)  # `read_snapshots` says it once, in a line
        with self._one_line(ctx):
            return super().invoke(ctx)

    @contextmanager
    def _one_line(self, ctx: click.Context) -> Iterator[None]:
        """Turn an error into one line and an exit code."""
        try:
            yield
        except (click.ClickException, click.exceptions.Exit):
            raise
        except InvariantError as error:
            self._unexpected(ctx, error)
        except CounterpoiseError as error:
            say(f"counterpoise: {error}", err=True)
            sys.exit(exit_code_of(error))
        except (KeyboardInterrupt, click.Abort):
            say("counterpoise: interrupted", err=True)
            sys.exit(128 + signal.SIGINT)
        except BrokenPipeError:
            _drop_the_rest()
            sys.exit(128 + signal.SIGPIPE)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            advice = "name another place" if exit_code_of(error) == 2 else "what was being written is incomplete"
            say(f"counterpoise: {where}{error.strerror or error}; {advice}", err=True)
            _drop_the_rest()
            sys.exit(exit_code_of(error))
        except Exception as error:  # noqa: BLE001  # whatever it is: exit code 1 means findings
            self._unexpected(ctx, error)

    @staticmethod
    def _unexpected(ctx: click.Context, error: Exception) -> NoReturn:
        if ctx.params.get("debug"):
            traceback.print_exception(error)
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_PACKAGE)]
        where = f" ({Path(ours[-1].filename).name}, line {ours[-1].lineno})" if ours else ""
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        advice = "" if ctx.params.get("debug") else f'; "counterpoise --debug {ctx.invoked_subcommand} ..." shows the traceback'
        please = f"please report it with version {__version__}{advice}"
        say(f"counterpoise: unexpected error{where}: {what}; {please}", err=True)
        sys.exit(3)


def exit_code_of(error: BaseException | None) -> int:
    """The exit code: 3 if the error or a cause is transient (see `SourceError`) or an error of the operating system; else 2.

    Refused logins and paths that cannot be used give 2.
    """
    while error is not None and not isinstance(error, OSError):
        if isinstance(error, SourceError) and error.transient:
            return 3
        error = error.__cause__
    return 2 if error is None or error.errno in _WRONG_PLACE or _REFUSED.search(str(error)) else 3


def _drop_the_rest() -> None:
    """Discard what is not printed yet: Python would fail on it again when it exits."""
    with suppress(OSError):  # standard output may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="counterpoise")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def app(debug: bool) -> None:
    """Who gets which partition in a Kafka consumer group: planned, proven, audited.

    Exit codes: 0 fine, 1 found something, 2 wrong use or unreadable input, 3 temporary faults (a full disk, a broker that does
    not answer) or a fault of counterpoise, 130 interrupted, 141 the reader of the output has ended.
    """
