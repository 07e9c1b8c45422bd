"""Assignors: strategies by the name that goes over the wire, each a pure function of one problem."""

from __future__ import annotations

from counterpoise.assignors.registry import assignor, register, strategies, strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Assignor, Option, Strategy

__all__ = ["COOPERATIVE", "EAGER", "Assignor", "Option", "Strategy", "assignor", "register", "strategies", "strategy"]
