"""What runs on the target's side, as lists of arguments, and what it prints. Pure builders and parsers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.executors.slurm.guard import CLOSED_MARK
from jobs.executors.slurm.site import Site, SlurmOrder
from jobs.parse import sbatch_options
from jobs.printed import moment
from record.errors import AdapterError

# What the guard and the hand-over write; anything else in a token folder is not theirs.
SECONDS = re.compile(r"[0-9]{1,11}")
CODE = re.compile(r"[0-9]{1,3}")
COUNT = re.compile(r"[0-9]{1,9}")
UNIT = re.compile(r"[0-9]+(_[0-9]+)?\.[0-9]{1,9}")

# Does the whole of a submission, atomically by mkdir and link: look for an id, or submit and write the id.
_HAND_OVER = r"""
folder=$1 work_dir=$2 generation=$3; shift 3
if [ -s "$folder/id" ]; then read -r id < "$folder/id"; echo "id $id"; exit; fi
if [ -s "$folder/owner" ]; then read -r owner < "$folder/owner"; echo "owner $owner"; exit; fi
cd "$work_dir" || { echo astray; exit; }
own=$folder/submit.$generation
if ! mkdir "$own"; then
  [ -d "$own" ] || exit 73
  echo before; exit
fi
"$@" < /dev/null > "$own/stdout" 2> "$own/stderr"
code=$?
echo "$code" > "$own/code"
id=$(grep -E '^[0-9]+(;[A-Za-z0-9_.-]+)?$' "$own/stdout" | tail -n 1)
if [ -n "$id" ]; then
  echo "$id" > "$own/id.part" && mv "$own/id.part" "$own/id" && ln "$own/id" "$folder/id" 2>/dev/null
  echo "id $id"; exit
fi
echo "refused $code"
cat "$own/stdout" "$own/stderr" >&2
"""

# Prints what lies in token folders: one line a fact, after a line that names the folder.
_LOOK = r"""
echo "now $(date +%s)"
for folder; do
  echo "folder $folder"
  if [ ! -d "$folder" ]; then [ -d "${folder%/*}" ] && echo absent || echo unreachable; continue; fi
  for name in id owner; do [ -s "$folder/$name" ] && read -r line < "$folder/$name" && echo "$name $line"; done
  for path in "$folder"/submit.*; do
    [ -d "$path" ] || continue
    code=- id=- said=
    [ -s "$path/code" ] && read -r code < "$path/code"
    [ -s "$path/id" ] && read -r id < "$path/id"
    [ -s "$path/stderr" ] && said=$(tail -n 5 "$path/stderr" | tr '\n\r' '; ' | cut -c -400)
    echo "submit ${path##*/submit.} $(stat -c %Y "$path") $code $id $said"
  done
  for path in "$folder"/started.*; do [ -e "$path" ] && echo "started ${path##*/started.}"; done
  for path in "$folder"/exit.*; do
    case $path in *.part) continue;; esac
    [ -s "$path" ] && read -r line < "$path" && echo "exit ${path##*/exit.} $line"
  done
  for path in "$folder"/streams.*; do
    [ -s "$path" ] && { read -r out; read -r err; } < "$path" && echo "streams ${path##*/streams.} $out|$err"
  done
