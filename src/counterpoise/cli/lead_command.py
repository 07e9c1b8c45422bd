"""`counterpoise lead`: JSON lines of raw JoinGroup metadata in, assignments out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import click

from counterpoise.cli.inputs import TEXT, read_lines
from counterpoise.cli.render import say
from counterpoise.errors import CounterpoiseError, SubscriptionWarning
from counterpoise.planning.lead import lead_checked
from counterpoise.snapshot.json_text import decoded, fitted, text_of
from counterpoise.snapshot.parts import LeadLine

__all__ = ["command", "read_request", "write_answer"]


@click.command("lead")
@click.argument("requests", metavar="[REQUESTS]", default="-", type=TEXT)
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
            led = lead_checked(read_request(line))
            if led.joined.missing_topics:
                say(f"counterpoise: line {number}: warning: {SubscriptionWarning(led.joined.missing_topics)}", err=True)
            say(write_answer(led.assignments))
        except CounterpoiseError as error:
            failed = True
            say(json.dumps({"error": f"line {number}: {error}"}))
            say(f"counterpoise: line {number}: {error}", err=True)
    sys.exit(2 if failed else 0)


def read_request(line: bytes) -> LeadLine:
    """One request; `lead` checks its parts. Raises `SnapshotError` if it is no JSON object, or a field is missing or unknown."""
    value = decoded(text_of(lambda: line, "request"), "a request is one JSON object with strategy, topics and members")
    return fitted(value, LeadLine, "request", "its fields are " + ", ".join(LeadLine.__struct_fields__))


def write_answer(assignments: Mapping[str, bytes]) -> str:
    """One answer, in ASCII: a name that holds control characters is harmless in a terminal."""
    return json.dumps({"assignments": {member: given.hex() for member, given in assignments.items()}})
