"""Bytes to values and back: the consumer protocol, sticky user data, and the records of the offsets topic.

No I/O, no state; NumPy is the only dependency. Every decoder returns a value or raises `WireError`; nothing else
ever leaves it, whatever the bytes. A length read from the bytes is checked against what is left before anything is
allocated by it.
"""
