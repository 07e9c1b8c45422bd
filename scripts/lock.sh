#!/bin/bash
# Renews requirements.lock from pyproject.toml, and scripts/{release,site,deploy}-tools.txt, with uv (from PATH or $UV, else in an environment of its own under build/).
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-$(command -v uv || true)}
if [ -z "$uv" ]; then
    .venv/bin/python -m venv build/uv
    build/uv/bin/pip install --quiet --disable-pip-version-check uv
    uv=build/uv/bin/uv
fi
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --extra all --group dev --output-file requirements.lock pyproject.toml
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --output-file scripts/release-tools.txt scripts/release-tools.in
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --constraint requirements.lock --output-file scripts/site-tools.txt scripts/site-tools.in
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
    --output-file scripts/deploy-tools.txt scripts/deploy-tools.in
