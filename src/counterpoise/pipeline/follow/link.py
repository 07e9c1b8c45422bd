"""Messages between two processes over a pair of sockets: JSON, a line each; the end of one is seen by the other."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

__all__ = ["Link"]


class Link:
    """One end.

    Parameters
    ----------
    end : socket
        Closed with this object.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lines.close()
        self._end.close()

    def send(self, about: Mapping[str, Any]) -> None:
        """Say something; if nobody is there any more, nobody hears it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._end.sendall(json.dumps(about).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Wait for what the other one says next; None: it has gone."""
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return None
        if not line.endswith(b"\n"):
            return None
        said: dict[str, Any] = json.loads(line)
        return said
