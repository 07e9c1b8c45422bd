#!/bin/sh
# Installs Debian packages where that is allowed (root, apt-get there); exit 1 where it is not, saying nothing.
set -u
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 1
export DEBIAN_FRONTEND=noninteractive
echo "installing $* with apt-get"
apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null 2>&1 && exit 0
apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
