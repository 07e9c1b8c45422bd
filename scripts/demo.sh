#!/bin/bash
# Audits the recorded cluster that ships with the project and says where the report lies.
set -euo pipefail
cd "$(dirname "$0")/.."
JAVA_HOME=$(scripts/find_java.sh --install)
export JAVA_HOME
status=0
.venv/bin/counterpoise audit examples/shop --out out/demo || status=$?
# 1 says that the audit found something, which is what a demo is for.
[ "$status" -le 1 ] || exit "$status"
echo
echo "report:  $PWD/out/demo/report.html"
echo "summary: $PWD/out/demo/summary.json"
echo "tables:  $PWD/out/demo/tables/"
