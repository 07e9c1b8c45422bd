"""The audit of a cluster's own history, on Spark: every stage is a function DataFrame -> DataFrame.

Start reading at `audit.audit` and `run.Run`, which has all stages in order: `decode`, `rebalances`, `lag`, `replays`,
`group_report`, `findings.ranking`, `summary`. What a stage does with a group's records or a batch of them is plain Python beneath
it (`folds`, `records`, `timelines`), tried without Spark.

There are two ways through the same folds and kernels. A whole capture in local files goes by tasks (`direct`): they read
and write Parquet themselves, and Spark only starts them. Everything else goes through DataFrames. A test holds the tables
of both together.

    source       what is read: captures judged, chosen parts, hashed names
    capture      how a cluster is recorded, or read from a backup; synthetic: made-up fleets in the form of a recording
    incremental  ``--since last``: the same stages over what is new, again in both ways
    follow       ``--follow``: a stream for each step, and updates behind it
    stored       where tables are kept, and what makes a row the same row; tables: for whoever has no Spark
"""
