"""Raw records of the offsets topic, decoded a batch at a time: Arrow in, Arrow out."""
