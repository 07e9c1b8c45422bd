"""Generations as the tasks that judge decode them, handed on to those that replay: no record is decoded twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile, marked_batches
from counterpoise.pipeline.direct.tasks import give_back

__all__ = ["HandedOn", "handed_on"]

_SCHEMA = pa.schema([("generation", pa.binary())])
_HELD = 2 << 20
"""So many bytes are held before they are written, and read back at a time."""
Row = dict[str, Any]


class HandedOn:
    """A file of rows of `group_generations`, marked with the bucket of their group; made when there is a row.

    Notes
    -----
    As MessagePack they take an eighth of the time that decoding the record again would, pickled a fourth. Times come back in UTC,
    tuples as lists.
    """

    def __init__(self, folder: str) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._out = MarkedFile(folder, "handed", _SCHEMA)
        self._rows: list[bytes] = []
        self._bytes = 0

    def __enter__(self) -> HandedOn:
        return self

    def __exit__(self, *error: Any) -> None:
        self._out.__exit__(*error)

    @property
    def told(self) -> tuple[str | None, list[int]]:
        """The file and the mark of each of its parts; complete when closed."""
        return self._out.file, self._out.marks

    def of_bucket(self, bucket: int) -> Callable[[Mapping[str, Any]], None]:
        """Where the generations of a bucket go, one after the other; `settle` when it is done."""

        def take(row: Mapping[str, Any]) -> None:
            self._rows.append(self._encoder.encode(row))
            self._bytes += len(self._rows[-1])
            if self._bytes > _HELD:
                self.settle(bucket)

        return take

    def settle(self, bucket: int) -> None:
        """Write what is held."""
        if self._rows:
            self._out.write(pa.table([pa.array(self._rows, pa.binary())], schema=_SCHEMA), bucket)
        if self._bytes > _HELD:
            give_back()
        self._rows, self._bytes = [], 0


def handed_on(files: Marked, bucket: int) -> Iterator[Row]:
    """The generations of a bucket's groups, group by group, each group's in the order of the log."""
    decode = msgspec.msgpack.Decoder().decode
    for batch in marked_batches(files, bucket):
        yield from map(decode, batch.column(0).to_pylist())
        if batch.nbytes > _HELD:
            give_back()  # large generations, come and gone: what they tore is closed again
