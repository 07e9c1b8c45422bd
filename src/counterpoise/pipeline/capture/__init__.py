"""Live capture: the offsets topic, log ends and metadata into a folder that the audit reads; the same from old segments."""
