"""A member's journal: one JSON line per event, written at once, so that it is whole up to a kill -9."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

__all__ = ["Journal", "names"]


class Journal:
    """Events of one member, appended to a file; `time` is the machine's clock in seconds."""

    def __init__(self, path: str) -> None:
        self._file = os.open(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event: str, **fields: Any) -> None:
        """One line, in one write."""
        os.write(self._file, json.dumps({"time": time.time(), "event": event, **fields}).encode() + b"\n")


def names(partitions: Any) -> list[str]:
    """(topic, partition) pairs as sorted words."""
    return sorted(f"{topic}-{partition}" for topic, partition in partitions)
