"""Phase 7: the average put back where its particles were found."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.geometry import rotate


def paste(volume: np.ndarray, box: np.ndarray, position: np.ndarray) -> None:
    """Add a box to the volume in place, its voxel n // 2 at the nearest voxel to the position (x, y, z; pixels)."""
    start = np.floor(position[::-1]).astype(int) - np.array(box.shape) // 2
    low, high = np.maximum(start, 0), np.minimum(start + box.shape, volume.shape)
    target = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    source = tuple(slice(a, b) for a, b in zip(low - start, high - start, strict=True))
    volume[target] += box[source]


def map_back_series(work: Path, label: str, name: str, particles: list[dict]) -> str:
    """Write one tomogram that holds nothing but the masked average at each particle's place and orientation."""
    tomogram, apix = files.read_mrc(files.tomogram_path(work, name))
    folder = work / "average" / label
    masked = files.read_mrc(folder / "map.mrc")[0] * files.read_mrc(folder / "mask.mrc")[0]
    volume = np.zeros_like(tomogram)
    for particle in particles:
        fraction = particle["position"] - np.floor(particle["position"])
        paste(volume, rotate(masked, particle["matrix"], shift=fraction), particle["position"])
    files.write_mrc(work / "mapback" / label / f"{name}.mrc", volume, apix)
    return f"{len(particles)} {label}"


def run(work: Path) -> None:
    """Map a species back into the tomograms that are not excluded.

    Each is written anew, as the average may have changed since.
    """
    label = conf.text("TM_LABEL")
    particles = files.particles_of(files.read_star(work / "average" / label / "particles.star"))
    names = files.series_names(work)
    for index, name in enumerate(names, start=1):
        said = map_back_series(work, label, name, [p for p in particles if p["name"] == name])
        print(f"{name} {index}/{len(names)} mapped back ({said})", flush=True)
