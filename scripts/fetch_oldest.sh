#!/bin/bash
# fetch_oldest.sh FOLDER: older versions of the Kafka clients that counterpoise plugs into, each alone in a folder of its own
# (hashes checked), for the tests that try the newest and the oldest.
set -euo pipefail
folder=$1
cd "$(dirname "$0")/.."
echo "fetching older Kafka clients into $folder"
rm -rf "$folder"
mkdir -p "$folder"
for wanted in tests/clients/oldest/*.txt; do
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --requirement "$wanted" --target "$folder/$(basename "$wanted" .txt)"
done
touch "$folder/.ready"
