"""Blocks: the rows that Spark shuffles from scan tasks to fold tasks."""
