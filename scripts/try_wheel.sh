#!/bin/bash
# Builds the wheel and the sdist, installs the wheel in fresh environments outside the source tree, and tries it there:
# once alone (the core must run without any extra), with each client (size, time to import), and with the extra `all` at the locked versions.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rm -rf dist
.venv/bin/python -m build --no-isolation --outdir dist . >/dev/null
wheel=$(echo "$root"/dist/*.whl)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
cp scripts/smoke.py "$away/"
# The lock without its hashes: pip takes hashes only when every requirement, the wheel too, has one.
sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*\)\\$/\1/p' requirements.lock >"$away/constraints.txt"
cd "$away"
pip_install() {
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$2"
}

"$root/.venv/bin/python" -m venv core
pip_install core "$wheel"
core/bin/python -I smoke.py core "$wheel"

for client in kafka-python aiokafka; do
    "$root/.venv/bin/python" -m venv "$client"
    pip_install "$client" "${wheel}[$client]"
    "$client/bin/python" -I smoke.py "$client" "$wheel"
done

"$root/.venv/bin/python" -m venv all
pip_install all "${wheel}[all]"
all/bin/python -I smoke.py all "$wheel"
