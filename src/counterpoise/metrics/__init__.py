"""Metrics: how good a plan is and what it costs, in figures."""

from __future__ import annotations

from counterpoise.metrics.batch import Batch, Figures, measure
from counterpoise.metrics.figures import Metrics, Query

__all__ = ["Batch", "Figures", "Metrics", "Query", "measure"]
