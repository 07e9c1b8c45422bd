"""Where the records of each file of a capture begin and end: of a file that the last audit saw, no record is asked again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from counterpoise.pipeline.incremental.seen import Seen, in_all, seen_in

__all__ = ["FilePlaces", "load_places", "places_in", "save_places"]

FilePlaces: TypeAlias = dict[str, tuple[tuple[int, int], list[Seen]]]
"""Name of a file -> its size and when it was written (ns), and what its records say; of no record it tells what `was` asks."""


def places_in(files: Iterable[str], last: Mapping[int, int], known: FilePlaces) -> tuple[list[Seen], FilePlaces]:
    """What the files hold, as `seen_in` tells it, and what is to be known the next time.

    Parameters
    ----------
    files : iterable of str
    last : mapping
        Log partition -> the last offset that the last audit read.
    known : FilePlaces
        What it left.

    Notes
    -----
    A capture writes a file once; it merges files into others of other names, and a link to a file is that file. What a known file
    holds lies before `last`, so the record that is asked for is the last one of its log partition there.
    """
    found: FilePlaces = {}
    parts: list[Seen] = []
    for file in files:
        about = Path(file).stat()
        mark, name = (about.st_size, about.st_mtime_ns), Path(file).name
        if name in known and known[name][0] == mark:
            found[name] = known[name]
            parts += [one.asked(last.get(one.partition)) for one in known[name][1]]
        else:
            mine = seen_in([file], last)
            found[name] = (mark, mine)
            parts += mine
    return in_all(parts), found


def save_places(places: FilePlaces, file: Path) -> None:
    """Put away."""
    rows = {
        name: [*mark, [[one.partition, one.end, one.us, one.first, one.first_us] for one in of]]
        for name, (mark, of) in places.items()
    }
    file.write_text(json.dumps(rows), encoding="utf-8")


def load_places(file: Path) -> FilePlaces:
    """The inverse of `save_places`."""
    return {
        name: ((size, written), [Seen(partition, end, us, None, first, first_us) for partition, end, us, first, first_us in of])
        for name, (size, written, of) in json.loads(file.read_bytes()).items()
    }
