#!/bin/bash
# fetch_kafka.sh FOLDER: the jars of the Kafka broker for tests, resolved by Maven from tests/kafka/pom.xml into FOLDER/libs.
set -euo pipefail
here=$(dirname "$0")
mkdir -p "$1"
folder=$(cd "$1" && pwd)
echo "fetching the jars of the Kafka broker into $folder/libs"
rm -rf "$folder/libs" "$folder/.ready"
"$here/fetch_jars.sh" "$here/../tests/kafka/pom.xml" "$folder/libs"
touch "$folder/.ready"
