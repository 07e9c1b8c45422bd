"""`counterpoise sql`: a query on an audit's tables with DuckDB, without Spark."""

from __future__ import annotations

import json
from datetime import date
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

import click

from counterpoise.cli.inputs import PLACE, need
from counterpoise.cli.render import console, say, table_of
from counterpoise.errors import CaptureError, OptionError

if TYPE_CHECKING:
    import duckdb

__all__ = ["command", "connect"]

_SHOWN = 100
"""Rows of a table on a terminal."""


@click.command("sql")
@click.argument("out", metavar="DIR", type=PLACE)
@click.argument("query", metavar="QUERY")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row instead of a table.")
def command(out: str, query: str, as_json: bool) -> None:
    """Query the tables of an audit's output folder DIR with DuckDB (docs/sql.md: ten questions; docs/tables.md: columns).

    A table of more than 100 rows is cut, with a line that says so; --json prints every row.

    \b
    Example:
      counterpoise sql report "SELECT group_id, sum(n_moved) AS moved FROM rebalances GROUP BY 1 ORDER BY 2 DESC"
    """
    need("sql", "sql", "duckdb", "pyarrow", "pytz")
    import duckdb

    try:
        result = connect(out).execute(query)
        if result is None:  # No statement: spaces, semicolons and comments only
            raise OptionError('QUERY is empty; try "SELECT * FROM rebalances LIMIT 10"')
        names = [column[0] for column in result.description]
        rows = iter(result.fetchone, None)
        if as_json:
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise OptionError(f"QUERY: two columns are called {twice[0]!r}; give one of them another name with AS")
            for row in rows:
                click.echo(json.dumps({name: _plain(value) for name, value in zip(names, row, strict=True)}))
            return
        shown = ([one.hex() if isinstance(one, bytes) else one for one in row] for row in islice(rows, _SHOWN))
        console().print(table_of("", names, shown))
        if more := sum(1 for _ in rows):
            say(f"{more} more {'row is' if more == 1 else 'rows are'} not shown; --json prints all")
    except RuntimeError as error:
        raise (KeyboardInterrupt if "interrupted" in str(error) else error) from None
    except duckdb.Error as error:
        raise OptionError(f"QUERY: {' '.join(str(error).split())}") from None


def _plain(value: object) -> object:
    """A value of DuckDB for JSON: times in ISO 8601, numbers that are not finite as null, bytes in hex, other types as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def connect(out: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with one view per table of the audit. ``explode(list)`` is an alias of ``unnest(list)``. Times are UTC.

    Raises `CaptureError` if the folder has no tables.
    """
    import duckdb

    from counterpoise.pipeline.schemas import TABLES
    from counterpoise.pipeline.storage.files import absolute, exists, join
    from counterpoise.pipeline.tables.manifest import load_manifest
    from counterpoise.pipeline.tables.paths import dataset

    place = absolute(out)
    if not exists(join(place, "tables")):
        raise CaptureError(f"{out}: no tables; name the output folder of an audit")
    manifest, connection = load_manifest(place), duckdb.connect()
    # Otherwise a name that is no table could mean a variable of this program.
    connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false; CREATE MACRO explode(list) AS unnest(list)")
    for name in TABLES:
        connection.register(name, dataset(join(place, "tables", name), manifest))
    return connection
