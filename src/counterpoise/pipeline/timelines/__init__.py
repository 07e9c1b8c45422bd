"""Who owned what from when to when, and where logs ended: what `lag` and `stops` are read from."""
