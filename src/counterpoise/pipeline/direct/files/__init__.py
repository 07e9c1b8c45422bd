"""Files that tasks read and write: raw records in batches, rows by day, rows with a mark."""
