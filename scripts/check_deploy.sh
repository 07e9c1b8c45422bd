#!/bin/bash
# Checks the files in examples/deploy, and the workflows, as far as that goes without their platforms, with tools in an environment of
# its own (.deploy).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e .deploy/.ready ] || [ scripts/deploy-tools.txt -nt .deploy/.ready ]; then
    rm -rf .deploy
    .venv/bin/python -m venv .deploy
    .deploy/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement scripts/deploy-tools.txt
    touch .deploy/.ready
fi
.deploy/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
cd examples/deploy
tools=../../.deploy/bin
$tools/hadolint Dockerfile
for file in kubernetes/*.yaml; do
    $tools/kubernetes-validate --strict "$file" >/dev/null
done
$tools/python - <<'CHECK'
import yaml
from databricks.bundles.jobs import Job

for job in yaml.safe_load(open("databricks/databricks.yml"))["resources"]["jobs"].values():
    Job.from_dict(job)  # refuses unknown fields
CHECK
if command -v systemd-analyze >/dev/null; then
    units=$(mktemp -d)
    trap 'rm -rf "$units"' EXIT
    for unit in systemd/*; do # the command must exist: that of this clone
        sed "s#/opt/counterpoise/bin/#$(realpath ../../.venv/bin)/#" "$unit" >"$units/$(basename "$unit")"
    done
    systemd-analyze verify "$units"/*
else
    echo "systemd-analyze is not here: the units were not checked"
fi
echo "workflows, Dockerfile, Kubernetes objects, asset bundle and units are well-formed"
