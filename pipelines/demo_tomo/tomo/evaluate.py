"""What came out, measured: picks against the scene's truth, half-maps against one another."""

import json
from pathlib import Path

import numpy as np

from tomo import files
from tomo.errors import TomoError
from tomo.fsc import first_crossing, shell_correlation


def hits(found: np.ndarray, truth: np.ndarray, reach_px: float) -> int:
    """Return how many picks are paired with a true place (rows x, y, z) within reach, nearest first, each used once."""
    if not len(found) or not len(truth):
        return 0
    distance = np.linalg.norm(found[:, None] - truth[None], axis=2)
    count = 0
    while np.min(distance) <= reach_px:
        pick, place = np.unravel_index(np.argmin(distance), distance.shape)
        distance[pick], distance[:, place] = np.inf, np.inf
        count += 1
    return count


def read_scene(work: Path) -> dict:
    """Return truth/scene.json."""
    path = work / "truth" / "scene.json"
    if not path.is_file():
        raise TomoError(f"{path} is not there: only a simulated scene can be compared with the truth.")
    return json.loads(path.read_text(encoding="utf-8"))


def places(path: Path) -> dict[str, np.ndarray]:
    """Return {series: rows x, y, z in pixels} of a particle table."""
    result: dict[str, list[np.ndarray]] = {}
    for particle in files.particles_of(files.read_star(path)):
        result.setdefault(particle["name"], []).append(particle["position"])
    return {name: np.array(rows) for name, rows in result.items()}


def evaluate_species(work: Path, label: str, reach_px: float) -> dict[str, float]:
    """Return recall and precision of the particles that were kept, and the resolution of their average in Angstrom."""
    found = places(work / "subtomo" / label / "particles.star")
    none = np.empty((0, 3))
    matched = picked = true = 0
    for name in files.series_names(work):
        truth = places(work / "truth" / f"{name}_{label}.star").get(name, none)
        here = found.get(name, none)
        matched, picked, true = matched + hits(here, truth, reach_px), picked + len(here), true + len(truth)
    folder = work / "average" / label
    mask, apix = files.read_mrc(folder / "mask.mrc")
    halves = [files.read_mrc(folder / f"half{half}.mrc")[0] * mask for half in (1, 2)]
    resolution = first_crossing(*shell_correlation(halves[0], halves[1], apix))
    return {"recall": matched / max(true, 1), "precision": matched / max(picked, 1), "resolution_angstrom": resolution}


def run(work: Path, as_json: bool) -> None:
    """Print recall, precision and resolution of each species of the scene.

    A hit is a pick within half a diameter of a true place. The resolution is the first crossing of 0.143 by the FSC
    of the half-maps under the average's mask.
    """
    scene = read_scene(work)
    figures: dict[str, dict[str, float]] = {"recall": {}, "precision": {}, "resolution_angstrom": {}}
    for label, species in scene["species"].items():
        reach = species["diameter_angstrom"] / 2 / scene["pixel_size_angstrom"]
        for figure, value in evaluate_species(work, label, reach).items():
            figures[figure][label] = round(value, 4)
    if as_json:
        print(json.dumps(figures))
        return
    for label in scene["species"]:
        print(label, ", ".join(f"{figure} {values[label]:g}" for figure, values in figures.items()))
