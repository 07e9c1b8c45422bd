"""What a capture says about itself in ``capture.json``, in words for the audit's summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counterpoise.pipeline.storage.files import join, read_if_exists

__all__ = ["capture_notes"]

_POLLED = (
    "complete=false: made from polls every {} s instead of the topic: rebalances between two polls are one change or none, "
    "generations are counted here, not by the broker; members are taken to subscribe to every topic of their group"
)


def capture_notes(folder: str | Path | None) -> list[str]:
    """What is missing from a recording: history that was compacted before it began, gaps, tails behind open transactions.

    Notes
    -----
    A folder without ``capture.json`` says nothing; one that cannot be read says so.
    """
    found = None if folder is None else read_if_exists(join(str(folder), "capture.json"))
    if found is None:
        return []
    try:
        about: Any = json.loads(found)
        return [*_before(about), *_gaps(about), *map(str, about.get("hidden", ()))]
    except (ValueError, AttributeError, TypeError):
        return ["capture.json cannot be read: what this recording misses is unknown"]


def _before(about: Any) -> list[str]:
    if about.get("source") == "segments":
        return ["taken from segment files: what compaction had removed before is not in it"]
    if about.get("source") == "dump":
        return ["complete=false: taken from the text of kafka-dump-log: what compaction had removed before is not in it"]
    if about.get("source") == "poll":
        return [_POLLED.format(about.get("every", "?"))]
    missing = about.get("missing_before")
    if missing is None:
        return ["the recording had not yet caught up with the topic when it ended: the newest records are missing"]
    if missing:
        reason = "compacted away, or markers and aborted records of transactions"
        line = f"complete=false: {missing} offsets from before the recording were not there any more ({reason})"
        return [f"{line}; older rebalances may be missing"]
    return []


def _gaps(about: Any) -> list[str]:
    return [
        f"log partition {partition}: offsets {first} to {after - 1} were gone from the topic before they could be recorded"
        for partition, first, after in about.get("gaps", ())
    ]
