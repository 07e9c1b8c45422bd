"""The commits of a piece: decoded, each key once, and summed up."""
