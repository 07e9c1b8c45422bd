#!/bin/bash
# fetch_lake.sh FOLDER: what the tests of table formats need beside the environment: Iceberg and Delta Lake, resolved by Maven from
# tests/pipeline/lake/pom.xml into FOLDER/jars, and the Spark that both are made for (hashes checked) in FOLDER/python.
set -euo pipefail
folder=$1
here=$(dirname "$0")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
JAVA_HOME=$("$here/find_java.sh" --install)
export JAVA_HOME
command -v mvn >/dev/null || "$here/apt_install.sh" maven || {
    echo "no Maven found, which fetches table formats for the tests: install it (Debian: apt-get install maven)" >&2
    exit 2
}
echo "fetching Iceberg, Delta Lake and their Spark into $folder"
rm -rf "$folder/jars" "$folder/python" "$folder/.ready"
# What they need of others, Spark has.
mvn --quiet --batch-mode -Dstyle.color=never --file "$here/../tests/pipeline/lake/pom.xml" dependency:copy-dependencies \
    -DincludeGroupIds=org.apache.iceberg,io.delta,io.unitycatalog -DoutputDirectory="$folder/jars" </dev/null
"$here/../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement "$here/../tests/pipeline/lake/spark.txt" --target "$folder/python"
touch "$folder/.ready"
