"""Files on any storage that Arrow opens: a local disk, S3 and what speaks its protocol, Google, Azure, HDFS."""
