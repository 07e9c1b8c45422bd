"""The audit of a cluster's own history, on Spark: every stage is a function DataFrame -> DataFrame."""
