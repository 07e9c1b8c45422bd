"""Metrics: how good a plan is and what it costs, in figures."""

from __future__ import annotations

from counterpoise.metrics.many import Asked, measure_all
from counterpoise.metrics.measure import Metrics, measure
from counterpoise.metrics.together import Figures, Together

__all__ = ["Asked", "Figures", "Metrics", "Together", "measure", "measure_all"]
