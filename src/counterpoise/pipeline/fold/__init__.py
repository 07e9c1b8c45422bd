"""The kernel: records of a bucket of groups, in log order and chunk by chunk, to rows of tables and a state. No Spark in here."""
