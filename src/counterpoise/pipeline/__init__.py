"""The audit of a cluster's own history on Spark: tasks in Python turn files of records into files of tables.

Start reading at `audit.audit`, `run.Run` and `engine.Engine`, which has the stages in order. The code that handles the records of
a group or a batch is plain Python below it, tested without Spark. ARCHITECTURE.md lists the packages.
"""
