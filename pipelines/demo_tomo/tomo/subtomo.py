"""Phase 5: the picks that are kept, cut out of their tomograms and dealt to two half-sets."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.errors import TomoError
from tomo.picks import star_path


def cut_out(volume: np.ndarray, position: np.ndarray, box: int) -> np.ndarray:
    """Return a box (z, y, x) whose voxel box // 2 lies at the position (x, y, z; pixels) of the volume.

    What lies beyond the volume has its mean.
    """
    from scipy.ndimage import shift

    at = np.round(position[::-1]).astype(int)
    room = box // 2 + 3
    padded = np.pad(volume, room, mode="constant", constant_values=volume.mean())
    large = padded[tuple(slice(n, n + 2 * room + 1) for n in at)]
    large = shift(large, at - position[::-1], order=3, mode="nearest")
    start = room - box // 2
    return large[(slice(start, start + box),) * 3]


def kept(work: Path, label: str, name: str) -> list[dict]:
    """Return a tilt series' candidates with a score of at least MIN_SCORE."""
    threshold = conf.number("MIN_SCORE")
    return [p for p in files.particles_of(files.read_star(star_path(work, label, name))) if p["score"] >= threshold]


def paths(work: Path, label: str) -> tuple[Path, Path]:
    """Return a species' folder of subtomograms and its particle table."""
    folder = work / "subtomo" / label
    return folder, folder / "particles.star"


def extract_series(work: Path, label: str, name: str) -> str:
    """Write the subtomograms of one tilt series as a stack (n, z, y, x); where it has none, one empty box."""
    particles = kept(work, label, name)
    volume, apix = files.read_mrc(files.tomogram_path(work, name))
    box = conf.whole("SUBTOMO_BOX_SIZE", at_least=8)
    boxes = [cut_out(volume, particle["position"], box) for particle in particles]
    stack = np.stack(boxes) if boxes else np.zeros((1, box, box, box))
    files.write_mrc(paths(work, label)[0] / f"{name}.mrcs", stack, apix)
    return f"{len(particles)} {label} of {box} pixels"


def run(work: Path) -> None:
    """Extract the kept picks of the tilt series that are not excluded, and write the particle table."""
    label = conf.text("TM_LABEL")
    folder, table = paths(work, label)
    names = files.series_names(work)
    particles = {name: kept(work, label, name) for name in names}
    total = sum(len(found) for found in particles.values())
    if total < 4:
        raise TomoError(f"{label}: {total} picks have a score of MIN_SCORE {conf.number('MIN_SCORE'):g}; lower it.")
    files.for_each(
        names,
        lambda name: extract_series(work, label, name),
        "extracted",
        output=lambda name: folder / f"{name}.mrcs",
        inputs=lambda name: [star_path(work, label, name), files.tomogram_path(work, name)],
        values=("MIN_SCORE", "SUBTOMO_BOX_SIZE"),
    )
    write_table(table, label, particles)


def write_table(table: Path, label: str, particles: dict[str, list[dict]]) -> None:
    """Write all particles of a species, with their half-sets dealt at random (from SEED) and evenly."""
    columns: dict[str, list] = {}
    for name, found in particles.items():
        rows = files.particle_columns(name, found) if found else {}
        rows |= {"rlnImageName": [f"{i:06d}@{name}.mrcs" for i in range(1, len(found) + 1)]} if found else {}
        for key, values in rows.items():
            columns.setdefault(key, []).extend(values)
    count = len(columns["rlnTomoName"])
    rng = np.random.default_rng([conf.whole("SEED"), *label.encode()])
    columns["rlnRandomSubset"] = list(rng.permutation(np.arange(count) % 2 + 1))
    files.write_star(table, columns, block="particles")
    print(f"{label}: {count} particles in two half-sets", flush=True)
