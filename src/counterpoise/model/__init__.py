"""The model: one group as integers, its claims settled once."""

from __future__ import annotations

from counterpoise.model.problem import CONTESTED, UNOWNED, Problem, Racks

__all__ = ["CONTESTED", "UNOWNED", "Problem", "Racks"]
