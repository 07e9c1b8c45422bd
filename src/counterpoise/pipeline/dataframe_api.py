"""For Spark jobs: `decode.offset_commits` and its like, and `rebalances`, as functions from DataFrame to DataFrame."""

from counterpoise.pipeline import decode
from counterpoise.pipeline.history.steps import rebalances

__all__ = ["decode", "rebalances"]
