"""The records of ``__consumer_offsets``: every type and version Kafka 4.3.1 reads or writes.

A record comes out as a `Record`, a `Tombstone` or an `Undecodable`.
"""
