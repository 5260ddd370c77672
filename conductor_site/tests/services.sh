#!/usr/bin/env bash
# Installs what the tests need beside Python packages, where this is root on a Debian; else says what is missing.
set -euo pipefail
missing=()
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then
    # Debian starts a server of its own for a new package, unless it is told not to; the tests bring theirs.
    apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
    configuration=/etc/postgresql-common/createcluster.conf
    cp "$configuration" "$configuration.before"
    trap 'mv "$configuration.before" "$configuration"' EXIT
    echo "create_main_cluster = false" >>"$configuration"
  fi
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "Missing: ${missing[*]}. The tests that need them will be skipped. As root: apt-get install ${missing[*]}"
fi
