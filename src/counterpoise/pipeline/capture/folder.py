"""The folder a capture writes: two growing tables, the metadata beside them, and a lock so that there is one writer."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.columns import ARROW
from counterpoise.pipeline.capture.series import Series

__all__ = ["SAMPLES", "CaptureFolder"]

SAMPLES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_start", pa.int64()),
        ("log_end", pa.int64()),
        ("sampled_at", pa.timestamp("us", "UTC")),
    ]
)


class CaptureFolder:
    """``consumer_offsets.parquet``, ``log_offsets.parquet``, ``topics.json``, ``aborted_offsets.json`` and ``capture.json``.

    Parameters
    ----------
    out : Path
        Made if it is not there; what it holds of an earlier capture is gone on with.

    Raises
    ------
    CaptureError
        Another capture is writing there, or the folder holds something else.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._store = out / ".counterpoise"
        try:
            self._store.mkdir(parents=True, exist_ok=True)
            self._lock = (self._store / "lock").open("w")
        except OSError as error:
            raise CaptureError(f"{out}: {error.strerror}; give a folder that can be written") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise CaptureError(f"{out}: another capture is writing there; stop it, or give another folder") from None
        try:
            self.records = Series(out / "consumer_offsets.parquet", self._store, ARROW, "timestamp")
            self.samples = Series(out / "log_offsets.parquet", self._store, SAMPLES, "sampled_at")
            self.about: dict[str, Any] = self._read_about()
        except BaseException:
            self._lock.close()
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """While within, nobody else writes here.

        Raises
        ------
        CaptureError
            The disk is full, say, where nobody could wait for it.
        """
        try:
            yield
        except OSError as error:
            words = "make room and start again, nothing of what was written is lost"
            raise CaptureError(f"{self.out}: {error.strerror}; {words}") from None
        finally:
            self.close()

    def close(self) -> None:
        """Let the next writer in."""
        self._lock.close()

    def say(self, **facts: Any) -> None:
        """Update ``capture.json``: what this recording is, and what it cannot know."""
        self.about.update(facts)
        self.write_json("capture.json", self.about)

    def write_json(self, name: str, content: Mapping[str, Any] | list[Any]) -> None:
        """Replace one JSON file as a whole."""
        scratch = self._store / f"tmp-{name}"
        try:
            scratch.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            scratch.replace(self.out / name)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise

    def tidy(self, keep_from: float | None) -> None:
        """Merge small files, and drop what is older than `keep_from` (s since 1970)."""
        for series in (self.records, self.samples):
            if keep_from is not None:
                series.drop_before(keep_from)
            while series.merge():
                pass

    def free(self) -> None:
        """Give back what only late readers may still want."""
        for series in (self.records, self.samples):
            series.free()

    def count_below(self, ends: Mapping[int, int]) -> int:
        """How many recorded offsets lie below `ends` (by partition): two columns of the files are read."""
        total = 0
        for piece in self.records.pieces:
            table = pq.read_table(self.records.folder / piece.name, columns=["partition", "offset"])
            ends_of = pa.table({"partition": pa.array(list(ends), pa.int32()), "end": pa.array(list(ends.values()), pa.int64())})
            joined = table.join(ends_of, "partition")
            total += int(pc.sum(pc.less(joined["offset"], joined["end"])).as_py() or 0)
        return total

    def _read_about(self) -> dict[str, Any]:
        file = self.out / "capture.json"
        if not file.exists():
            return {}
        try:
            about = json.loads(file.read_bytes())
        except ValueError:
            about = None
        if not isinstance(about, dict) or os.fspath(about.get("topic", "")) == "":
            raise CaptureError(f"{file}: damaged, or not written by `counterpoise capture`; give another folder")
        return about
