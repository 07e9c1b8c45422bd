"""The audit of a cluster's own history on Spark: tasks in Python turn files of records into files of tables.

Start reading at `audit.audit`, `run.Run` and `engine.Engine`, which has the stages in order. The code that handles the records of
a group or a batch is plain Python below it, tested without Spark.

    source       captures as input: checks, Parquet of any types, the scope of an audit, hashed names
    records      decoders: raw records to rows of tables
    scan         decode records, aggregate commits, group by bucket; shuffle: the rows that Spark shuffles
    fold         the records of a bucket of groups to rows of tables
    history      the records of one group to steps of table `rebalances`, and replays of these steps
    findings     rules over rows of `group_report`, ranked
    capture      recordings of a cluster, or of a backup; synthetic: made-up fleets in the form of a recording
    incremental  ``--since last``: the same stages over new records; follow: ``--follow``, one update after the other
    storage      files by path or URI: a local disk, S3, Google, Azure, HDFS
    stored       output folders, catalogs, keys of tables, and writers of their files
"""
