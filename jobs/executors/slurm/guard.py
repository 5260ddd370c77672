"""The text that is submitted: the lab's #SBATCH lines, then a guard that runs the untouched script at most once.

In the token folder (`unit` is the job's id, with `_index` in an array; `count` how often SLURM has restarted it):
    id                   the native id as sbatch printed it, of the first submission that was heard of
    submit.<generation>  a folder for each submission: its code, stdout and stderr
    owner                `<job id>.<generation>` of the submission that runs the script, by link(2); another's exits 97.
                         All tasks of one array, and all restarts of one job, have the same. `closed`: nobody may run it
    run.<unit>           a folder that only the first start can make; run.<unit>.<count> where SLURM may start it again
    started.<unit>.<count>  made by the script's own process, as its last act before it becomes the script
    streams.<unit>.<count>  the paths of its output and error files, as the node knows them
    exit.<unit>.<count>     "code seconds-since-epoch", written aside and renamed
Ids come round again when a controller loses its memory; the generation keeps such a twin from passing for a restart.
"""

import shlex

from jobs.environment import after_lines
from jobs.executors.guard import LOST_CLAIM, NO_CLAIM
from jobs.executors.slurm.site import SlurmOrder
from jobs.parse import shebang

CLOSED_MARK = "closed"
# Options of #SBATCH lines that would make sbatch do something else than submit and answer.
LEFT_OUT = frozenset({"--wait", "-W", "--test-only"})

_GUARD = r"""
# Runs one job once, and writes down how it ended. The script that it runs is the lab's own, untouched.
@UMASK@folder=@FOLDER@
command=(@COMMAND@)
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
unit=$job${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.${SLURM_RESTART_COUNT:-0}
mark=$job.@GENERATION@
signalled=
forward() { signalled=1; kill "-$1" "$child" 2>/dev/null; }
point() {  # where tests make this guard die or stall, once
  [ "${CONDUCTOR_GUARD_FAULT%%:*}" = "$1" ] && mkdir "$folder/fault.$1" 2>/dev/null || return 0
  kill "-${CONDUCTOR_GUARD_FAULT##*:}" $$
}

point before_owner
printf '%s\n' "$mark" > "$folder/owner.$mark.$unit" || exit @NO_CLAIM@
if ! ln "$folder/owner.$mark.$unit" "$folder/owner" 2>/dev/null; then
  owner=
  read -r owner < "$folder/owner" || exit @NO_CLAIM@
  [ "$owner" = "$mark" ] || exit @LOST_CLAIM@
fi
# A controller that lost its memory starts a job again that runs, or has run, under the same id.
if ! mkdir "$folder/run.@START@" 2>/dev/null; then
  [ -d "$folder/run.@START@" ] && exit @LOST_CLAIM@
  exit @NO_CLAIM@
fi
point after_owner
out=$(readlink /proc/$$/fd/1) err=$(readlink /proc/$$/fd/2)
printf '%s\n%s\n' "$out" "$err" > "$folder/streams.$unit"
child=
for name in TERM INT HUP USR1 USR2 QUIT; do trap "forward $name" "$name"; done
(
  trap - TERM INT HUP USR1 USR2 QUIT
  : > "$folder/started.$unit" || exit 96
  exec "${command[@]}"
) &
child=$!
point started
while :; do  # a signal interrupts wait: then the child may be running still
  signalled=
  wait "$child"
  code=$?
  [ -n "$signalled" ] || break
done
trap '' TERM INT HUP USR1 USR2 QUIT
point before_exit
tries=0
until printf '%s %s\n' "$code" "$(date +%s)" > "$folder/exit.$unit.part" &&
  mv "$folder/exit.$unit.part" "$folder/exit.$unit"; do
  # A full disk: the end of the job is worth waiting for, but not the whole of its time on the nodes.
  [ -d "$folder" ] && [ $((tries += 1)) -lt 120 ] || break
  sleep 5
done
point after_exit
exit "$code"
"""


def batch_text(order: SlurmOrder) -> str:
    """What is handed to sbatch. The script itself lies beside it, and its own first line says what runs it."""
    script_path = f"{order.folder}/script/{order.script_name}"
    command = after_lines(order.environment_lines, [*shebang(order.script), script_path])
    known = {
        "@UMASK@": f"umask {order.ownership.umask}\n" if order.ownership.umask else "",
        "@FOLDER@": shlex.quote(order.folder),
        "@COMMAND@": shlex.join(command),
        "@GENERATION@": str(order.generation),
        "@START@": "$unit" if order.requeue else "${unit%.*}",
        "@LOST_CLAIM@": str(LOST_CLAIM),
        "@NO_CLAIM@": str(NO_CLAIM),
    }
    text = _GUARD
    for name, value in known.items():
        text = text.replace(name, value)
    return "\n".join(["#!/bin/bash", *sbatch_lines(order.script)]) + "\n" + text


def sbatch_lines(script: str) -> list[str]:
    """The script's #SBATCH lines as they are, up to its first command; those that would keep sbatch are left out."""
    lines = []
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            words = line[len("#SBATCH") :].split()
            if not words or words[0].partition("=")[0] not in LEFT_OUT:
                lines.append(line.rstrip())
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return lines
