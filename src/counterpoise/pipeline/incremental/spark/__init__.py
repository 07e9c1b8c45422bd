"""Going on by Spark, where captures are no plain local files, have no samples, or only a part of them is chosen."""
