"""Phase 6: averages of two half-sets that never see one another, each aligned to its own average."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.errors import TomoError
from tomo.fsc import first_crossing, shell_correlation
from tomo.geometry import local_rotations, low_passed, rotate, wedge
from tomo.subtomo import paths
from tomo.template import sphere

SHIFT_REACH_PX = 2
EDGE_PX = 5.0  # over which a mask falls from 1 to 0


@dataclass
class Particle:
    """One subtomogram with its pose; `shift` (x, y, z; pixels) is added to its place in the tomogram."""

    row: dict
    box: np.ndarray
    angles_deg: np.ndarray
    half: int
    matrix: np.ndarray
    shift: np.ndarray


def load(work: Path, label: str) -> list[Particle]:
    """Return a species' particles of the series that are not excluded."""
    folder, table_path = paths(work, label)
    table = files.read_star(table_path)
    names = set(files.series_names(work))
    stacks = {name: files.read_mrc(folder / f"{name}.mrcs")[0] for name in names & set(table["rlnTomoName"])}
    angles = {name: files.read_angles(files.stack_path(work, name, ".tlt")) for name in stacks}
    particles = []
    for row, image, half in zip(
        files.particles_of(table), table["rlnImageName"], table["rlnRandomSubset"], strict=True
    ):
        if (name := row["name"]) in stacks:
            box = stacks[name][int(image.split("@")[0]) - 1]
            particles.append(Particle(row, box, angles[name], int(half), row["matrix"], np.zeros(3)))
    return particles


def average(particles: list[Particle]) -> np.ndarray:
    """Return the mean of the particles in the reference's frame, each frequency over those that measured it."""
    from scipy import fft

    shape = particles[0].box.shape
    total, weight = np.zeros(0), np.zeros(0)
    for particle in particles:
        back = particle.matrix.T
        turned = rotate(particle.box - particle.box.mean(), back, shift=-back @ particle.shift, order=3)
        measured = wedge(shape, particle.angles_deg, particle.matrix)
        total = measured * fft.rfftn(turned) + (total if total.size else 0)
        weight = measured + (weight if weight.size else 0)
    return fft.irfftn(total / np.maximum(weight, 0.1 * len(particles)), shape).astype(np.float32)


def best_pose(particle: Particle, reference: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pose (matrix, shift) near the particle's own at which it correlates best with the reference."""
    from scipy import fft

    shape = particle.box.shape
    spectrum, measured = fft.rfftn(particle.box - particle.box.mean()), wedge(shape, particle.angles_deg)
    near = fft.ifftshift(sphere(shape[0], SHIFT_REACH_PX, edge_px=1e-3)) > 0.5
    near = np.roll(near, np.round(particle.shift[::-1]).astype(int), axis=(0, 1, 2))
    best, pose = -np.inf, (particle.matrix, particle.shift)
    for turn in turns:
        matrix = particle.matrix @ turn
        seen = fft.rfftn(rotate(reference, matrix)) * measured
        found = fft.irfftn(spectrum * seen.conj(), shape) / np.linalg.norm(seen)
        found[~near] = -np.inf
        at = np.unravel_index(np.argmax(found), shape)
        if found[at] > best:
            best = found[at]
            pose = matrix, np.array([(i + n // 2) % n - n // 2 for i, n in zip(at, shape, strict=True)], float)[::-1]
    return pose


def refine(
    particles: list[Particle], mask: np.ndarray, iterations: int, step_deg: float, period_px: float
) -> np.ndarray:
    """Return a half-set's average after aligning it to itself; the particles' poses are changed."""
    result = average(particles)
    for iteration in range(iterations):
        reference = low_passed(result, period_px) * mask
        for step in (step_deg / 2 ** (iteration + 1), step_deg / 2 ** (iteration + 2)):
            turns = local_rotations(step)
            label = f"half {particles[0].half}, round {iteration + 1}, {step:.1f} degrees"
            for particle in files.bar(particles, len(particles), label):
                particle.matrix, particle.shift = best_pose(particle, reference, turns)
        result = average(particles)
    return result


def density_mask(volume: np.ndarray, threshold: float, diameter_px: float, period_px: float) -> np.ndarray:
    """Return a mask about the density above `threshold` of the maximum, grown by 1 pixel, with a soft edge.

    The edge is EDGE_PX wide: a narrower one correlates the half-maps itself, beyond what phase randomisation can take
    off in a small box. At the faces of the box it is 0.
    """
    from scipy.ndimage import distance_transform_edt, label

    smooth = low_passed(volume, period_px) * sphere(volume.shape[0], diameter_px / 2)
    pieces, _ = label(smooth > threshold * smooth.max())
    largest = np.argmax(np.bincount(pieces.ravel())[1:]) + 1
    fall = np.clip((distance_transform_edt(pieces != largest) - 1.0) / EDGE_PX, 0, 1)
    within = sphere(volume.shape[0], volume.shape[0] / 2 - 1 - EDGE_PX, EDGE_PX)
    return ((0.5 + 0.5 * np.cos(np.pi * fall)) * within).astype(np.float32)


def run(work: Path) -> None:
    """Average a species' two half-sets and write both, their mean, a mask and the refined particle table."""
    label, apix = conf.text("TM_LABEL"), conf.positive("PIXEL_SIZE_ANGSTROM")
    folder = work / "average" / label
    particles = load(work, label)
    diameter, period = conf.positive("DIAMETER") / apix, conf.positive("REFINE_LOWPASS_ANGSTROM") / apix
    if not particles:
        raise TomoError(f"{label}: no particles are left; extract again.")
    ball = sphere(particles[0].box.shape[0], diameter / 2)
    halves = []
    for half in (1, 2):
        own = [particle for particle in particles if particle.half == half]
        if len(own) < 2:
            raise TomoError(f"{label}: half-set {half} has {len(own)} particles; lower MIN_SCORE and extract again.")
        iterations, step = conf.whole("REFINE_ITERATIONS"), conf.positive("ANGULAR_STEP_DEG")
        halves.append(refine(own, ball, iterations, step, period))
    mean = (halves[0] + halves[1]) / 2
    mask = density_mask(mean, conf.positive("MASK_THRESHOLD"), diameter, period)
    write_particles(folder / "particles.star", particles)
    for name, volume in (("half1", halves[0]), ("half2", halves[1]), ("mask", mask), ("map", mean)):
        files.write_mrc(folder / f"{name}.mrc", volume, apix)
    resolution = first_crossing(*shell_correlation(halves[0] * mask, halves[1] * mask, apix))
    print(f"{label}: {len(particles)} particles averaged, FSC 0.143 at {resolution:.1f} A", flush=True)


def write_particles(path: Path, particles: list[Particle]) -> None:
    """Write the refined places and orientations."""
    rows = [p.row | {"position": p.row["position"] + p.shift, "matrix": p.matrix} for p in particles]
    columns = files.particle_columns("", rows)
    columns["rlnTomoName"] = [row["name"] for row in rows]
    columns["rlnRandomSubset"] = [p.half for p in particles]
    files.write_star(path, columns, block="particles")
