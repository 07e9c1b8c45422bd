#!/bin/sh
# Prints the path of chromedriver, which drives a Chromium or Chrome; tests of the page need both.
# With --install, and only as root on Debian, installs them when they are missing. Otherwise one line on stderr and exit 2.
set -u
command -v chromedriver && exit 0
if [ "${1:-}" = --install ] && "$(dirname "$0")/apt_install.sh" chromium chromium-driver >&2; then
    command -v chromedriver && exit 0
fi
echo "no chromedriver found in PATH: install Chromium and its driver (Debian: apt-get install chromium chromium-driver)" >&2
exit 2
