"""The saved state of an audit: its options, positions in the captures, and the files with the states of groups."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from counterpoise._version import __version__
from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.capture.columns import ABORTED_FILE, ABOUT_FILE
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.storage.files import join, read_bytes, read_if_exists, write_bytes
from counterpoise.pipeline.tables.manifest import Manifest
from counterpoise.pipeline.tables.transaction import TableTransaction

__all__ = ["START_AGAIN", "ClusterState", "SavedState", "identity_of", "is_continued", "load_state"]

_FORMAT = 24
"""Increased when a field changes, also one of the states of groups."""
START_AGAIN = "to audit from the start, give another --out"
_FOLDER = ".state/saved/"


@dataclass
class ClusterState:
    """The saved state of one capture. Times are in microseconds."""

    positions: dict[int, int] = field(default_factory=dict)  # Log partition -> the offset after the last record
    stamps: dict[int, int] = field(default_factory=dict)  # Log partition -> time of the last record
    records: int = 0  # How many records of the window were read so far
    read: dict[int, int] = field(default_factory=dict)  # Log partition -> the position of the recording (`positions.read_until`)
    identity: dict[str, Any] = field(default_factory=dict)  # Identifies the capture (see `identity_of`)
    files: dict[str, list[int]] = field(default_factory=dict)  # File -> size and time of the last change
    # Times of the first and the last record
    begin: int | None = None
    end: int | None = None
    watermark: int | None = None  # Rows of `partition_lag` up to then are final (`positions.watermark_of`)
    topics: dict[str, str] = field(default_factory=dict)  # Topic -> its last known id
    lives: dict[str, int] = field(default_factory=dict)  # Topic with samples -> how often samples show that it was recreated
    notes: list[str] = field(default_factory=list)  # The notes of the capture
    names: dict[str, str] = field(default_factory=dict)  # Topic id -> topic, by commits
    # Group -> whether it uses a topic of the scope; empty if the scope has no topics
    groups: dict[str, bool] = field(default_factory=dict)
    unnamed: list[str] = field(default_factory=list)  # Topic ids in steps without a known name
    buckets: int | None = None  # Number of buckets of its groups
    states: list[str] = field(default_factory=list)  # Files of the output folder's manifest with the states of its buckets
    ends: str | None = None  # The file with the index of its samples of log ends (`EndsFile`)
    samples: str = ""  # The file of these samples


@dataclass
class SavedState:
    """The saved state of an audit."""

    options: dict[str, Any]  # Options that must be the same in the next audit
    clusters: dict[str, ClusterState]
    provisional_files: list[str]  # Files of the manifest with provisional rows
    sums: dict[str, Any]  # Parts of the summary, and the number of commits that look transactional, over all audits so far

    def save(self, place: str) -> None:
        """Write the state to a file; `load_state` reads it."""
        head = {"format": _FORMAT, "counterpoise": __version__}
        write_bytes(place, json.dumps({**head, **asdict(self)}, indent=1, sort_keys=True).encode())

    def check(self, options: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that an audit with these options and captures may start from this state.

        Raises `OptionError` if an option differs, and `CaptureError` if a capture is another one.
        """
        for name, value in options.items():
            if value != self.options.get(name):
                was = _words(self.options.get(name))
                raise OptionError(f"--since last: {name} was {was} and is now {_words(value)}; give the same; {START_AGAIN}")
        for name, identity in identities.items():
            if self.clusters[name].identity != identity:
                raise CaptureError(f"--since last: the capture of cluster {name} is not the one of the last audit; {START_AGAIN}")


def is_continued(manifest: Manifest) -> bool:
    """Whether an output folder has a saved state."""
    return any(name.startswith(_FOLDER) for name in manifest.files)


def load_state(work: TableTransaction) -> SavedState | None:
    """The saved state of the last audit into an output folder; None if there is none.

    Raises `CaptureError` if the state is damaged, or of another version.
    """
    name = next((name for name in work.manifest.files if name.startswith(_FOLDER)), None)
    if name is None:
        return None
    place = work.place_of(name)
    try:
        about = json.loads(read_bytes(place))
        number, version = about["format"], about["counterpoise"]
        if (number, version) != (_FORMAT, __version__):
            by = f"counterpoise {version}" if version != __version__ else "an earlier state of counterpoise"
            raise CaptureError(f"{place}: was left by {by}, this is {__version__}; {START_AGAIN}")
        saved = msgspec.convert(about, SavedState, str_keys=True)
        needed = {file for one in saved.clusters.values() for file in (*one.states, one.ends, one.samples) if file}
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"{place}: damaged; {START_AGAIN}") from error
    if missing := sorted(needed - work.manifest.files):
        raise CaptureError(f"{work.place_of(missing[0])}: was deleted; {START_AGAIN}")
    return saved


def identity_of(capture: Capture) -> dict[str, Any]:
    """What stays the same while a capture of files grows: topic, start, isolation level and list of aborted records."""
    identity: dict[str, Any] = {}
    small = (join(capture.place, name) for name in (ABOUT_FILE, ABORTED_FILE))
    text, aborted = (read_if_exists(file) if capture.records is None else None for file in small)
    if text is not None:
        try:
            about = json.loads(text)
            identity = {name: about.get(name) for name in ("topic", "topic_id", "started_at", "isolation")}
        except (ValueError, AttributeError):
            identity = {ABOUT_FILE: "damaged"}
    identity["aborted"] = None if aborted is None else hashlib.sha256(aborted.strip()).hexdigest()[:16]
    return identity


def _words(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "not given"
    return "not given" if value is None else str(value)
