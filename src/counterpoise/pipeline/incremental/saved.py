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
from counterpoise.pipeline.folds.fold_state import FOLD_VERSION
from counterpoise.pipeline.storage.files import join, read_if_exists

__all__ = ["ClusterState", "Saved", "identity_of", "load"]

_FORMAT = 7
_ANEW = "to audit anew, delete .since in the output folder, or give another --out"


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
    settled, end : int, optional
        Up to which sample rows of `partition_lag` are final; time of the last record.
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
        Files with the states of its buckets.
    ends : str, optional
        The file that says where its samples of log ends are.
    """

    positions: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)
    settled: int | None = None
    end: int | None = None
    topics: dict[str, str | None] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    groups: dict[str, bool] = field(default_factory=dict)
    unnamed: list[str] = field(default_factory=list)
    buckets: int | None = None
    states: list[str] = field(default_factory=list)
    ends: str | None = None


@dataclass
class Saved:
    """``state.json``: one audit's end.

    Attributes
    ----------
    number : int
        Of the audit; it is in the names of all files it wrote.
    options : dict
        Those that must be the same again.
    clusters : dict of ClusterState
    sums : dict
        ``records, from, to`` of the summary and the number of commits that look transactional, over all audits so far.
    """

    number: int
    options: dict[str, Any]
    clusters: dict[str, ClusterState]
    sums: dict[str, Any]

    def text(self) -> str:
        """As it is kept."""
        head = {"format": _FORMAT, "folds": FOLD_VERSION, "counterpoise": __version__}
        return json.dumps({**head, **asdict(self)}, indent=1, sort_keys=True) + "\n"

    def check(self, options: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]]) -> None:
        """Whether an audit with these options and captures may go on from here.

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


def load(file: Path) -> Saved | None:
    """The state in a file; None where there is none.

    Raises
    ------
    CaptureError
        It is damaged, or of another version.
    """
    if not file.exists():
        return None
    try:
        about = json.loads(file.read_bytes())
        versions = about.pop("format"), about.pop("folds"), about.pop("counterpoise")
        if versions != (_FORMAT, FOLD_VERSION, __version__):
            by = f"counterpoise {versions[2]}" if versions[2] != __version__ else "an earlier state of counterpoise"
            raise CaptureError(f"{file}: was left by {by}, this is {__version__}; {_ANEW}")
        clusters = {name: ClusterState(**one) for name, one in about.pop("clusters").items()}
        return Saved(clusters=clusters, **about)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureError(f"{file}: damaged; {_ANEW}") from error


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
