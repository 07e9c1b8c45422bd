"""Positions in a topic: in the JSON of Spark's Kafka source, resolved to offsets of a cluster, and limited per trigger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from counterpoise.errors import OptionError
from counterpoise.pipeline.capture.cluster import Cluster, Which, check_leaders
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["EARLIEST", "LATEST", "from_json", "parse_positions", "resolve", "share_out", "to_json"]

EARLIEST, LATEST = -2, -1
"""The first offset and the end, in the JSON of Spark's Kafka source."""


def to_json(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """``{topic: {"0": 23}}``, sorted."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        topics.setdefault(topic, {})[str(partition)] = int(offset)
    return topics


def from_json(positions: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    """The inverse of `to_json`."""
    return {(topic, int(index)): int(offset) for topic, about in positions.items() for index, offset in about.items()}


def parse_positions(option: str, text: str) -> int | dict[Partition, int]:
    """Read ``startingOffsets`` or ``endingOffsets``: ``earliest``, ``latest`` or JSON. Raises `OptionError` for other texts."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        if option == "endingOffsets" and word == "earliest":
            raise OptionError("endingOffsets: earliest is no end; expected latest or offsets per partition")
        return EARLIEST if word == "earliest" else LATEST
    try:
        offsets = from_json(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f'{option}: expected earliest, latest or JSON like {{"topic":{{"0":23,"1":-2}}}}') from None
    if any(offset < EARLIEST or (option == "endingOffsets" and offset == EARLIEST) for offset in offsets.values()):
        raise OptionError(
            f"{option}: expected an offset, {'-2 (earliest) or ' if option == 'startingOffsets' else ''}-1 (latest)"
        )
    return offsets


def resolve(
    cluster: Cluster, partitions: Iterable[Partition], positions: int | Mapping[Partition, int], latest: Which, option: str
) -> dict[Partition, int]:
    """The offset of every partition in `partitions`.

    `positions`: EARLIEST or LATEST for all, or partition -> offset, EARLIEST or LATEST. `latest` is the meaning of LATEST: the
    end of the log, or the last stable offset.

    Raises `OptionError` if the partitions of `positions` are not those of the topics, and `SourceError` if the cluster does not
    answer, or a partition has no leader.
    """
    known = list(partitions)
    given = dict.fromkeys(known, positions) if isinstance(positions, int) else positions
    if set(given) != set(known):
        odd = min(set(given) ^ set(known))
        raise OptionError(f"{option}: partition {odd[1]} of {odd[0]} is {'missing' if odd in known else 'not one that is read'}")
    found = {one: at for one, at in sorted(given.items()) if at not in (EARLIEST, LATEST)}
    found |= cluster.offsets([one for one in known if given[one] == EARLIEST], "start")
    found |= cluster.offsets([one for one in known if given[one] == LATEST], latest)
    check_leaders(known, found, lost="records cannot be read")
    return dict(sorted(found.items()))


def share_out(start: Mapping[Partition, int], end: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """End offsets with at most `limit` offsets after `start`, shared in proportion to the backlog of each partition.

    If there is a backlog, the result has at least one offset more, so a reader always progresses; the remainder of the division
    goes to the first partitions in order.
    """
    room = {partition: max(0, end[partition] - start[partition]) for partition in sorted(end)}
    total = max(sum(room.values()), limit, 1)
    given = {partition: size * limit // total for partition, size in room.items()}
    left = limit - sum(given.values())
    for partition, size in room.items():
        if left and given[partition] < size:
            given[partition] += 1
            left -= 1
    return {partition: start[partition] + given[partition] for partition in room}
