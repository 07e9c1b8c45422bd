"""Fewer moves: a plan within its limits gone over once more, in groups of some size, for partitions that could stay."""
