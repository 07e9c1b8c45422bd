"""A capture folder from the text of `kafka-dump-log --offsets-decoder`, with a word on what the text lacks."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.backup.dump_rows import Read, rows_of
from counterpoise.pipeline.capture.backup.dump_text import is_dump
from counterpoise.pipeline.capture.backup.row_batches import in_batches
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.folder import CaptureFolder

__all__ = ["folder_of", "from_dump"]


def from_dump(file: Path, out: str | Path) -> Read:
    """Write a capture folder from the tool's output; the folder must be new or empty.

    Raises
    ------
    CaptureError
        The file is no such text, or was made without the decoder, or `out` holds a capture already.
    """
    if not is_dump(file):
        raise CaptureError(f"{file}: not the output of kafka-dump-log --offsets-decoder; give its text as it was printed")
    folder = CaptureFolder(out)
    try:
        if folder.about or folder.records.pieces:
            raise CaptureError(f"{out}: holds a capture already; give a new folder")
        found = Read()
        folder.records.append(in_batches(rows_of(file, found)), {})
        if not found.records and (found.unreadable or not found.aborted + found.undecided):
            raise CaptureError(f"{file}: no record could be read ({_why(found)}); dump with --offsets-decoder")
        folder.write_json("aborted_offsets.json", [])
        facts = {**asdict(found), "hidden": _notes(found), "complete": False}
        folder.say(format=1, topic=OFFSETS_TOPIC, source="dump", isolation="read_committed", **facts)
    finally:
        folder.close()
    return found


def folder_of(source: Path) -> Path:
    """The capture folder of a text (made once per process, and gone with it); of anything else `source` itself.

    Raises
    ------
    CaptureError
        It is such a text, but no record can be read from it.
    """
    if not source.is_file() or not is_dump(source):
        return source
    about = source.stat()
    return _unfolded(source.resolve(), about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _unfolded(file: Path, _modified: int, _size: int) -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="counterpoise-dump-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    from_dump(file, scratch / "capture")
    return scratch / "capture"


def _why(found: Read) -> str:
    return found.faults[0] if found.faults else "it prints no records"


def _notes(found: Read) -> list[str]:
    told = {
        "records whose transaction has no end in the text were left out": found.undecided,
        "generations are printed without subscriptions (Kafka 3.7 and before): they are not replayed, and their causes and moves "
        "are known by members and assignments only": found.partial,
        "records have fields that the text does not show; what it shows is used": found.altered,
        "records, batches or lines could not be read": found.unreadable,
        "segments do not say their partition; partitions are numbered in the order of the text": found.unnamed,
    }
    lacking = "the text does not say which version an assignment was written in: it is taken from the leader's library"
    return [lacking, *(f"{count} {what}" for what, count in told.items() if count)]
