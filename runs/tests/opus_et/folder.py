"""Writes a lab's pipeline folder and its raw data: manifest, overlay, confs, scripts of the same shape and names."""

import shutil
import sys
from pathlib import Path

import yaml
from django.conf import settings

HERE = Path(__file__).parent
OVERLAY = Path(settings.BASE_DIR) / "pipelines/opus_et/conductor.yml"
SERIES = ("Position_1", "Position_1_2", "TS_03")  # the first's name begins the second's
SPECIES = ("ribosome", "fas")
ADDED = ("analyze_opuset.slurm", "select_state.slurm", "prepare_m_halfmaps.slurm")  # in no manifest, see the overlay
ON_GPU = ("warp_frameseries_import", "warp_aretomo_align_negate", "run_tm_sequential", "train_opuset", "warp_m_refine")
OF_SPECIES = ("gen_", "run_tm", "extract_", "convert_", "train_", "analyze_", "select_", "prepare_", "warp_m_")

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --partition={partition}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
{gres}#SBATCH --time=00:10:00
#SBATCH --output=logs/{name}_%j.out
#SBATCH --error=logs/{name}_%j.err

SCRIPT_DIR="${{SKILL_DIR:-$(cd "$(dirname "${{BASH_SOURCE[0]}}")/.." && pwd)}}"
set -a
source "${{SCRIPT_DIR}}/pipeline.conf"
{species}set +a
source "${{CONDA_LIB}}/../etc/profile.d/conda.sh"
conda activate "{conda}"
cd "$WORK_DIR" || exit 1
if ! opus_et_step {name}; then
  echo "{name} failed" >&2
  exit 1
fi
exit 0
"""

PIPELINE_CONF = """\
# Paths
WORK_DIR="/path/to/work"
FRAME_DIR="{data}/frames"
MDOC_DIR="{data}/mdocs"
WARP_DIR="{tools}/warp"
CONDA_LIB="{tools}/lib"
ARETOMO_EXE="{tools}/warp/AreTomo2"
TOMOSTAR_DIR="tomostar"
TILTSTACK_DIR="tiltstack"

# Environments
WARP_ENV=warp
PYTOM_ENV=pytom
OPUSET_ENV=opuset

# Microscope
ANGPIX=3.37          # Angstrom
EXPOSURE=2.64        # e/A^2 a tilt
FILE_EXTENSION="*.tif"
CTF_RANGE_MAX=7
CTF_DEFOCUS_MAX=8
TOMO_DIM_Z=1200
BINNING_FACTOR=4
ALIGN_ANGPIX=13.48
GAIN_FILE=""

