"""The text of the guard: a small script that runs one job's script at most once and writes down how it ended.

In the token folder:
    owner                the identity of the guard that won, by link(owner.<id>, owner); later ones read it and exit 97.
                         Who starts a guard links it in its name, if it is quick enough: see LocalExecutor._claim_for.
    heir.<dead id>       the same, after the owner <dead id> had verifiably died before its script began
    started.<id>         written by the child itself, as its last act before it becomes the script
    exit.<id>            "code up seconds", by /proc/uptime, and a line end, without which it counts as not written
Exit codes of the guard itself are never the job's result: only the exit file is.

It keeps to what every POSIX shell knows, since the smallest one begins four times as fast as bash, and starts no
program but `ln`, where it has to claim for itself: each would take as long as the shell itself.
"""

import shlex

LOST_CLAIM = 97  # somebody else runs this job
NO_CLAIM = 98  # the claim could not be written

_GUARD = r"""#!/bin/sh
# Runs one job once, and writes down how it ended. The script that it runs is the lab's own, untouched.
folder=@FOLDER@
claim=$folder/@CLAIM@
script() { exec @COMMAND@; }
start_of() { shift 19; start=$1; }
read -r boot < /proc/sys/kernel/random/boot_id
read -r stat < /proc/$$/stat
start_of ${stat##*) }
id=$boot:$$:$start
signalled=
forward() { signalled=1; trap '' TERM INT HUP; kill -TERM 0; }
point() {  # where tests make this guard die or stall, once
  [ "${CONDUCTOR_GUARD_FAULT%%:*}" = "$1" ] && mkdir "$folder/fault.$1" 2>/dev/null || return 0
  kill "-${CONDUCTOR_GUARD_FAULT##*:}" $$
}

claimed() { [ -e "$claim" ] && read -r winner < "$claim" && [ "$winner" = "$id" ]; }  # for us, by who started us

point before_owner
if ! claimed; then
  printf '%s\n' "$id" > "$folder/owner.$id" || exit @NO_CLAIM@
  if ! ln "$folder/owner.$id" "$claim" 2>/dev/null && ! claimed; then
    [ -e "$claim" ] && exit @LOST_CLAIM@
    ln "$folder/owner.$id" "$claim" || claimed || exit @NO_CLAIM@
  fi
fi
point after_owner
trap forward TERM INT HUP
(
  trap - TERM INT HUP
  : > "$folder/started.$id" || exit 96
  script
) &
child=$!
point started
while :; do  # a signal interrupts wait: then the child may be running still
  signalled=
  wait "$child"
  code=$?
  [ -n "$signalled" ] || break
done
trap '' TERM INT HUP
point before_exit
read -r ended rest < /proc/uptime
until printf '%s up %s\n' "$code" "$ended" > "$folder/exit.$id"; do  # whole only with its line end
  [ -d "$folder" ] || kill -KILL 0  # taken away with all that was known: nothing is left to wait for
  sleep 1  # a full disk: the end of the job is worth waiting for
done
point after_exit
kill -KILL 0  # what the script left running in its group, and this guard, whose work is done
"""


def guard_text(*, folder: str, claim: str, command: list[str]) -> str:
    """The guard of one generation. `claim` is the file that it must win, `command` what it runs then."""
    known = {
        "@FOLDER@": shlex.quote(folder),
        "@CLAIM@": shlex.quote(claim),
        "@COMMAND@": shlex.join(command),
        "@LOST_CLAIM@": str(LOST_CLAIM),
        "@NO_CLAIM@": str(NO_CLAIM),
    }
    text = _GUARD
    for name, value in known.items():
        text = text.replace(name, value)
    return text
