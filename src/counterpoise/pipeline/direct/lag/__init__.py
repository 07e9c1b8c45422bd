"""Lag of the groups of a bucket, in arrays."""
