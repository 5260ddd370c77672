"""The tools of the stand-in scripts: `tools.py STEP`, with the conf files' values in its environment.

Each writes in the work folder what the lab's own tool would write there: small, whole, and of a known phantom. Tilt
series are whatever lies in `tomostar/`, as for the lab's scripts: what is to be left out must have been moved away.
"""

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Volume = NDArray[np.float32]
BOX, NOISE = 16, 0.5
DIMS = (12, 32, 32)  # of a tomogram, z, y, x
WORK = Path(os.environ.get("WORK_DIR", "."))
STEPS: dict[str, Callable[[], None]] = {}


def step(run: Callable[[], None]) -> Callable[[], None]:
    STEPS[run.__name__] = run
    return run


def value(name: str) -> str:
    return os.environ[name]


def series() -> list[str]:
    return sorted(path.stem for path in (WORK / "tomostar").glob("*.tomostar"))


def phantom(label: str, box: int = BOX) -> Volume:
    """A ball with a notch for one species, two balls for another: float32 (box, box, box), z, y, x."""
    z, y, x = np.mgrid[:box, :box, :box] - (box - 1) / 2.0
    ball = np.hypot(np.hypot(z, y), x) < box / 4
    if label.endswith("fas"):
        ball = (np.hypot(np.hypot(z - 3, y), x) < box / 6) | (np.hypot(np.hypot(z + 3, y), x) < box / 6)
    else:
        ball &= ~((x > 0) & (y > 1))
    return ball.astype(np.float32)


def noisy(volume: Volume, seed: int) -> Volume:
    noise = np.random.default_rng(seed).normal(0, NOISE, volume.shape)
    return (volume + noise).astype(np.float32)


def write_mrc(path: Path, volume: Volume, apix: float) -> None:
    import mrcfile

    path.parent.mkdir(parents=True, exist_ok=True)
    with mrcfile.new(path, overwrite=True) as handle:
        handle.set_data(volume)
        handle.voxel_size = apix


def write_em(path: Path, volume: Volume) -> None:
    """EM: 512 bytes of header (machine 6, type 5, x, y, z), then float32."""
    header = np.zeros(128, np.int32)
    header.view(np.uint8)[[0, 3]] = 6, 5
    header[1:4] = volume.shape[::-1]
    path.write_bytes(header.tobytes() + volume.astype("<f4").tobytes())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def star(columns: list[str], rows: list[list[object]], block: str = "particles") -> str:
    head = "".join(f"_{name} #{i}\n" for i, name in enumerate(columns, 1))
    lines = "".join("  ".join(str(each) for each in row) + "\n" for row in rows)
    return f"\ndata_{block}\n\nloop_\n{head}{lines}\n"


def rows_of(path: Path) -> list[list[str]]:
    """The values of a STAR file's one loop."""
    body = path.read_text().split("loop_", 1)[1].splitlines()
    return [line.split() for line in body if line.strip() and not line.startswith("_")]


def xml(name: str, *, aligned: bool, ctf: float) -> str:
    shift = "3.370" if aligned else "0"
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<TiltSeries CTFResolutionEstimate="{ctf:g}">\n'
        f"\t<Angles>-40\n0\n40</Angles>\n\t<AxisOffsetX>{shift}\n0\n{shift}</AxisOffsetX>\n"
        f"\t<AxisOffsetY>0\n0\n0</AxisOffsetY>\n</TiltSeries>\n"
    )


def picks_of(label: str, name: str) -> Iterator[tuple[float, float, float, float]]:
    """x, y, z (px of the tomogram) and score of the candidates of one tilt series; the good ones first."""
    rng = np.random.default_rng(sum(map(ord, label + name)))
    for i in range(int(value("NUM_CANDIDATES"))):
        x, y, z = rng.uniform(4, 28), rng.uniform(4, 28), rng.uniform(3, 9)
        yield x, y, z, (0.6 if i % 2 == 0 else 0.2) + rng.uniform(0, 0.1)


# The shared phases


@step
def warp_frameseries_import() -> None:
    frames = sorted(Path(value("FRAME_DIR")).glob(value("FILE_EXTENSION")))
    if not frames:
        sys.exit(f"no frames in {value('FRAME_DIR')}")
    for i, frame in enumerate(frames):
        image = noisy(np.zeros((1, 16, 16), np.float32), i)[0]
        write_mrc(WORK / "warp_frameseries/average" / f"{frame.stem}.mrc", image, float(value("ANGPIX")))
        write(WORK / "warp_frameseries" / f"{frame.stem}.xml", "<Movie></Movie>\n")
    write(WORK / "warp_frameseries.settings", "<Settings/>\n")


