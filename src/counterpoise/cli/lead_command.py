"""`counterpoise lead`: JSON lines of raw JoinGroup metadata in, assignments out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from counterpoise.assignors.registry import check_options
from counterpoise.cli.inputs import read_lines
from counterpoise.cli.render import say
from counterpoise.errors import CounterpoiseError, SnapshotError
from counterpoise.planning.lead import lead
from counterpoise.snapshot.json_text import decoded, fields_of

__all__ = ["command", "read_request", "write_answer"]


@click.command("lead")
@click.argument("requests", metavar="[REQUESTS]", default="-", type=click.Path(allow_dash=True))
@click.option("--json", "_json", is_flag=True, help="Accepted as by every command; the answers are always JSON.")
def command(requests: str, _json: bool) -> None:
    """Answer each line of REQUESTS (default: standard input) as a group leader would, as soon as it is read.

    A line is {"strategy": "sticky", "topics": {"t": 3}, "members": [{"id": "a", "instance_id": null, "metadata": "<hex>"}]};
    the answer is {"assignments": {"<id>": "<hex>"}}. A line that cannot be answered gives {"error": ...} and exit code 2.
    Optional: protocol, options, lag ({"t": [9, 0, 4]}) and capacity ({"a": 2}). A live leader logs such lines
    (docs/clients.md), so every plan can be made again.

    \b
    Example:
      counterpoise lead < join.jsonl > sync.jsonl
    """
    failed = False
    for number, line in read_lines(requests):
        try:
            request = read_request(line)
            name, options = request["strategy"], check_options(request["strategy"], request["options"])
            lag, weights, protocol = request["lag"], request["capacity"], request["protocol"]
            answer = lead(name, request["topics"], request["members"], protocol=protocol, lag=lag, capacity=weights, **options)
            say(write_answer(answer))
        except CounterpoiseError as error:
            failed = True
            say(json.dumps({"error": f"line {number}: {error}"}))
            say(f"counterpoise: line {number}: {error}", err=True)
    sys.exit(2 if failed else 0)


def read_request(line: str | bytes) -> Mapping[str, Any]:
    """The fields of one request, as `lead` takes and checks them; what may be left out has its default.

    Raises `SnapshotError` if it is no JSON object, or a field is missing or unknown.
    """
    value = decoded(line, "a request is one JSON object with strategy, topics and members")
    fields = fields_of(value, "request", ("strategy", "topics", "members"), ("protocol", "options", "lag", "capacity"))
    if not isinstance(fields.get("options", {}), Mapping):
        raise SnapshotError("request.options: expected an object of option names and values")
    return {"protocol": None, "options": {}, "lag": None, "capacity": None, **fields}


def write_answer(assignments: Mapping[str, bytes]) -> str:
    """One answer, in ASCII: a name that holds control characters is harmless in a terminal."""
    return json.dumps({"assignments": {member: given.hex() for member, given in assignments.items()}})
