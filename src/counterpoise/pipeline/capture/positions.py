"""Positions in a topic: as JSON the way Spark's Kafka source writes them, resolved on a cluster, and shared out under a limit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from counterpoise.errors import OptionError
from counterpoise.pipeline.capture.cluster import Cluster, Place, Which

__all__ = ["EARLIEST", "LATEST", "from_json", "parse_positions", "resolve", "share_out", "to_json"]

EARLIEST, LATEST = -2, -1
"""In JSON, as Spark's Kafka source has it: the first offset, and the end."""


def to_json(positions: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """``{topic: {"0": 23}}``, sorted."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(partition)] = int(offset)
    return found


def from_json(positions: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """The inverse of `to_json`."""
    return {(topic, int(index)): int(offset) for topic, about in positions.items() for index, offset in about.items()}


def parse_positions(option: str, text: str) -> int | dict[Place, int]:
    """The value of ``startingOffsets`` or ``endingOffsets``: ``earliest``, ``latest`` or JSON per partition.

    Raises
    ------
    OptionError
        It is neither.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        if option == "endingOffsets" and word == "earliest":
            raise OptionError("endingOffsets: earliest is no end; expected latest or offsets per partition")
        return EARLIEST if word == "earliest" else LATEST
    try:
        found = from_json(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f'{option}: expected earliest, latest or JSON like {{"topic":{{"0":23,"1":-2}}}}') from None
    if any(offset < EARLIEST or (option == "endingOffsets" and offset == EARLIEST) for offset in found.values()):
        raise OptionError(
            f"{option}: expected an offset, {'-2 (earliest) or ' if option == 'startingOffsets' else ''}-1 (latest)"
        )
    return found


def resolve(
    cluster: Cluster, places: Iterable[Place], wanted: int | Mapping[Place, int], latest: Which, option: str
) -> dict[Place, int]:
    """Real offsets for every partition.

    Parameters
    ----------
    cluster : Cluster
    places : iterable of (topic, partition)
        All partitions that are read.
    wanted : int or mapping
        EARLIEST, LATEST, or one of these or an offset per partition.
    latest : "end" or "stable"
        What "latest" means: the end, or the end of what is committed.
    option : str
        For the message.

    Raises
    ------
    OptionError
        The partitions named are not the ones that are there.
    SourceError
        The cluster cannot be asked.
    """
    known = list(places)
    if isinstance(wanted, int):
        return cluster.offsets(known, "start" if wanted == EARLIEST else latest)
    if set(wanted) != set(known):
        odd = min(set(wanted) ^ set(known))
        raise OptionError(f"{option}: partition {odd[1]} of {odd[0]} is {'missing' if odd in known else 'not one that is read'}")
    first = cluster.offsets([p for p in known if wanted[p] == EARLIEST], "start")
    last = cluster.offsets([p for p in known if wanted[p] == LATEST], latest)
    return {**dict(sorted(wanted.items())), **first, **last}


def share_out(start: Mapping[Place, int], end: Mapping[Place, int], limit: int) -> dict[Place, int]:
    """Ends so that at most `limit` offsets lie between `start` and them, each partition in proportion to what it has.

    Notes
    -----
    With any backlog at all at least one offset is given, so a reader always gets on; what rounding leaves over goes to
    the first partitions in order.
    """
    room = {place: max(0, end[place] - start[place]) for place in sorted(end)}
    total = sum(room.values())
    if total <= limit:
        return {place: max(end[place], start[place]) for place in sorted(end)}
    given = {place: size * limit // total for place, size in room.items()}
    left = limit - sum(given.values())
    for place, size in room.items():
        if left and given[place] < size:
            given[place] += 1
            left -= 1
    return {place: start[place] + given[place] for place in room}
