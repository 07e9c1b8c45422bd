"""Stored tables: folders by cluster and day, or tables of a Spark catalog, with at most one row per key."""
