"""The audit of a cluster's own history, on Spark: files of records to files of tables, by tasks in Python that Spark starts.

Start reading at `audit.audit`, `run.Run` and `direct.direct.Direct`, which has the passes in order. What a pass does with the
records of a group or a batch of them is plain Python beneath it (`folds`, `records`, `timelines`), tried without Spark. Every
source and every option goes this way: what is no local Parquet file is written as such first (`source.staging`).

    source       what is read: captures checked, Parquet of any types, other sources staged, parts chosen, names hashed
    direct       the passes: decode, groups, lag, replays, report
    capture      how a cluster is recorded, or read from a backup; synthetic: made-up fleets in the form of a recording
    incremental  ``--since last``: the same passes over what is new
    follow       ``--follow``: a stream for each step, and updates behind it
    storage      files by path or URI: a local disk, S3, Google, Azure, HDFS
    stored       where tables are kept, and what makes a row the same row; tables: for whoever has no Spark
"""