done
exit 0
"""

# Makes itself the owner, so that a guard that comes late finds the job taken; prints who is the owner now.
_CLOSE = r"""
folder=$1
mkdir -p "$folder" && echo @CLOSED@ > "$folder/owner.@CLOSED@" || exit 1
ln "$folder/owner.@CLOSED@" "$folder/owner" 2>/dev/null || [ -e "$folder/owner" ] || exit 1
read -r owner < "$folder/owner" && echo "owner $owner"
""".replace("@CLOSED@", CLOSED_MARK)


@dataclass(frozen=True)
class Attempt:
    """One submission. Without `code` it was cut off, or still goes on; `said` is what sbatch complained of."""

    generation: int
    began_at: datetime
    code: int | None
    native_id: str
    said: str


@dataclass
class TokenFolder:
    """What lies in a job's token folder. `exits` is unit -> (exit code, when) of the last restart of each unit.

    `absent`: there is no such folder; nothing was ever handed over, or it was taken away. `unreachable`: the job folder
    in which it would lie is not there either, so nothing is known.
    """

    path: str
    absent: bool = False
    unreachable: bool = False
    native_id: str = ""
    owner: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    exits: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    streams: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def job_folder(self) -> str:
        """The folder in which those of many jobs lie."""
        return self.path.rpartition("/")[0]

    @property
    def closed(self) -> bool:
        return self.owner == CLOSED_MARK

    @property
    def owner_id(self) -> str:
        """The job id of the submission that runs the script; "" where nobody does, or where it was closed."""
        return "" if self.closed else self.owner.partition(".")[0]

    @property
    def known_ids(self) -> list[str]:
        """Every native id that was heard of, the first first."""
        found = [self.native_id, *(attempt.native_id for attempt in self.attempts)]
        return list(dict.fromkeys(each for each in found if each))

    def ends_of(self, job_id: str) -> dict[str, tuple[int, datetime]]:
        """task ("" where it is no array) -> (exit code, when) of that job."""
        own: dict[str, tuple[int, datetime]] = {}
        for unit, ended in self.exits.items():
            base, _, task = unit.partition("_")
            if base == job_id:
                own[task] = ended
        return own


def sbatch_argv(order: SlurmOrder, site: Site) -> list[str]:
    """The command that submits. What stands here goes over the script's own #SBATCH lines.

    Log lines of the script stay; where it has none the order's paths are used. A script that asks for a gres gets that
    of the site where the site names one.
    """
    asked = sbatch_options(order.script)
    argv = [
        site.command("sbatch"), "--parsable", f"--job-name={order.job_name}", "--export=ALL",
        f"--chdir={order.work_dir}", "--kill-on-invalid-dep=yes",
        *(["--requeue", "--open-mode=append"] if order.requeue else ["--no-requeue"]),
    ]  # fmt: skip
    if "output" not in asked:
        output, error = log_patterns(order)
        argv += [f"--output={output}", *([] if "error" in asked else [f"--error={error}"])]
    if order.time_limit_s:
        argv.append(f"--time={slurm_time(order.time_limit_s)}")
    return [*argv, *site.options(gres="gres" in asked), batch_path(order)]


def batch_path(order: SlurmOrder) -> str:
    return f"{order.folder}/batch.{order.generation}.sh"


def slurm_time(seconds: int) -> str:
    """Days-hours:minutes:seconds, rounded up to a minute as SLURM itself does."""
    minutes = max(1, -(-seconds // 60))
    return f"{minutes // 1440}-{minutes % 1440 // 60:02d}:{minutes % 60:02d}:00"


def log_patterns(order: SlurmOrder) -> tuple[str, str]:
    """(output, errors): the patterns by which SLURM will name the log files, absolute."""
    asked = sbatch_options(order.script)
    if "output" not in asked:
        each = ".%a" if "array" in asked else ""  # the tasks of an array must not write over one another
        error = _absolute(asked["error"], order) if "error" in asked else f"{order.stderr_path}{each}"
        return f"{order.stdout_path}{each}", error
    output = _absolute(asked["output"], order)
    return output, _absolute(asked["error"], order) if "error" in asked else output


def log_paths(order: SlurmOrder, native_id: str) -> tuple[str, str]:
    """(output, errors) once the id is known. What only the node knows (%N, %u) stays; the guard's note has it later.

    Of an array the paths are those of its first task.
    """
    job_id = native_id.partition(";")[0]
    return _filled(log_patterns(order)[0], order, job_id), _filled(log_patterns(order)[1], order, job_id)


def log_folders(order: SlurmOrder) -> list[str]:
    """The folders that must be there before the job begins: without them SLURM fails a job in silence.

    AdapterError where a folder's name depends on the id, which nobody knows before.
    """
    folders = []
    for pattern in log_patterns(order):
        folder = pattern.replace("%x", order.job_name).rpartition("/")[0]
        if "%" in folder.replace("%%", ""):
            raise AdapterError(
                f"The script {order.script_name} writes its log to {pattern}: a folder whose name depends on the job's "
                "id can't be made before the job begins, and without it SLURM fails the job in silence.",
                transient=False,
            )
        folders.append(folder.replace("%%", "%"))
    return list(dict.fromkeys(folders))


def hand_over_argv(order: SlurmOrder, site: Site) -> list[str]:
    """Look for an id or submit, on the target's side. Prints `id`, `owner`, `before` or `refused`, and which.

    `astray`: the work folder can't be entered, and nothing was tried.
    """
    words = ["hand_over", order.folder, order.work_dir, str(order.generation), *sbatch_argv(order, site)]
    return ["/bin/bash", "-c", _HAND_OVER, *words]


def look_argv(folders: Sequence[str]) -> list[str]:
    """Read token folders, all in one call."""
    return ["/bin/bash", "-c", _LOOK, "look", *folders]


def close_argv(folder: str) -> list[str]:
    """See to it that nobody begins that job any more."""
    return ["/bin/bash", "-c", _CLOSE, "close", folder]


def forget_argv(folder: str, native_id: str) -> list[str]:
    """Put an id aside that the cluster has forgotten, so that the job can be handed over anew."""
    words = 'read -r id < "$1/id"; [ "$id" != "$2" ] || mv "$1/id" "$1/forgotten.${2%%;*}"'
    return ["/bin/bash", "-c", f'[ -e "$1/id" ] || exit 0; {words}', "forget", folder, native_id]


def parse_look(stdout: str) -> tuple[datetime, dict[str, TokenFolder]]:
    """(the target's clock, folder -> what lies in it)."""
    now, found = datetime.now(UTC), dict[str, TokenFolder]()
    current = TokenFolder("")
    for line in stdout.split("\n"):
        word, _, rest = line.partition(" ")
        if word == "now" and SECONDS.fullmatch(rest):
            now = moment(int(rest))
        elif word == "folder":
            current = found[rest] = TokenFolder(rest)
        else:
            _take(current, word, rest)
    return now, found


def _take(folder: TokenFolder, word: str, rest: str) -> None:
    if word == "absent":
        folder.absent = True
    elif word == "unreachable":
        folder.unreachable = True
    elif word == "id":
        folder.native_id = rest
    elif word == "owner":
        folder.owner = rest
    elif word == "started":
        folder.started.add(rest)
    elif word == "submit":
        if attempt := _attempt(rest):
            folder.attempts.append(attempt)
            folder.attempts.sort(key=lambda attempt: attempt.generation)
    elif word == "exit":
        _take_exit(folder, rest)
    elif word == "streams":
        unit, _, paths = rest.partition(" ")
        out, _, err = paths.partition("|")
        folder.streams[unit.rpartition(".")[0]] = (out, err)


def _take_exit(folder: TokenFolder, rest: str) -> None:
    """Of several restarts of a unit the last one counts. What no guard can have written is passed over."""
    name, code, at = (rest.split() + ["", ""])[:3]
    if not (UNIT.fullmatch(name) and CODE.fullmatch(code) and SECONDS.fullmatch(at)):
        return
    unit, _, count = name.rpartition(".")
    started = [each.rpartition(".") for each in folder.started if UNIT.fullmatch(each)]
    if int(count) >= max((int(restart) for of, _, restart in started if of == unit), default=0):
        folder.exits[unit] = (int(code), moment(int(at)))


def _attempt(rest: str) -> Attempt | None:
    """A submission; None for a folder that none of ours has made."""
    generation, at, code, native_id, said = (rest.split(" ", 4) + [""] * 4)[:5]
    if not (COUNT.fullmatch(generation) and SECONDS.fullmatch(at)):
        return None
    return Attempt(
        int(generation),
        moment(int(at)),
        int(code) if CODE.fullmatch(code) else None,
        native_id if native_id != "-" else "",
        said.strip(),
    )


def _absolute(pattern: str, order: SlurmOrder) -> str:
    return pattern if pattern.startswith("/") else f"{order.work_dir}/{pattern}"


def _filled(pattern: str, order: SlurmOrder, job_id: str) -> str:
    options = sbatch_options(order.script)
    first = (options.get("array") or "0").replace("-", ",").partition(",")[0].partition("%")[0]
    known = {"j": job_id, "J": job_id, "A": job_id, "x": order.job_name, "a": first, "t": "0", "n": "0", "s": "batch"}
    parts = pattern.split("%%")
    for sign, value in known.items():
        parts = [part.replace(f"%{sign}", value) for part in parts]
    return "%".join(parts)
