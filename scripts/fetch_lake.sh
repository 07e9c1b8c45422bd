#!/bin/bash
# fetch_lake.sh FOLDER: what the tests of table formats and of Spark's Kafka source need beside the environment: Iceberg, Delta Lake
# and the connector, resolved by Maven from tests/pipeline/lake/pom.xml into FOLDER/jars, and the Spark that all are made for
# (hashes checked) in FOLDER/python.
set -euo pipefail
here=$(dirname "$0")
mkdir -p "$1"
folder=$(cd "$1" && pwd)
echo "fetching Iceberg, Delta Lake, the Kafka source of Spark and their Spark into $folder"
rm -rf "$folder/jars" "$folder/python" "$folder/.ready"
# What they need of others, Spark has.
"$here/fetch_jars.sh" "$here/../tests/pipeline/lake/pom.xml" "$folder/jars" \
    -DincludeGroupIds=org.apache.iceberg,io.delta,io.unitycatalog,org.apache.spark,org.apache.kafka,org.apache.commons
"$here/../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement "$here/../tests/pipeline/lake/spark.txt" --target "$folder/python"
touch "$folder/.ready"