NUM_GPUS=1
POPULATION_NAME=lab_population
SOURCE_NAME=lab_source
"""
SPECIES_CONF = """\
TM_LABEL={label}
SPECIES_BASE={label}
INPUT_MRC="{data}/{label}.mrc"
MAP_ANGPIX=4.2
DIAMETER=320
TM_BOX_SIZE=32
MASK_SIGMA=2
TEMPLATE_MRC="templates/${{TM_LABEL}}_tm.mrc"
TM_MASK_MRC="templates/${{TM_LABEL}}_mask.mrc"
TM_JOBS_DIR="template_matching/${{TM_LABEL}}/jobs"
TM_PARTICLES_DIR="template_matching/${{TM_LABEL}}/particles"
TM_STAR_DIR="template_matching/${{TM_LABEL}}/star_files"
TM_WARP_DIR="template_matching/${{TM_LABEL}}/warp_star"
NUM_CANDIDATES=12
MIN_SCORE=0.1
SUBTOMO_BOX_SIZE=102
OUTPUT_ANGPIX=4.2
COORDS_ANGPIX=13.48
DATADIR="${{WORK_DIR}}/subtomo_${{TM_LABEL}}"
ZDIM=8
NUM_EPOCHS=2
SYM=C1
LOWPASS=20
ANGPIX_RESAMPLE=4.2
M_HALF1="opuset/${{TM_LABEL}}/${{TM_LABEL}}_half1.mrc"
M_HALF2="opuset/${{TM_LABEL}}/${{TM_LABEL}}_half2.mrc"
M_MASK="opuset/${{TM_LABEL}}/${{TM_LABEL}}_m_mask.mrc"
M_PARTICLES_STAR="opuset/${{TM_LABEL}}/${{TM_LABEL}}_m_particles.star"
M_MASK_THRESHOLD=0.02
"""
CONDA = """\
export PATH="{tools}/condabin:$PATH"
conda() {{ [ "$1" = activate ] && [ -n "$2" ] && PATH="{tools}/bin:$PATH"; }}
"""
CONDA_RUN = """\
#!/bin/bash
# conda run --no-capture-output -n NAME command ...
[ -d "{tools}/envs/$4" ] || {{ echo "EnvironmentLocationNotFound: Not a conda environment: $4" >&2; exit 1; }}
PATH="{tools}/envs/$4:$PATH" exec "${{@:5}}"
"""
ENVIRONMENTS = {
    "warp": {"python": "Python 3.11.7"},
    "pytom": {"python": "Python 3.10.2", "headerPyTom": "headerPyTom", "create_template.py": "usage"},
    "opuset": {"python": "Python 3.9.18", "dsdsh": "dsdsh", "torchrun": "torchrun"},
}
IN_WARP_DIR = {
    "WarpTools": "WarpTools 2.0.0 --dont_correct_ctf_3d",
    "MTools": "MTools 2.0.0",
    "MCore": "MCore 2.0.0",
    "AreTomo2": "AreTomo2 version 1.1.2",
}


def write_folder(folder: Path, data: Path, tools: Path) -> Path:
    """A lab's pipeline folder over raw data and tools, with the overlay that Conductor ships."""
    scripts = folder / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(HERE / "manifest.yml", scripts)
    shutil.copy(OVERLAY, scripts)
    for name in script_names():
        (scripts / name).write_text(script_text(name.removesuffix(".slurm")))
    (folder / "pipeline.conf").write_text(PIPELINE_CONF.format(data=data, tools=tools))
    for label in SPECIES:
        (folder / f"species_{label}.conf").write_text(SPECIES_CONF.format(data=data, label=label))
    return folder


def script_names() -> list[str]:
    """Every script of the manifest, and those that only the overlay names."""
    phases = yaml.safe_load((HERE / "manifest.yml").read_text())["phases"]
    return sorted({name for phase in phases.values() for name in phase["scripts"]} | set(ADDED))


def script_text(name: str) -> str:
    """One script: #SBATCH lines, conf files, an environment, the work folder, its tool, and whether that succeeded."""
    on_gpu = name.startswith(ON_GPU)
    of_species = name.startswith((*OF_SPECIES, "warp_export_particles"))
    return SCRIPT.format(
        name=name,
        partition="gpu" if on_gpu else "debug",
        gres="#SBATCH --gres=gpu:1\n" if on_gpu else "",
        species='source "${SPECIES_CONF:-${SCRIPT_DIR}/species.conf}"\n' if of_species else "",
        conda="${WARP_ENV}" if name.startswith("warp_") else "${PYTOM_ENV}",
    )


def write_tools(tools: Path) -> Path:
    """The tools that the scripts call, found once an environment is activated."""
    write_program(tools / "bin/opus_et_step", f'#!/bin/sh\nexec {sys.executable} {HERE / "tools.py"} "$@"\n')
    profile = tools / "etc/profile.d/conda.sh"
    profile.parent.mkdir(parents=True)
    profile.write_text(CONDA.format(tools=tools))
    (tools / "lib").mkdir()
    write_program(tools / "condabin/conda", CONDA_RUN.format(tools=tools))
    said = {f"envs/{name}/{tool}": text for name, each in ENVIRONMENTS.items() for tool, text in each.items()}
    for path, text in (said | {f"warp/{tool}": text for tool, text in IN_WARP_DIR.items()}).items():
        write_program(tools / path, f"#!/bin/sh\necho '{text}'\n")
    return tools


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def write_data(data: Path) -> Path:
    """Frames and mdocs of three tilt series, three tilts each."""
    for folder in ("frames", "mdocs"):
        (data / folder).mkdir(parents=True)
    for name in SERIES:
        for tilt in range(3):
            (data / "frames" / f"{name}_{tilt}.tif").write_bytes(b"II*\0")
        (data / "mdocs" / f"{name}.mdoc").write_text("PixelSpacing = 3.37\n")
    return data
