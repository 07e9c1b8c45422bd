"""Commits of a capture that lies in local files: read, decoded, summed up and judged by Arrow and NumPy alone."""
