"""Bytes to values and back: the consumer protocol, sticky user data, and the records of the offsets topic.

No I/O, no state; NumPy is the only dependency. Every decoder returns a value or raises `WireError`; nothing else
ever leaves it, whatever the bytes. A length read from the bytes is checked against what is left before anything is
allocated by it.

    primitives          bounds-checked Reader, Writer
    consumer_protocol   Subscription, Assignment (JoinGroup metadata, SyncGroup assignments)
    user_data           what the sticky assignors of each client library put into a subscription
    columns             binary columns as NumPy sees them: gathers, slices, UTF-8
    topic_lists         many [topic, [int32]] lists at once, vectorised
    group_fields        where the fields of all members' subscriptions lie, vectorised
    group_metadata      all members' metadata to flat arrays: what a leader reads
    group_assignments   owners to all members' assignments: what a leader writes
    offsets_topic       the records of __consumer_offsets, one by one and in batches
"""
