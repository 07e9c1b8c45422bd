"""Explanation: why a partition is where it is, in words."""

from __future__ import annotations

from counterpoise.explanation.explain import explain

__all__ = ["explain"]
