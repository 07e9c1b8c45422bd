"""The samples of one cluster's log ends, laid out for the tasks that look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoise.pipeline.direct.lag.ends_file import EndsFile, with_samples
from counterpoise.pipeline.direct.lag.new_samples import NewSamples
from counterpoise.pipeline.direct.tasks import scratch
from counterpoise.pipeline.source.capture import Local

__all__ = ["Sampled", "sampled_by", "sampled_in", "topic_ids"]


@dataclass(frozen=True)
class Sampled:
    """The samples of one cluster's log ends.

    Attributes
    ----------
    ends : str
        Where it is put away which there are (`EndsFile`).
    instants : tuple of int
        At which was sampled, in microseconds, ascending; none: nothing is known of log ends.
    width : float, optional
        Mean time between two of them.
    now_ids : dict, optional
        Topic -> its id at the end.
    disagreeing : int
        Of how many logs and instants there were samples that differ.
    """

    ends: str
    instants: tuple[int, ...]
    width: float | None
    now_ids: Mapping[str, str] | None
    disagreeing: int = 0


def sampled_in(local: Local, folder: str) -> Sampled:
    """The samples of a capture, laid out in a file of that folder."""
    ends = with_samples(EndsFile.empty(), NewSamples(local.ends), folder) if local.ends else EndsFile.empty()
    return sampled_by(local, ends, folder)


def sampled_by(local: Local, ends: EndsFile, folder: str) -> Sampled:
    """The same if they are laid out already."""
    place = scratch(folder, "ends").with_suffix(".json")
    ends.save(place)
    instants = tuple(ends.instants.tolist())
    width = max((instants[-1] - instants[0]) / max(len(instants) - 1, 1), 1.0) if instants else None
    return Sampled(str(place), instants, width, None if local.topics is None else topic_ids(local.topics), len(ends.odd))


def topic_ids(file: str) -> dict[str, str]:
    """Topic -> its id, as metadata at the end of a recording have it."""
    about = json.loads(Path(file).read_bytes())
    return {topic: one["topic_id"] for topic, one in about.items() if one.get("topic_id") is not None}
