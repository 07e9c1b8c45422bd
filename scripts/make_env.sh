#!/bin/bash
# make_env.sh FOLDER: a virtual environment with exactly the locked packages (hashes checked) and counterpoise itself, editable.
set -euo pipefail
folder=$1
here=$(dirname "$0")

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "no Python 3.11 or newer found: install one or name it (make PYTHON=/path/to/python3 ...)" >&2
    return 2
}

make_venv() {
    local python
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$here/apt_install.sh" "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" || {
            echo "$python has no venv module: install it (Debian: apt-get install python3-venv)" >&2
            return 2
        }
    fi
    rm -rf "$folder"
    "$python" -m venv "$folder"
}

"$folder/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
echo "installing the locked packages into $folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch "$folder/.ready"
