"""Files on any storage that Arrow supports: a local disk, S3 and compatible stores, Google, Azure, HDFS."""
