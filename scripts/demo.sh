#!/bin/bash
# Audits the recorded cluster that ships with the project and says where the report lies.
set -euo pipefail
cd "$(dirname "$0")/.."
JAVA_HOME=$(scripts/find_java.sh --install)
export JAVA_HOME
rm -rf out/demo
status=0
.venv/bin/counterpoise audit examples/shop --out out/demo || status=$?
# 1 says that the audit found something, which is what a demo is for; but then it has written what it found.
if [ "$status" -gt 1 ] || [ ! -s out/demo/summary.json ]; then
    echo "the audit did not end as it should (exit code $status)" >&2
    exit 2
fi
echo "open $PWD/out/demo/report.html in a browser"
