#!/bin/bash
# fetch_lake.sh FOLDER: what the tests of table formats need beside the environment: Iceberg and Delta Lake, resolved by Maven from
# tests/pipeline/lake/pom.xml into FOLDER/jars, and the Spark that both are made for (hashes checked) in FOLDER/python.
set -euo pipefail
here=$(dirname "$0")
mkdir -p "$1"
folder=$(cd "$1" && pwd)
echo "fetching Iceberg, Delta Lake and their Spark into $folder"
rm -rf "$folder/jars" "$folder/python" "$folder/.ready"
# What they need of others, Spark has.
"$here/fetch_jars.sh" "$here/../tests/pipeline/lake/pom.xml" "$folder/jars" \
    -DincludeGroupIds=org.apache.iceberg,io.delta,io.unitycatalog
"$here/../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement "$here/../tests/pipeline/lake/spark.txt" --target "$folder/python"
touch "$folder/.ready"
