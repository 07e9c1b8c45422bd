"""Requests to a group leader as JSON: one line in, one line out; bytes are hex."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.json_text import decoded, fields_of

__all__ = ["read_request", "write_answer"]


def read_request(line: str | bytes) -> Mapping[str, Any]:
    """The fields of one request: `strategy`, `topics`, `members`, `protocol` and `options`, as `lead` takes and checks them.

    Raises
    ------
    SnapshotError
        It is no JSON object, or a field is missing or unknown.
    """
    value = decoded(line, "a request is one JSON object with strategy, topics and members")
    fields = fields_of(value, "request", ("strategy", "topics", "members"), ("protocol", "options"))
    if not isinstance(fields.get("options", {}), Mapping):
        raise SnapshotError("request.options: expected an object of option names and values")
    return {"protocol": None, "options": {}, **fields}


def write_answer(assignments: Mapping[str, bytes]) -> str:
    """One answer, in ASCII: a name that holds control characters is harmless in a terminal."""
    return json.dumps({"assignments": {member: given.hex() for member, given in assignments.items()}})
