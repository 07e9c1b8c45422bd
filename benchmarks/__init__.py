"""Benchmarks: our assignors beside their peers, in one run."""