@step
def warp_tiltseries_setup() -> None:
    for mdoc in sorted(Path(value("MDOC_DIR")).glob("*.mdoc")):
        rows: list[list[object]] = [
            [f"../warp_frameseries/{mdoc.stem}_{i}.tif", t, 0] for i, t in enumerate((-40, 0, 40))
        ]
        columns = ["wrpMovieName", "wrpAngleTilt", "wrpDose"]
        write(WORK / "tomostar" / f"{mdoc.stem}.tomostar", star(columns, rows, ""))
    write(WORK / "warp_tiltseries.settings", f'<Param Name="Dimensions" Z="{value("TOMO_DIM_Z")}" />\n')


@step
def warp_export_stacks() -> None:
    apix = float(value("ANGPIX")) * int(value("BINNING_FACTOR"))
    for i, name in enumerate(series()):
        write_mrc(WORK / "tiltstack" / name / f"{name}.st", noisy(np.zeros((3, 16, 16), np.float32), i), apix)
        write(WORK / "tiltstack" / name / f"{name}.rawtlt", "-40.00\n0.00\n40.00\n")


@step
def warp_aretomo_align_negate() -> None:
    apix = float(value("ANGPIX")) * int(value("BINNING_FACTOR"))
    for i, name in enumerate(series()):
        folder = WORK / "tiltstack" / name
        if not (folder / f"{name}.st").exists():
            sys.exit(f"no stack of {name}")
        write_mrc(folder / f"{name}_ali.mrc", noisy(np.zeros(DIMS, np.float32), 10 + i), apix)
        write(folder / f"{name}.tlt", "40.00\n0.00\n-40.00\n")
        write(folder / f"{name}.xf", "1.0 0.0 0.0 1.0 0.5 -0.5\n" * 3)


@step
def warp_update_tomo_dims() -> None:
    write(WORK / "warp_tiltseries.settings", '<Param Name="Dimensions" Z="48" />\n')


@step
def warp_import_alignments() -> None:
    for name in series():
        write(WORK / "warp_tiltseries" / f"{name}.xml", xml(name, aligned=True, ctf=0))


@step
def warp_ts_ctf() -> None:
    for name in series():
        write(WORK / "warp_tiltseries" / f"{name}.xml", xml(name, aligned=True, ctf=8.4))


@step
def warp_ts_reconstruct() -> None:
    apix = float(value("ANGPIX")) * int(value("BINNING_FACTOR"))
    for i, name in enumerate(series()):
        tomogram = noisy(np.zeros(DIMS, np.float32), 20 + i)
        tomogram[4:8, 10:14, 10:14] += 2
        write_mrc(WORK / "reconstruction" / f"{name}_{apix:.2f}Apx.mrc", tomogram, apix)


# The phases of each species


@step
def gen_template_from_mrc() -> None:
    write_mrc(WORK / value("TEMPLATE_MRC"), phantom(value("TM_LABEL")), float(value("ALIGN_ANGPIX")))


@step
def gen_sphere_mask() -> None:
    mask = np.ones((BOX,) * 3, np.float32)
    write_mrc(WORK / value("TM_MASK_MRC"), mask, float(value("ALIGN_ANGPIX")))


@step
def gen_tm_jobs_aretomo() -> None:
    for name in series():
        write(WORK / value("TM_JOBS_DIR") / name / "job.xml", f'<JobDescription Volume="{name}_ali.mrc"/>\n')


@step
def run_tm_sequential() -> None:
    for i, job in enumerate(sorted((WORK / value("TM_JOBS_DIR")).glob("*/job.xml"))):
        for kind in ("scores", "angles"):
            write_em(job.parent / f"{kind}_{value('TM_LABEL')}.em", noisy(np.zeros(DIMS, np.float32), i))


@step
def extract_tm_candidates_parallel() -> None:
    label, folder = value("TM_LABEL"), WORK / value("TM_PARTICLES_DIR")
    for name in sorted(path.parent.name for path in (WORK / value("TM_JOBS_DIR")).glob("*/scores_*.em")):
        found = "".join(
            f'  <Particle><PickPosition X="{x:.2f}" Y="{y:.2f}" Z="{z:.2f}" Origin="{name}"/>'
            f'<Score Type="FLCFScore" Value="{score:.4f}"/></Particle>\n'
            for x, y, z, score in picks_of(label, name)
            if score >= float(value("MIN_SCORE"))
        )
        write(folder / f"{name}_particles.xml", f"<ParticleList>\n{found}</ParticleList>\n")
        write(folder / f"{name}_extraction.log", f"{name}: done\n")


