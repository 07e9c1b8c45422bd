#!/bin/bash
# Builds the site (mkdocs.yml) into out/site, with warnings as errors, in an environment of its own: nobody else needs its packages.
# A page must load nothing from the network.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e .site/.ready ] || [ scripts/site-tools.txt -nt .site/.ready ]; then
    echo "installing the packages of the site into .site"
    rm -rf .site
    .venv/bin/python -m venv .site
    .site/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement scripts/site-tools.txt
    touch .site/.ready
fi
PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --strict
if grep -rnoE --include='*.html' '<(script|img|link|iframe)[^>]* (src|href)="?(https?:)?//[^" >]*' out/site; then
    echo "these pages load something from the network" >&2
    exit 1
fi
echo "open $PWD/out/site/index.html in a browser"
