"""The groups of a bucket: their records, their steps, who held what, stops and members that polled too late."""
