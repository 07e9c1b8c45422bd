"""Assignors and listeners for Python Kafka clients (extras)."""

import logging

__all__: list[str] = []

# A library says nothing in a program that has not set up logging.
logging.getLogger("counterpoise").addHandler(logging.NullHandler())
