"""Functions from DataFrame to DataFrame for Spark jobs: those of `decode`, and `rebalances`."""

from counterpoise.pipeline import decode
from counterpoise.pipeline.history.steps import rebalances

__all__ = ["decode", "rebalances"]
