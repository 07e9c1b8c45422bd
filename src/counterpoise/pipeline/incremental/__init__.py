"""What an audit leaves for the next one, and what the next one makes of it."""
