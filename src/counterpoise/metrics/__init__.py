"""Metrics: how good a plan is and what it costs, in figures."""

from __future__ import annotations

from counterpoise.metrics.batch import Batch, Figures
from counterpoise.metrics.figures import Metrics, Query
from counterpoise.metrics.measure import measure

__all__ = ["Batch", "Figures", "Metrics", "Query", "measure"]
