#!/bin/bash
# fetch_prometheus.sh FOLDER: Prometheus and promtool, built from the Go module proxy into FOLDER, for the test of examples/monitoring.
# Without service discovery (remove_all_sd), which would be most of the build.
set -euo pipefail
version=v0.316.0 # Prometheus 3.16.0
mkdir -p "$1"
folder=$(cd "$1" && pwd)
command -v go > /dev/null || { echo "Prometheus is built with Go 1.26 or newer (https://go.dev/dl)" >&2; exit 1; }
echo "building Prometheus into $folder (some minutes)"
module=github.com/prometheus/prometheus/cmd
GOBIN="$folder" go install -tags remove_all_sd "$module/prometheus@$version" "$module/promtool@$version"
touch "$folder/.ready"
