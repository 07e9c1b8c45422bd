"""One group's records folded, in log order: its life, its causes, and what every strategy would have done. No Spark in here."""
