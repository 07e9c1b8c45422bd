"""Groups whose topics form paths: dual variables by the taut string, claims by dynamic programming."""
