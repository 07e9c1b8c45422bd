#!/bin/bash
# What goes with a release, beside the wheel in dist/: a software bill of materials (CycloneDX, from requirements.lock), and an
# audit of the same packages for known vulnerabilities, which asks a service on the network (without it: one line, exit code 3).
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
tools=.release/bin
bill=dist/counterpoise.cdx.json
if [ ! -e .release/.ready ] || [ scripts/release-tools.txt -nt .release/.ready ]; then
    rm -rf .release
    $python -m venv .release
    $tools/pip install --quiet --disable-pip-version-check --require-hashes --requirement scripts/release-tools.txt
    touch .release/.ready
fi
mkdir -p dist
told=$(mktemp)
trap 'rm -f "$told"' EXIT
$tools/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible --output-format JSON \
    --output-file "$bill" requirements.lock 2>"$told" || { cat "$told" >&2; exit 1; }
$python scripts/check_release.py bill "$bill" requirements.lock
$tools/pip-audit --disable-pip --require-hashes --progress-spinner off --format json --requirement requirements.lock \
    >"$told" 2>/dev/null || true # what it says, and about which packages, is checked here
$python scripts/check_release.py audit "$told" requirements.lock
