"""Writers of table files in tasks."""
