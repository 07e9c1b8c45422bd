"""Planning: names in, names out - plans, comparisons, and the leader of a group, bytes to bytes."""
