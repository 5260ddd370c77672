"""Where the tools of the field are looked up, and how they say which version they are. Pure."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runs.pipeline.spec import PipelineSpec

FORK_MARK = "dont_correct_ctf_3d"  # an option of ts_export_particles that only the fork has which OPUS-ET needs
_VERSION = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+-]*")


@dataclass(frozen=True)
class Home:
    """Where a tool is found: in the folder or at the path that a conf value names, or in a conda environment."""

    folder: str = ""
    path: str = ""
    environment: str = ""

    @property
    def asks(self) -> str:
        """The conf value that says where it is."""
        return self.path or self.folder or self.environment


HOMES = {
    "WarpTools": Home(folder="WARP_DIR", environment="WARP_ENV"),
    "MTools": Home(folder="WARP_DIR", environment="WARP_ENV"),
    "MCore": Home(folder="WARP_DIR", environment="WARP_ENV"),
    "AreTomo2": Home(path="ARETOMO_EXE"),
    "headerPyTom": Home(environment="PYTOM_ENV"),
    "dsdsh": Home(environment="OPUSET_ENV"),
}
NOT_REQUIRED = frozenset({"ChimeraX", "chimerax"})  # a matter of whoever looks at maps, on their own machine


def wanted_tools(spec: PipelineSpec) -> list[str]:
    """The tools that the pipeline's phases require, each once."""
    names = dict.fromkeys(name for phase in spec.phases for name in (*phase.required_tools, *phase.environment_tools))
    return [name for name in names if name not in NOT_REQUIRED]


def wanted_environments(spec: PipelineSpec) -> list[str]:
    """Names of the conf values that name the conda environments which the phases require, each once."""
    return list(dict.fromkeys(name for phase in spec.phases for name in phase.required_conda))


def environments_of(spec: PipelineSpec, tool: str) -> list[str]:
    """Names of the conf values that name the conda environments of the phases which require the tool, each once."""
    phases = [phase for phase in spec.phases if tool in (*phase.required_tools, *phase.environment_tools)]
    return list(dict.fromkeys(name for phase in phases for name in phase.required_conda))


def conda_lines(values: Mapping[str, str]) -> str:
    """Lines that make conda known as the field's scripts do: by the profile beside the folder CONDA_LIB."""
    folder = values.get("CONDA_LIB", "")
    if not folder:
        return ""
    profile = shlex.quote(f"{folder.rstrip('/')}/../etc/profile.d/conda.sh")
    return f"[ ! -r {profile} ] || . {profile}"


def lookups(tool: str, values: Mapping[str, str], environments: Sequence[str] = ()) -> list[list[str]]:
    """Commands that end with 0 and print the tool's path where it is found, one after the other; conf values filled in.

    What has no home of its own is looked for on the path, then in the `environments` that these conf values name.
    Empty where no value says where to look.
    """
    home = HOMES.get(tool)
    look = ["/bin/bash", "-c", 'command -v -- "$1"', "look", tool]
    if home is None:
        return [look, *(within_environment(values[name], look) for name in environments if values.get(name))]
    found = []
    if folder := values.get(home.folder, ""):
        found.append(_executable(f"{folder.rstrip('/')}/{tool}"))
    if path := values.get(home.path, ""):
        found.append(_executable(path) if "/" in path else ["/bin/bash", "-c", 'command -v -- "$1"', "look", path])
    if name := values.get(home.environment, ""):
        found.append(within_environment(name, look))
    return found


def within_environment(name: str, argv: list[str]) -> list[str]:
    """`argv` in a conda environment, by its name or its folder."""
    return ["conda", "run", "--no-capture-output", "-p" if name.startswith("/") else "-n", name, *argv]


def version_in(text: str) -> str:
    """The first thing that looks like a version in what a tool printed; empty where nothing does."""
    found = _VERSION.search(text)
    return found[0][:60] if found else ""


def missing_partitions(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """Those partitions that the cluster doesn't have; `there` as `sinfo -h -o %P` prints them, the default starred."""
    known = {name.strip().rstrip("*") for name in there}
    return sorted({name for name in wanted if name not in known})


def _executable(path: str) -> list[str]:
    return ["/bin/bash", "-c", '[ -f "$1" ] && [ -x "$1" ] && echo "$1"', "look", path]
