#!/usr/bin/env bash
# Installs what the tests need beside Python packages, where this is root on a Debian; else says what is missing.
set -euo pipefail
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
else
  echo "Chromium is missing: the browser tests will be skipped. As root: apt-get install chromium"
fi
