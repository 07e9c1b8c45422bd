"""Assignors and listeners for Python Kafka clients (extras)."""
