"""Rows of the report and of the findings, and sums for the summary, from what tasks told."""
