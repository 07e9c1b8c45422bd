"""What one audit leaves for the next: how far it read, with which options, and where the states of groups are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from counterpoise._version import __version__
from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.history.fold_state import FOLD_VERSION
from counterpoise.pipeline.storage.files import join, read_bytes, read_if_exists, write_bytes
from counterpoise.pipeline.stored.manifest import Manifest
from counterpoise.pipeline.stored.transaction import TableTransaction

__all__ = ["ClusterState", "Saved", "identity_of", "is_continued", "load", "save"]

_FORMAT = 8
_ANEW = "to audit anew, give another --out"
_FOLDER = ".state/saved/"


@dataclass
class ClusterState:
    """How far one capture was read.

    Attributes
    ----------
    positions : dict
        Log partition -> the offset after the last record.
    stamps : dict
        Log partition -> time of the last record, in microseconds, as all times here.
    read : dict
        Log partition -> the offset up to which the recording had come (`snapshot.read_until`).
    identity : dict
        What says that a capture is this capture (see `identity_of`).
    files : dict
        Its files: size, and time of the last change.
    begin, end : int, optional
        Times of the first and the last record.
    settled : int, optional
        Up to which sample rows of `partition_lag` are final.
    topics : dict
        Topic -> its id.
    lives : dict
        Topic that was sampled -> how often its logs were seen to be created again.
    notes : list of str
        What the capture says it misses.
    names : dict
        Topic id -> topic, as commits have said.
    groups : dict
        Group -> whether it uses a chosen topic; empty if no topic was chosen.
    unnamed : list of str
        Topic ids in steps that nobody has named.
    buckets : int
        Of its groups.
    states : list of str
        Files of the output folder's manifest with the states of its buckets.
    ends : str, optional
        The file that says where its samples of log ends are in the next one.
    samples : str
        The file of these samples.
    """

    positions: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    begin: int | None = None
    end: int | None = None
    settled: int | None = None
    topics: dict[str, str | None] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    groups: dict[str, bool] = field(default_factory=dict)
    unnamed: list[str] = field(default_factory=list)
    buckets: int | None = None
    states: list[str] = field(default_factory=list)
    ends: str | None = None
    samples: str = ""


@dataclass
class Saved:
    """Where one audit ended.

    Attributes
    ----------
    options : dict
        Those that must be the same again.
    clusters : dict of ClusterState
    open_files : list of str
        Files of the manifest with rows that later records may still change.
    sums : dict
        Parts of the summary, and the number of commits that look transactional, over all audits so far.
    """

    options: dict[str, Any]
    clusters: dict[str, ClusterState]
    open_files: list[str]
    sums: dict[str, Any]

    def check(self, options: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]) -> None:
        """Whether an audit with these options and captures may continue from here.

        Raises
        ------
        OptionError
            An option differs.
        CaptureError
            A capture is another one.
        """
        for name, value in options.items():
            if value != self.options.get(name):
                was = _words(self.options.get(name))
                raise OptionError(f"--since last: {name} was {was} and is now {_words(value)}; give the same; {_ANEW}")
        for name, identity in identities.items():
            known = self.clusters[name].identity
            if any(known.get(key) != value for key, value in identity.items()) or known.keys() != identity.keys():
                raise CaptureError(f"--since last: the capture of cluster {name} is not the one of the last audit; {_ANEW}")


def save(saved: Saved, place: str) -> None:
    """Write it to a state file."""
    head = {"format": _FORMAT, "folds": FOLD_VERSION, "counterpoise": __version__}
    write_bytes(place, json.dumps({**head, **asdict(saved)}, indent=1, sort_keys=True).encode())


def is_continued(manifest: Manifest) -> bool:
    """Whether audits into this output folder continue one another."""
    return any(name.startswith(_FOLDER) for name in manifest.files)


def load(work: TableTransaction) -> Saved | None:
    """What the last audit into an output folder left; None if there is nothing.

    Raises
    ------
    CaptureError
        It is damaged, or of another version.
    """
    name = next((name for name in work.manifest.files if name.startswith(_FOLDER)), None)
    if name is None:
        return None
    place = work.place_of(name)
    try:
        about = json.loads(read_bytes(place))
        versions = about.pop("format"), about.pop("folds"), about.pop("counterpoise")
        if versions != (_FORMAT, FOLD_VERSION, __version__):
            by = f"counterpoise {versions[2]}" if versions[2] != __version__ else "an earlier state of counterpoise"
            raise CaptureError(f"{place}: was left by {by}, this is {__version__}; {_ANEW}")
        clusters = {cluster: ClusterState(**one) for cluster, one in about.pop("clusters").items()}
        saved = Saved(clusters=clusters, **about)
        needed = {file for one in clusters.values() for file in (*one.states, one.ends, one.samples) if file}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureError(f"{place}: damaged; {_ANEW}") from error
    if missing := sorted(needed - work.manifest.files):
        raise CaptureError(f"{work.place_of(missing[0])}: was deleted; {_ANEW}")
    return saved


def identity_of(source: str | Path) -> dict[str, Any]:
    """What stays the same while a capture grows: its topic and start, and which records it says were aborted."""
    found: dict[str, Any] = {}
    about = read_if_exists(join(str(source), "capture.json"))
    if about is not None:
        try:
            read = json.loads(about)
            found = {name: read.get(name) for name in ("topic", "topic_id", "started_at", "isolation")}
        except (ValueError, AttributeError):
            found = {"capture.json": "damaged"}
    aborted = read_if_exists(join(str(source), "aborted_offsets.json"))
    found["aborted"] = None if aborted is None else hashlib.sha256(aborted.strip()).hexdigest()[:16]
    return found


def _words(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "not given"
    return "not given" if value is None else str(value)
