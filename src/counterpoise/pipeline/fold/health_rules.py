"""The numbers in the rules of health; docs/health.md says why each is there."""

__all__ = ["FEW", "GROWS", "HOUR", "LEAST", "MANY", "RECORDS", "SEVERAL", "SHRINKS", "WAITING"]

LEAST, HOUR = 30_000_000, 3_600_000_000
"""Microseconds: the least patience; the time within which data will be lost, and after which a member is no longer busy."""
FEW, SEVERAL, MANY = 2, 5, 10
"""Factors: what differs from the usual by less is usual; patience, where there is a doubt; when a rise, or a log, is over."""
SHRINKS, GROWS = 0.9, 3
"""By how much what is usual changes at once, at most."""
WAITING, RECORDS = 2, 10
"""Records: fewer are no lag, as one offset may be the marker of a transaction; a smaller change of the lag is none."""
