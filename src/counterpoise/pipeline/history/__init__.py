"""One group's records, in log order, to steps with their causes, and to replays of each step. No Spark in here."""
