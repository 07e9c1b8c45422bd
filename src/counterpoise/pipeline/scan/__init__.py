"""Reading: raw records of the offsets topic to rows of tables and to blocks for the shuffle."""
