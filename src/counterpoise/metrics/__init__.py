"""Metrics: how good a plan is and what it costs, in figures."""

from __future__ import annotations

from counterpoise.metrics.many import Asked, measure_all
from counterpoise.metrics.measure import Metrics, measure

__all__ = ["Asked", "Metrics", "measure", "measure_all"]
