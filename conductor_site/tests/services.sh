#!/usr/bin/env bash
# Installs what the tests need beside Python packages, where this is root on a Debian; else says what is missing.
set -euo pipefail
PATH="$PATH:/usr/sbin:/sbin"
missing=()
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v nginx >/dev/null || missing+=(nginx-light)
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v openssl >/dev/null || missing+=(openssl)
[ -x /lib/systemd/systemd ] || missing+=(systemd)  # the package alone, which makes it nobody's init
command -v curl >/dev/null || missing+=(curl)
[ ${#missing[@]} = 0 ] && exit 0

# Debian starts a server of its own for a new package, unless it is told not to; the tests bring theirs.
policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.conf
undo() {
  [ -z "${own_policy:-}" ] || rm -f "$policy"
  [ ! -e "$clusters.before" ] || mv "$clusters.before" "$clusters"
}
trap undo EXIT

start_none() {
  [ -e "$policy" ] && return
  own_policy=yes
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
}

make_no_cluster() {
  apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
  cp "$clusters" "$clusters.before"
  echo "create_main_cluster = false" >>"$clusters"
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  if [[ " ${missing[*]} " == *" nginx-light "* ]]; then start_none; fi
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then make_no_cluster; fi
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "Missing: ${missing[*]}. The tests that need them will be skipped. As root: apt-get install ${missing[*]}"
fi
