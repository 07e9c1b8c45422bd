"""Decoders of raw records of the offsets topic: a batch of records to rows of a table, in Arrow."""
