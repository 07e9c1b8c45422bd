"""Synthetic fleets of consumer groups, by seed, written as a capture: for tests and benchmarks at any size."""
