"""Groups whose topics form a path: loads by a taut string, claims by one bit a member."""
