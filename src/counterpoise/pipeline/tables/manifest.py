"""The manifest of an audit's output folder: the list of its table files, and its small files, in one object that is put last.

Its path is ``OUT/.transaction/manifest-<number>.json``; the one with the highest number is valid. A folder without a manifest was
written by an earlier version, or has no audit: there all files are valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoise.errors import CaptureError
from counterpoise.pipeline.storage.files import absolute, join, list_folder, read_if_exists

__all__ = ["FOLDER", "Manifest", "load_manifest", "manifest_numbers", "summary_of"]

FOLDER = ".transaction"
_NAME = re.compile(r"manifest-(\d+)\.json")
_TRIES = 3


@dataclass(frozen=True)
class Manifest:
    """The content of an output folder after a transaction."""

    out: str  # The folder, absolute
    number: int = 0  # The number of the transaction
    files: frozenset[str] = frozenset()  # Valid Parquet files, as paths below `out`
    removed: frozenset[str] = frozenset()  # Files that this transaction removed; they may still exist
    small_files: Mapping[str, str] = field(default_factory=dict)  # Name below `out` -> text, for example the summary

    def below(self, *names: str) -> list[str]:
        """The valid files in a folder of `out`, as paths or URIs, sorted."""
        folder = join(*names) + "/"
        return sorted(join(self.out, file) for file in self.files if file.startswith(folder))

    @property
    def place(self) -> str:
        """Its path or URI."""
        return join(self.out, FOLDER, f"manifest-{self.number:010d}.json")

    def to_bytes(self) -> bytes:
        """JSON."""
        about = {"format": 1, "number": self.number, "files": sorted(self.files), "removed": sorted(self.removed)}
        return json.dumps({**about, "small_files": dict(self.small_files)}, sort_keys=True).encode()


def load_manifest(out: str) -> Manifest | None:
    """The valid manifest; None if there is none. Raises `CaptureError` if it cannot be read."""
    root = absolute(out)
    for _ in range(_TRIES):  # The listed one may be deleted when two newer ones exist.
        numbers = manifest_numbers(root)
        if not numbers:
            return None
        place = Manifest(root, numbers[-1]).place
        text = read_if_exists(place)
        if text is not None:
            break
    else:
        raise CaptureError(f"{place}: was replaced while it was read; try again")
    try:
        about = json.loads(text)
        files, removed = frozenset(about["files"]), frozenset(about["removed"])
        return Manifest(root, int(about["number"]), files, removed, dict(about["small_files"]))
    except (ValueError, KeyError, TypeError):
        raise CaptureError(f"{place}: not a manifest of an audit; delete {root} and run the audit again") from None


def summary_of(out: str, manifest: Manifest | None) -> bytes | None:
    """``summary.json`` of an output folder: from its manifest, or the file if it has none."""
    if manifest is None:
        return read_if_exists(join(absolute(out), "summary.json"))
    text = manifest.small_files.get("summary.json")
    return None if text is None else text.encode()


def manifest_numbers(out: str) -> list[int]:
    """The numbers of the manifests in a folder, ascending."""
    names = map(_NAME.fullmatch, list_folder(join(out, FOLDER)))
    return sorted(int(name[1]) for name in names if name is not None)
