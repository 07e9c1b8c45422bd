"""What a scan task sends to a fold task through Spark's shuffle: blocks of one bucket of groups."""
