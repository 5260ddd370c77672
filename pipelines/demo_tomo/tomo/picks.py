"""Phase 4c: candidates, from the peaks of the scores."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.align import parabola
from tomo.geometry import even_rotations
from tomo.match import outputs


def peaks(scores: np.ndarray, count: int, distance_px: float, margin_px: int) -> list[tuple[int, int, int]]:
    """Return up to `count` voxels (z, y, x), best score first, at least `distance_px` apart and off the faces."""
    z, y, x = np.indices(scores.shape, dtype=np.float32)
    open_ = np.full(scores.shape, -np.inf, dtype=np.float32)
    inner = tuple(slice(margin_px, n - margin_px) for n in scores.shape)
    open_[inner] = scores[inner]
    found: list[tuple[int, int, int]] = []
    while len(found) < count and np.isfinite(open_.max()):
        at = np.unravel_index(np.argmax(open_), scores.shape)
        found.append((int(at[0]), int(at[1]), int(at[2])))
        open_[(z - at[0]) ** 2 + (y - at[1]) ** 2 + (x - at[2]) ** 2 < distance_px**2] = -np.inf
    return found


def top_of(scores: np.ndarray, at: tuple[int, int, int]) -> np.ndarray:
    """Return the peak's place (x, y, z) to a fraction of a voxel."""
    place = []
    for axis, here in enumerate(at):
        line = np.take(scores[at[0] - 1 : at[0] + 2, at[1] - 1 : at[1] + 2, at[2] - 1 : at[2] + 2], range(3), axis=axis)
        others = tuple(slice(None) if other == axis else 1 for other in range(3))
        place.append(here + parabola(*line[others]))
    return np.array(place[::-1])


def pick_series(work: Path, label: str, name: str, output: Path) -> str:
    """Write one tomogram's candidates, best first, with coordinates in pixels and RELION's angles."""
    scores_path, angles_path = outputs(work, label, name)
    scores, which = files.read_mrc(scores_path)[0], files.read_mrc(angles_path)[0]
    rotations = even_rotations(conf.positive("ANGULAR_STEP_DEG"))
    distance = 0.6 * conf.positive("DIAMETER") / conf.positive("PIXEL_SIZE_ANGSTROM")
    found = peaks(scores, conf.whole("NUM_CANDIDATES", at_least=1), distance, margin_px=3)
    particles = [
        {"position": top_of(scores, at), "matrix": rotations[int(which[at])], "score": float(scores[at])}
        for at in found
    ]
    files.write_star(output, files.particle_columns(name, particles), block="particles")
    above = sum(particle["score"] >= conf.number("MIN_SCORE") for particle in particles)
    return f"{len(particles)} candidates, {above} at or above MIN_SCORE"


def star_path(work: Path, label: str, name: str) -> Path:
    """Return where a tilt series' candidates are."""
    return work / "template_matching" / label / f"{name}_picks.star"


def run(work: Path) -> None:
    """Pick in the tomograms that are not excluded and not done."""
    label = conf.text("TM_LABEL")
    files.for_each(
        files.series_names(work),
        lambda name: pick_series(work, label, name, star_path(work, label, name)),
        "picked",
        output=lambda name: star_path(work, label, name),
        inputs=lambda name: outputs(work, label, name),
        values=("DIAMETER", "PIXEL_SIZE_ANGSTROM", "NUM_CANDIDATES", "ANGULAR_STEP_DEG"),
    )
