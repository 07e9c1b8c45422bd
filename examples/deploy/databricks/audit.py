"""An audit in a Databricks job: records from Kafka, or a capture in a volume, into tables of Unity Catalog and a report.

spark_python_task with the parameters SOURCE OUT SCHEMA; SOURCE is a folder of a volume, or kafka:HOST:PORT.
"""

import sys

from pyspark.sql import SparkSession

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.report.render import write_report


def main(source: str, out: str, schema: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    given = source
    if source.startswith("kafka:"):
        options = {"kafka.bootstrap.servers": source.removeprefix("kafka:"), "subscribe": "__consumer_offsets"}
        given = spark.read.format("kafka").options(**options).load()
    result = audit(spark, given, out, into=Catalog(schema, "audit_"))
    write_report(result.place)
    print(f"{result}: {result.report}")


if __name__ == "__main__":
    main(*sys.argv[1:])
