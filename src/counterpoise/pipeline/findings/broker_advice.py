"""What to do where the broker assigns (KIP-848): another assignor of the broker, or back to the classic protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.folds.epochs import EPOCH_TYPE

__all__ = ["assigned_by", "broker_lines", "by_broker", "lag_by_broker"]

Row = Mapping[str, Any]
_SPREADS_ALL, _SPREADS_TOPICS = "uniform", "range"
"""The assignors that brokers bring: one spreads all partitions alike, one those of each topic."""
_BACK = (
    "back to the classic protocol, one restart at a time (where the brokers' group.consumer.migration.policy is bidirectional "
    "or downgrade), with\n  group.protocol=classic"
)


def by_broker(row: Row) -> bool:
    """Whether a row of `group_report` is about a KIP-848 group."""
    return bool(row["group_type"] == EPOCH_TYPE)


def assigned_by(row: Row) -> str:
    """What shares out the partitions of a group, in words: its strategy, or the broker's assignor."""
    if not by_broker(row):
        return str(row["protocol"])
    return f"the broker's {row['protocol']} assignor" if row["protocol"] else "the broker's assignor"


def broker_lines(row: Row, classic: Sequence[str], *, by_topic: bool = False) -> str:
    """How a KIP-848 group is shared out otherwise; empty: there is no other way.

    Parameters
    ----------
    row : mapping
        Of `group_report`.
    classic : sequence of str
        The lines that select a strategy under the classic protocol, one per client library; empty: none is better there.
    by_topic : bool
        Wanted is that the partitions of each topic are spread; otherwise all of them together.
    """
    wanted = _SPREADS_TOPICS if by_topic else _SPREADS_ALL
    notes = []
    if row["protocol"] != wanted and (row["protocol"] or by_topic):
        notes.append(f"the broker brings an assignor for that; every member with\n  group.remote.assignor={wanted}")
    if classic:
        notes += [f"{'or ' if notes else ''}{_BACK}", *(f"  {line}" for line in classic)]
    return "\n".join(notes)


def lag_by_broker() -> str:
    """What is left to a KIP-848 group that is to be dealt out by lag."""
    return (
        "no assignor that brokers bring looks at lag; under the classic protocol (group.protocol=classic) kafka-python and "
        "aiokafka take lag-sticky (docs/clients.md), and any client can assign() a plan (`counterpoise plan`, `export`)"
    )
