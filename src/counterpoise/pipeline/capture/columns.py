"""What a record of a topic looks like as Arrow, and the topic's name; needs no client library."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["ARROW", "OFFSETS_TOPIC"]

OFFSETS_TOPIC = "__consumer_offsets"
ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's Kafka source."""
