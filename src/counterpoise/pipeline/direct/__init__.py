"""The stages of an audit of captures in local files, by tasks with Arrow and NumPy: `direct` drives them, no row passes Spark."""
