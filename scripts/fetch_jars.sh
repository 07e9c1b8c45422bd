#!/bin/bash
# fetch_jars.sh POM FOLDER [OPTION...]: the jars that a POM names, resolved by Maven (which is installed, if it can be) into FOLDER.
set -euo pipefail
pom=$1 folder=$2
shift 2
here=$(dirname "$0")
JAVA_HOME=$("$here/find_java.sh" --install)
export JAVA_HOME
command -v mvn >/dev/null || "$here/apt_install.sh" maven || {
    echo "no Maven found, which fetches jars for the tests: install it (Debian: apt-get install maven)" >&2
    exit 2
}
mvn --quiet --batch-mode -Dstyle.color=never --file "$pom" dependency:copy-dependencies "$@" -DoutputDirectory="$folder" </dev/null
