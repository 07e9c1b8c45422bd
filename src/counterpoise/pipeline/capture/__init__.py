"""Captures: the offsets topic, log ends and metadata are recorded to a folder that the audit reads; also from backups."""