@step
def convert_to_star() -> None:
    columns = ["rlnCoordinateX", "rlnCoordinateY", "rlnCoordinateZ", "rlnLCCmax"]
    place = re.compile(r'X="([^"]+)" Y="([^"]+)" Z="([^"]+)".*Value="([^"]+)"')
    for path in sorted((WORK / value("TM_PARTICLES_DIR")).glob("*_particles.xml")):
        rows: list[list[object]] = [list(found) for found in place.findall(path.read_text())]
        write(WORK / value("TM_STAR_DIR") / f"{path.stem.removesuffix('_particles')}.star", star(columns, rows))


@step
def convert_pytom_to_warp() -> None:
    columns = ["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnCoordinateZ", "rlnAutopickFigureOfMerit"]
    for path in sorted((WORK / value("TM_STAR_DIR")).glob("*.star")):
        rows: list[list[object]] = [[f"{path.stem}.tomostar", *row] for row in rows_of(path)]
        write(WORK / value("TM_WARP_DIR") / f"{path.stem}_warp.star", star(columns, rows))


@step
def warp_export_particles() -> None:
    """From whatever lists of picks lie in the folder: what has been left out must lie elsewhere."""
    label, rows = value("TM_LABEL"), []
    for path in sorted((WORK / value("TM_WARP_DIR")).glob("*_warp.star")):
        name = path.name.removesuffix("_warp.star")
        for i, (_, x, y, z, score) in enumerate(rows_of(path)):
            if float(score) < float(value("MIN_SCORE")):
                continue
            image = WORK / value("DATADIR") / name / f"{name}_{i:05d}_{float(value('OUTPUT_ANGPIX')):.2f}A.mrc"
            write_mrc(image, noisy(phantom(label), i), float(value("OUTPUT_ANGPIX")))
            rows.append([f"{name}.tomostar", x, y, z, image.relative_to(WORK)])
    columns = ["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnCoordinateZ", "rlnImageName"]
    write(WORK / "warp_tiltseries" / f"{label}_matching.star", star(columns, list(rows)))


@step
def gen_training_mask() -> None:
    path = WORK / "templates" / f"{value('TM_LABEL')}_training_mask.mrc"
    write_mrc(path, phantom(value("TM_LABEL")), float(value("OUTPUT_ANGPIX")))


@step
def train_opuset() -> None:
    folder = WORK / "opuset" / value("TM_LABEL") / f"z{value('ZDIM')}"
    folder.mkdir(parents=True, exist_ok=True)
    for epoch in range(int(value("NUM_EPOCHS"))):
        (folder / f"weights.{epoch}.pkl").write_bytes(pickle.dumps({"epoch": epoch}))
    (folder / "config.pkl").write_bytes(pickle.dumps({"zdim": value("ZDIM")}))
    (WORK / value("DATADIR") / f"{value('TM_LABEL')}_pose_euler.pkl").write_bytes(pickle.dumps({"of": "matching"}))
    (WORK / value("DATADIR") / "deep_split.pkl").write_bytes(pickle.dumps([0, 1]))


@step
def analyze_opuset() -> None:
    label = value("TM_LABEL")
    folder = WORK / "opuset" / label / f"z{value('ZDIM')}" / f"analyze.{int(value('NUM_EPOCHS')) - 1}" / "kmeans4"
    for cluster in range(4):
        write_mrc(folder / f"reference{cluster}.mrc", noisy(phantom(label), cluster), float(value("OUTPUT_ANGPIX")))


@step
def select_state() -> None:
    """Particle i is of cluster i modulo 4."""
    label, chosen = value("TM_LABEL"), {int(each) for each in value("SELECT_CLUSTERS").split()}
    source = WORK / "warp_tiltseries" / f"{label}_matching.star"
    rows = [row for i, row in enumerate(rows_of(source)) if i % 4 in chosen]
    columns = ["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnCoordinateZ", "rlnImageName"]
    write(WORK / f"sel_{label}.star", star(columns, [list(row) for row in rows]))


