"""What an audit leaves for the next one, and reads back: sums of commits, newest lag, replays, rows of the tables."""
