#!/bin/bash
# fetch_kafka.sh FOLDER: the jars of the Kafka broker for tests, resolved by Maven from tests/kafka/pom.xml into FOLDER/libs.
set -euo pipefail
folder=$1
here=$(dirname "$0")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
JAVA_HOME=$("$here/find_java.sh" --install)
export JAVA_HOME
command -v mvn >/dev/null || "$here/apt_install.sh" maven || {
    echo "no Maven found, which fetches the Kafka broker for the tests: install it (Debian: apt-get install maven)" >&2
    exit 2
}
echo "fetching the jars of the Kafka broker into $folder/libs"
rm -rf "$folder/libs" "$folder/.ready"
mvn --quiet --batch-mode -Dstyle.color=never --file "$here/../tests/kafka/pom.xml" \
    dependency:copy-dependencies -DoutputDirectory="$folder/libs" </dev/null
touch "$folder/.ready"