@step
def train_opuset_fixed() -> None:
    """The half given by FIXED_SUBSET_LABEL, with the pose pickle of these halves and no other."""
    label, half = value("TM_LABEL"), value("FIXED_SUBSET_LABEL")
    particles = rows_of(WORK / "warp_tiltseries" / f"{label}_matching_subset{half}.star")
    if (WORK / value("DATADIR") / f"{label}_pose_euler.pkl").exists():
        sys.exit(f"Input rotations have shape other than ({len(particles)}, 3, 3)")
    folder = WORK / "opuset" / label / f"fixed_subset{half}"
    for part in range(2):
        seed = 1000 * int(half) + part
        write_mrc(folder / f"tmp{part}.mrc", noisy(phantom(label), seed), float(value("OUTPUT_ANGPIX")))
    (folder / "weights.0.pkl").write_bytes(pickle.dumps({"particles": len(particles)}))


@step
def prepare_m_halfmaps() -> None:
    """A half-map is the mean of what its averaging left in parts."""
    import mrcfile

    label, apix = value("TM_LABEL"), float(value("OUTPUT_ANGPIX"))
    for half, path in (("1", value("M_HALF1")), ("2", value("M_HALF2"))):
        parts = sorted((WORK / "opuset" / label / f"fixed_subset{half}").glob("tmp*.mrc"))
        write_mrc(WORK / path, np.mean([mrcfile.read(part) for part in parts], axis=0).astype(np.float32), apix)
    z, y, x = np.mgrid[:BOX, :BOX, :BOX] - (BOX - 1) / 2.0
    radius = np.hypot(np.hypot(z, y), x)
    write_mrc(WORK / value("M_MASK"), np.clip(7 - radius, 0, 1).astype(np.float32), apix)
    halves = [rows_of(WORK / "warp_tiltseries" / f"{label}_matching_subset{half}.star") for half in "12"]
    rows: list[list[object]] = [[*row, half] for half, each in enumerate(halves, 1) for row in each]
    columns = [
        "rlnMicrographName",
        "rlnCoordinateX",
        "rlnCoordinateY",
        "rlnCoordinateZ",
        "rlnImageName",
        "rlnRandomSubset",
    ]
    write(WORK / value("M_PARTICLES_STAR"), star(columns, rows))


# M


def species_folders() -> list[Path]:
    return sorted(path.parent for path in (WORK / "m/species").glob("*_*/*.species"))


@step
def warp_m_setup() -> None:
    population = WORK / "m" / f"{value('POPULATION_NAME')}.population"
    if population.exists():
        sys.exit("there is a population already: it is set up once")
    write(population, f'<Population Name="{value("POPULATION_NAME")}"/>\n')


@step
def warp_m_create_species() -> None:
    import mrcfile

    name = value("SPECIES_BASE")
    if not (WORK / "m" / f"{value('POPULATION_NAME')}.population").exists():
        sys.exit("there is no population yet")
    folder = WORK / "m/species" / f"{name}_{sum(map(ord, name)):08x}"
    for half, path in (("half1", value("M_HALF1")), ("half2", value("M_HALF2"))):
        write_mrc(folder / f"{name}_{half}.mrc", mrcfile.read(WORK / path), float(value("ANGPIX_RESAMPLE")))
    write(folder / f"{name}.species", f'<Species Name="{name}"/>\n')


@step
def warp_m_refine() -> None:
    import mrcfile

    for folder in species_folders():
        for path in folder.glob("*_half?.mrc"):
            write_mrc(path, mrcfile.read(path) * np.float32(1.0), float(value("ANGPIX_RESAMPLE")))
        write(folder / "refined", "once over all species\n")


@step
def warp_m_update_mask() -> None:
    for folder in species_folders():
        name = folder.name.rpartition("_")[0]
        write_mrc(folder / f"{name}_mask.mrc", phantom(name), float(value("ANGPIX_RESAMPLE")))


@step
def warp_m_export() -> None:
    rows: list[list[object]] = [list(row) for row in rows_of(WORK / value("M_PARTICLES_STAR"))]
    columns = [
        "rlnMicrographName",
        "rlnCoordinateX",
        "rlnCoordinateY",
        "rlnCoordinateZ",
        "rlnImageName",
        "rlnRandomSubset",
    ]
    write(WORK / "warp_tiltseries" / f"{value('SPECIES_BASE')}_matching_refined.star", star(columns, rows))


if __name__ == "__main__":
    os.umask(0o022)
    STEPS[sys.argv[1]]()
    with (WORK / "trace").open("a") as trace:
        trace.write(
            " ".join([sys.argv[1], os.environ.get("TM_LABEL", ""), os.environ.get("FIXED_SUBSET_LABEL", "")]).strip()
            + "\n"
        )
