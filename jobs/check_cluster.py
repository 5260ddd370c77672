"""What is wrong with a cluster, in words: looked at over its own shell, as its jobs will use it."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from jobs.check import ENVIRONMENT_TIMEOUT_S, LEAST_FREE_GIB, Finding, group_trouble, owned_words
from jobs.cluster_models import ShellKind
from jobs.deadline import longer
from jobs.environment import ALLOWED, after_lines
from jobs.executors.slurm.client import Slurm
from jobs.executors.slurm.errors import own_words, refusal_of
from jobs.models import Cluster, Target
from jobs.printed import moment
from jobs.shells import FORBIDDEN, SYSTEM_PATH, Shell, cluster_of, environment_of, shell_for
from record.errors import AdapterError, ConductorError

CALL_S = 30
ALTOGETHER_S = 75  # where somebody waits at a page
SKEW_S = 30
SHOWN = 20  # partitions
MODULES = "numpy, scipy, matplotlib, mrcfile, starfile"
ENV = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
# Makes a file and a second link to it, as guards claim; prints the kind of file system and the GiB that are free.
_TRY_FOLDER = r"""
[ -d "$1" ] || { echo "no such folder" >&2; exit 1; }
probe=$(mktemp -- "$1/.conductor-check-XXXXXX") || exit 1
ln -- "$probe" "$probe.link"; code=$?
rm -f -- "$probe" "$probe.link"
[ $code = 0 ] && stat -f -c %T -- "$1" && df -Pk -- "$1" | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4
"""
# Makes a folder in one and gives it to a group; what is made in it must then be the group's, too.
_TRY_GROUP = r"""
at=$1; [ -d "$at" ] || at=/tmp
probe=$(mktemp -d -- "$at/.conductor-check-XXXXXX") || exit 1
trap 'rm -rf -- "$probe"' EXIT
[ -z "$2" ] || { chgrp -- "$2" "$probe" && chmod g+s -- "$probe"; } || exit 1
: > "$probe/file" && [ -z "$2" ] || [ "$(stat -c %G -- "$probe/file")" = "$2" ] || {
  echo "a file made in a folder of it is of another group" >&2; exit 1
}
"""


# What the account's own shell takes for SLURM: people set that up in profiles, which Conductor does not read.
_OWN_SLURM = 'printf "%s\\n" "$SLURM_CONF"; command -v sinfo'


def check_cluster(target: Target) -> Iterator[Finding]:
    """Everything that a job needs there, looked at now; what can't be reached ends the list."""
    try:
        cluster = cluster_of(target)
        shell = shell_for(target)
        yield from _reach(cluster, shell)
    except ConductorError as error:
        yield Finding(False, _with_command(error))
        return
    slurm = Slurm(shell, cluster.site())
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: _slurm(cluster, slurm), lambda: _folders(target, shell), lambda: _owned(target, shell),
        lambda: _environment(target, shell), lambda: _python(target, cluster, shell),
    ]  # fmt: skip
    with longer(ALTOGETHER_S):  # it has just answered
        for check in checks:
            try:
                yield from check()
            except ConductorError as error:
                yield Finding(False, error.message)


def _with_command(error: ConductorError) -> str:
    command = error.extra.get("sign_in")
    return f"{error.message} Open it on the server, as Conductor's user: {command}" if command else error.message


def _reach(cluster: Cluster, shell: Shell) -> Iterator[Finding]:
    before = datetime.now(UTC)
    done = shell.run(["date", "+%s"], env=ENV, cwd="/", timeout_s=CALL_S)
    after = datetime.now(UTC)
    where = cluster.ssh_host or "This machine"
    if not re.fullmatch(r"[0-9]{1,11}\s*", done.stdout):
        raise AdapterError(f"{where} answers, but not as expected: {done.stderr.strip()[-200:]}", transient=True)
    there = moment(int(done.stdout))
    skew_s = max(0.0, (before - there).total_seconds() - 1, (there - after).total_seconds())
    yield Finding(True, f"{where} answers.")
    advice = "." if skew_s <= SKEW_S else f", by {skew_s:.0f} s: have both follow a time server."
    yield Finding(
        skew_s <= SKEW_S, ("Its clock agrees with ours" if skew_s <= SKEW_S else "Its clock differs") + advice
    )


def _slurm(cluster: Cluster, slurm: Slurm) -> Iterator[Finding]:
    """What SLURM says; where it does not answer, that alone."""
    yield from _partitions(cluster, slurm)
    yield from _submission(cluster, slurm)
    yield from _waits(cluster, slurm)
    yield from _accounts(slurm)


def _partitions(cluster: Cluster, slurm: Slurm) -> Iterator[Finding]:
    try:
        lines = slurm.partitions()
    except AdapterError as error:
        told = f"SLURM does not answer: {error.message.rstrip('.')}. {_what_is_missing(cluster, slurm)}"
        raise AdapterError(told, transient=error.transient) from None
    found = dict(line.rsplit(" ", 1) for line in lines if " " in line)
    shown = [name if state == "up" else f"{name} ({state})" for name, state in found.items()]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    names = ", ".join(shown[:SHOWN]) + more
    yield Finding(bool(found), f"SLURM answers; its partitions: {names or 'none'}.")
    for wanted in filter(None, cluster.partition.split(",")):
        if wanted not in found:
            yield Finding(False, f"It has no partition {wanted}: choose one of those.")
        elif found[wanted] != "up":
            yield Finding(False, f"Its partition {wanted} is {found[wanted]}: jobs wait until it is opened.")


