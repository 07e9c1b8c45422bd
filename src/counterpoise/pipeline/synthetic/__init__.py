"""A made-up fleet of consumer groups, seeded, written as a capture: for tests and benchmarks at any size."""
