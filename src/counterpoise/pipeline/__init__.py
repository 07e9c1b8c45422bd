"""The audit of a cluster's own history, on Spark: files of records to files of tables, by tasks in Python that Spark starts.

Start reading at `audit.audit`, `run.Run` and `engine.Engine`, which has the stages in order. What a stage does with the records
of a group or a batch of them is plain Python beneath it, tested without Spark.

    source       what is read: captures checked, Parquet of any types, parts chosen, names hashed
    scan         decode, aggregate commits, put records into buckets of groups: shuffle has the rows that Spark moves
    fold         a bucket's records to rows of tables
    history      one group's records to steps of table `rebalances`, and replays of these steps
    findings     rules over groups, ranked
    capture      how a cluster is recorded, or read from a backup; synthetic: made-up fleets in the form of a recording
    incremental  ``--since last``: the same stages over what is new; follow: ``--follow``, one update after the other
    storage      files by path or URI: a local disk, S3, Google, Azure, HDFS
    stored       where tables are kept, and what makes a row the same row; tables: files of rows by day
"""
