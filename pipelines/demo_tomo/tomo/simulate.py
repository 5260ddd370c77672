"""Phase 1: a known scene, seen as a microscope would: tilted, drifting, noisy.

Particles are sums of Gaussian blobs. Their projections are written down in closed form, so that the images owe
nothing to the code that reconstructs them. Density is bright.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.errors import TomoError
from tomo.geometry import matrices_from_quaternions, without_rigid_part

VALUES = (
    "SEED", "PIXEL_SIZE_ANGSTROM", "TOMO_DIM_X", "TOMO_DIM_Y", "TOMO_DIM_Z",
    "TILT_MIN_DEG", "TILT_MAX_DEG", "TILT_STEP_DEG", "TILT_AXIS_DEG", "SNR",
    "DRIFT_PX", "SCENE_MARGIN_PX", "SCENE_GAP_PX", "SPOILT_SERIES", "SPOILT_JUMP_PX",
    "SPOILT_CONTRAST",
)  # fmt: skip


def species_in_scene(folder: Path) -> dict[str, tuple[np.ndarray, float, int]]:
    """Return {label: (blobs, diameter in Angstrom, particles a series)} of all species_*.conf in the folder."""
    found = {}
    for path in sorted(folder.glob("species_*.conf")):
        with conf.file_values(path):
            found[conf.text("TM_LABEL")] = (
                conf.blobs(),
                conf.positive("DIAMETER"),
                conf.whole("SCENE_PARTICLES", at_least=1),
            )
    if not found:
        raise TomoError(f"{folder} has no species_*.conf, so there is nothing to put into the scene.")
    return found


def place(rng: np.random.Generator, radii: np.ndarray, half_size: np.ndarray, gap: float) -> np.ndarray:
    """Return positions (n, 3) as x, y, z within +-half_size of spheres that keep `gap` between them, all in pixels."""
    places: list[np.ndarray] = []
    for index, radius in enumerate(radii):
        room = half_size - radius
        for _ in range(20000 if (room > 0).all() else 0):
            here = rng.uniform(-room, room)
            apart = [np.linalg.norm(here - there) - radius - radii[k] for k, there in enumerate(places)]
            if min(apart, default=np.inf) >= gap:
                places.append(here)
                break
        else:
            raise TomoError(
                f"No room for particle {index + 1} of {len(radii)}: lower SCENE_PARTICLES or enlarge TOMO_DIM_X to _Z."
            )
    return np.array(places)


def drift(rng: np.random.Generator, angles_deg: np.ndarray, step_px: float) -> np.ndarray:
    """Return the stage's drift (tilts, 2) across and along the tilt axis in pixels, a random walk.

    A drift of the form a cos t + b sin t across the axis, or constant along it, is a shift of the whole specimen,
    which no alignment can tell from its place. It is taken off, so that truth and tomogram share one origin.
    """
    walk = np.cumsum(rng.normal(0, step_px, (len(angles_deg), 2)), axis=0)
    return without_rigid_part(walk, angles_deg)


def spoil(rng: np.random.Generator, shifts: np.ndarray, jump_px: float) -> np.ndarray:
    """Return the drift of a series whose stage jumps at every tilt, further than an alignment searches."""
    return shifts + rng.uniform(-jump_px, jump_px, shifts.shape)


def image_of(
    blobs: np.ndarray, angle_deg: float, shift: np.ndarray, axis_deg: float, size: tuple[int, int]
) -> np.ndarray:
    """Return the exact projection (y, x) of blobs (rows x, y, z, sigma, weight; pixels from the centre).

    The tilt axis lies `axis_deg` counter-clockwise of the image's y axis; `shift` is in pixels across and along it.
    """
    ny, nx = size
    angle, axis = np.deg2rad([angle_deg, axis_deg])
    x, y, z, sigma, weight = blobs.T
    across, along = x * np.cos(angle) + z * np.sin(angle) + shift[0], y + shift[1]
    u = across * np.cos(axis) - along * np.sin(axis) + (nx - 1) / 2
    v = across * np.sin(axis) + along * np.cos(axis) + (ny - 1) / 2
    columns = np.exp(-((np.arange(nx) - u[:, None]) ** 2) / (2 * sigma[:, None] ** 2))
    rows = np.exp(-((np.arange(ny) - v[:, None]) ** 2) / (2 * sigma[:, None] ** 2))
    peak = weight / (2 * np.pi * sigma**2)
    return ((rows * peak[:, None]).T @ columns).astype(np.float32)


def scene_of(
    rng: np.random.Generator, species: Mapping[str, tuple[np.ndarray, float, int]], apix: float
) -> tuple[np.ndarray, list[dict]]:
    """Return all blobs of one series (pixels from the centre) and its particles (label, position, matrix)."""
    dims = np.array([conf.whole(f"TOMO_DIM_{axis}", at_least=16) for axis in "XYZ"])
    labels = [label for label, (_, _, count) in species.items() for _ in range(count)]
    radii = np.array([species[label][1] / 2 / apix for label in labels])
    order = np.argsort(-radii, kind="stable")
    labels = [labels[index] for index in order]
    margin = conf.number("SCENE_MARGIN_PX")
    places = place(rng, radii[order], dims / 2 - margin, conf.number("SCENE_GAP_PX"))
    quaternions = rng.normal(size=(len(labels), 4))
    turns = matrices_from_quaternions(quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True))
    blobs, particles = [], []
    for label, position, turn in zip(labels, places, turns, strict=True):
        own = species[label][0].copy()
        own[:, :4] /= apix
        own[:, :3] = own[:, :3] @ turn.T + position
        blobs.append(own)
        particles.append({"label": label, "position": position + (dims - 1) / 2, "matrix": turn})
    return np.concatenate(blobs), particles


def write_truth(work: Path, name: str, particles: list[dict], labels: list[str]) -> None:
    """Write where the particles of one series are, one STAR file a species, in the convention of the picks."""
    for label in labels:
        files.write_star(
            work / "truth" / f"{name}_{label}.star",
            files.particle_columns(name, [p for p in particles if p["label"] == label]),
            block="particles",
        )


def simulate_series(work: Path, name: str, index: int, species: Mapping[str, tuple[np.ndarray, float, int]]) -> str:
    """Simulate and write one tilt series with its truth."""
    rng = np.random.default_rng([conf.whole("SEED"), index])
    apix, axis_deg = conf.positive("PIXEL_SIZE_ANGSTROM"), conf.number("TILT_AXIS_DEG", "0")
    angles = conf.tilt_angles()
    size = (conf.whole("TOMO_DIM_Y"), conf.whole("TOMO_DIM_X"))
    blobs, particles = scene_of(rng, species, apix)
    shifts, contrast = drift(rng, angles, conf.number("DRIFT_PX")), 1.0
    spoilt = name in conf.words("SPOILT_SERIES")
    if spoilt:
        shifts, contrast = spoil(rng, shifts, conf.number("SPOILT_JUMP_PX")), conf.number("SPOILT_CONTRAST")
    images = np.stack([image_of(blobs, a, s, axis_deg, size) for a, s in zip(angles, shifts, strict=True)])
    flat = image_of(blobs, 0.0, np.zeros(2), axis_deg, size)
    noise = flat.std() / np.sqrt(conf.positive("SNR"))
    images = images * contrast + rng.normal(0, noise, images.shape).astype(np.float32)
    write_truth(work, name, particles, list(species))
    files.write_series(work, name, images, angles, apix, axis_deg)
    return f"{len(angles)} tilts of {size[1]}x{size[0]}, {len(particles)} particles"


def run(work: Path, skill_dir: Path) -> None:
    """Simulate the tilt series that are not there yet."""
    species = species_in_scene(skill_dir)
    scene = {
        "seed": conf.whole("SEED"),
        "pixel_size_angstrom": conf.positive("PIXEL_SIZE_ANGSTROM"),
        "species": {
            label: {"diameter_angstrom": diameter, "particles_per_series": count, "blobs_angstrom": blobs.tolist()}
            for label, (blobs, diameter, count) in species.items()
        },
        "spoilt_series": conf.words("SPOILT_SERIES"),
    }
    files.write_text(work / "truth" / "scene.json", json.dumps(scene, indent=1))
    names = [f"TS_{index:03d}" for index in range(1, conf.whole("NUM_SERIES", at_least=1) + 1)]
    files.for_each(
        names,
        lambda name: simulate_series(work, name, names.index(name) + 1, species),
        "simulated",
        output=lambda name: work / "tomostar" / f"{name}.tomostar",
        inputs=lambda name: [],
        values=VALUES,
        also=json.dumps(scene["species"]),
    )