def _what_is_missing(cluster: Cluster, slurm: Slurm) -> str:
    """What to set so that SLURM answers: what the account's own shell knows and the target does not, else a guess."""
    own = slurm.shell.environment([*ALLOWED, "SLURM_CONF"])
    said = slurm.shell.run(["/bin/bash", "-lc", _OWN_SLURM], env=own, cwd="/", timeout_s=CALL_S).stdout.split("\n")
    conf, sinfo = (said + ["", ""])[:2]
    folder = sinfo.rpartition("/")[0]
    if conf and conf != slurm.site.conf_path:
        return f"The account's own shell has SLURM_CONF={conf}: write that into the cluster's conf path."
    if folder and folder not in (slurm.site.commands_folder or SYSTEM_PATH).split(":"):
        return f"The account's own shell finds sinfo in {folder}: write that into the cluster's commands folder."
    if cluster.shell == ShellKind.LOCAL:
        return 'Is this machine a submit host? Else choose the shell "over SSH".'
    return "Does sinfo work there, for this account? Then its folder and SLURM_CONF belong into the cluster's fields."


def _submission(cluster: Cluster, slurm: Slurm) -> Iterator[Finding]:
    """Whether a small job would be taken with what the target gives; nothing is submitted."""
    site = slurm.site
    options = site.options(gres=True)
    argv = [site.command("sbatch"), "--test-only", *options, "--chdir=/", "--time=1", "--wrap=true"]
    done = slurm.shell.run(argv, env=site.environment(), cwd="/", timeout_s=CALL_S)
    if done.returncode:
        said = own_words(done.stderr) or f"exit code {done.returncode}"
        yield Finding(False, f"SLURM would not take a job of this target ({refusal_of(done.stderr)}): {said}.")
    else:
        yield Finding(True, "SLURM would take a job of this target.")


def _waits(cluster: Cluster, slurm: Slurm) -> Iterator[Finding]:
    argv = [slurm.site.command("scontrol"), "show", "config"]
    done = slurm.shell.run(argv, env=slurm.site.environment(), cwd="/", timeout_s=CALL_S)
    found = re.search(r"^MessageTimeout\s*=\s*([0-9]{1,9})\b", done.stdout, re.MULTILINE)
    if found and cluster.look_up_wait_s < 2 * int(found[1]):
        yield Finding(
            False,
            f"After a submission of unknown outcome it is tried again after {cluster.look_up_wait_s} s; set at least "
            f"{2 * int(found[1])} s, twice the cluster's MessageTimeout.",
        )


def _accounts(slurm: Slurm) -> Iterator[Finding]:
    words = "It keeps accounts (sacct answers)."
    if not slurm.has_accounts():
        words = "It keeps no accounts (sacct does not answer): how jobs ended is read from their exit files."
    yield Finding(True, words)


def _folders(target: Target, shell: Shell) -> Iterator[Finding]:
    if not target.roots:
        yield Finding(False, "It has no roots: name at least one folder that runs may write in.")
    for what, path in [("root", root) for root in target.roots] + [("job folder", target.job_folder)]:
        if not path.startswith("/") or FORBIDDEN.search(path):
            yield Finding(False, f"The {what} {path!r} is not an absolute path without white space and quotes.")
            continue
        if what == "job folder":
            try:
                shell.make_folder(path)
            except AdapterError as error:
                yield Finding(False, f"The job folder {path} can't be made there: {error.message}")
                continue
        done = shell.run(["/bin/bash", "-c", _TRY_FOLDER, "try", path], env=ENV, cwd="/", timeout_s=CALL_S)
        kind, free = (done.stdout.split() + ["", ""])[:2]
        if done.returncode or not re.fullmatch(r"[0-9]{1,18}", free):
            said = (done.stderr.strip().splitlines() or ["no word"])[-1]
            yield Finding(False, f"The {what} {path} can't be used there: {said[:200]}.")
            continue
        free_gib = int(free) / 1024**2
        enough = free_gib >= LEAST_FREE_GIB
        advice = "." if enough else f": tomograms need more, free at least {LEAST_FREE_GIB} GiB."
        yield Finding(enough, f"The {what} {path} can be written ({kind}); {free_gib:.1f} GiB are free{advice}")


def _owned(target: Target, shell: Shell) -> Iterator[Finding]:
    if not target.ownership():
        return
    argv = ["/bin/bash", "-c", _TRY_GROUP, "try", target.job_folder, target.group]
    done = shell.run(argv, env=ENV, cwd="/", timeout_s=CALL_S)
    said = (done.stderr.strip().splitlines() or ["no word"])[-1][:200]
    yield Finding(not done.returncode, group_trouble(target, said) if done.returncode else owned_words(target))


def _environment(target: Target, shell: Shell) -> Iterator[Finding]:
    if not target.environment_lines.strip():
        return
    argv = after_lines(target.environment_lines, ["/bin/echo", "environment-lines-ran"])
    done = shell.run(argv, env=environment_of(target), cwd="/", timeout_s=ENVIRONMENT_TIMEOUT_S)
    said = (done.stderr.strip().splitlines() or [""])[-1][:300]
    if "environment-lines-ran" not in done.stdout:
        yield Finding(False, f"The environment lines end the shell before the script could begin: {said}")
    else:
        yield Finding(
            not said, f"The environment lines run, but complain: {said}" if said else "The environment lines run."
        )


def _python(target: Target, cluster: Cluster, shell: Shell) -> Iterator[Finding]:
    if not cluster.python:
        return
    argv = after_lines(target.environment_lines, [cluster.python, "-c", f"import {MODULES}"])
    done = shell.run(argv, env=environment_of(target), cwd="/", timeout_s=ENVIRONMENT_TIMEOUT_S)
    said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    words = (
        f"{cluster.python} has {MODULES}." if not done.returncode else f"{cluster.python} can't draw evidence: {said}"
    )
    yield Finding(not done.returncode, words)
