"""Thresholds of the rules of health (docs/health.md says what other values do), and topics that `losing_data` excludes."""

import re

__all__ = ["FEW", "GROWS", "HOUR", "LEAST", "MANY", "PURGED_BY_STREAMS", "RECENT", "RECORDS", "SEVERAL", "SHRINKS", "WAITING"]

LEAST = 30_000_000
"""The least patience (docs/definitions.md), in microseconds: how long records may wait without progress."""
HOUR = 3_600_000_000
"""Microseconds. Unread data that is due for deletion in less is being lost; a member counts as busy for at most this time."""
FEW = 2
"""A value within this factor of the usual one is usual."""
RECENT = 4
"""Intervals between samples, of which the third shortest is usual: one gap does not change it, and two in turn are usual."""
SEVERAL = 5
"""Factor of the patience with a new owner, with few records, and while no usual gap is known."""
MANY = 10
"""A rise or a fall of the lag may pause for this many times the patience; a log is gone after this many missed samples."""
SHRINKS, GROWS = 0.9, 3
"""The least and the largest factor by which a usual value changes at once."""
WAITING = 2
"""A lag of fewer records is none, as one offset may be the marker of a transaction."""
RECORDS = 10
"""A change of the lag by fewer records is none."""
PURGED_BY_STREAMS = re.compile("-(repartition|subscription-(registration|response)(-[0-9]+)?-topic)$", re.IGNORECASE)
"""Names of topics from which Kafka Streams deletes what it has committed: their log starts move without retention."""
