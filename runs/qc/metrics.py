"""Figures of a tomogram: one pass through the file for its statistics and sections, a few slices for its spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.volumes import Plane, Volume

SPECTRUM_SLICES = (9, 48)  # at least, at most: many where they are small
SPECTRUM_PX = 512
SIGNAL_BAND = (0.02, 0.12)  # cycles/px: where particles and membranes are
NOISE_BAND = (0.35, 0.5)
STREAK_BAND = (0.05, 0.4)
SECTORS = 36  # of 5 degrees; a spectrum's half-plane holds all there is


@dataclass(kw_only=True)
class Scan:
    """Statistics over all finite voxels; central XZ (z, x) and YZ (z, y) sections, each a mean of some planes."""

    count: int = 0
    mean: float = 0.0
    sum_of_squares: float = 0.0  # of deviations from the mean
    minimum: float = np.inf
    maximum: float = -np.inf
    not_finite: int = 0
    constant_slices: int = 0
    xz: Plane = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    yz: Plane = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def std(self) -> float:
        """Standard deviation over all finite voxels."""
        return float(np.sqrt(self.sum_of_squares / self.count)) if self.count else 0.0

    def take(self, slab: Plane) -> None:
        """Add a slab's statistics (Chan, Golub and LeVeque 1979: pairwise update of mean and squared deviations)."""
        finite = np.isfinite(slab)
        values = slab if finite.all() else slab[finite]
        self.not_finite += slab.size - values.size
        self.constant_slices += int((slab.max(axis=(1, 2)) == slab.min(axis=(1, 2))).sum())
        if values.size == 0:
            return
        mean = float(values.mean(dtype=np.float64))
        squares = float(values.var(dtype=np.float64)) * values.size
        total = self.count + values.size
        shift = mean - self.mean
        self.sum_of_squares += squares + shift * shift * self.count * values.size / total
        self.mean += shift * values.size / total
        self.count = total
        self.minimum, self.maximum = min(self.minimum, float(values.min())), max(self.maximum, float(values.max()))


def scan(volume: Volume) -> Scan:
    """Read the volume once, slab by slab."""
    nx, ny, _ = volume.dims
    result, xz, yz = Scan(), [], []
    for _, slab in volume.slabs():
        result.take(slab)
        xz.append(slab[:, central(ny), :].mean(axis=1))
        yz.append(slab[:, :, central(nx)].mean(axis=2))
    result.xz, result.yz = np.concatenate(xz), np.concatenate(yz)
    return result


def central(size: int) -> slice:
    """The planes that a central section averages: one in 64 of the axis, at least one, around the middle."""
    return around(size // 2, thickness=max(1, size // 64), size=size)


def around(position: int, *, thickness: int, size: int) -> slice:
    """`thickness` planes around `position`, moved inwards at the ends."""
    start = min(max(0, position - thickness // 2), max(0, size - thickness))
    return slice(start, min(size, start + thickness))


def mean_power(volume: Volume) -> NDArray[np.float64] | None:
    """Mean power spectrum of central XY slices, 9 to 48 of them (square, Hann-windowed, zero frequency first).

    None where the slices are smaller than 16 px, or flat.
    """
    from scipy import fft

    nx, ny, nz = volume.dims
    side = min(nx, ny, SPECTRUM_PX)
    if side < 16:
        return None
    window = np.outer(np.hanning(side), np.hanning(side)).astype(np.float32)
    power = np.zeros((side, side))
    top, left = (ny - side) // 2, (nx - side) // 2
    wanted = int(np.clip(SPECTRUM_SLICES[0] * SPECTRUM_PX**2 // side**2, *SPECTRUM_SLICES))
    for z in np.unique(np.linspace(0.15 * (nz - 1), 0.85 * (nz - 1), wanted).round().astype(int)):
        patch = np.nan_to_num(
            volume.block(int(z), int(z) + 1)[0, top : top + side, left : left + side], posinf=0, neginf=0
        )
        power += np.abs(fft.fft2((patch - patch.mean()) * window)) ** 2
    return power if power.max() > 0 else None


def contrast_db(power: NDArray[np.float64]) -> float:
    """Spectral contrast: mean power at 0.02..0.12 cycles/px over that at 0.35..0.5, in dB, at most 60.

    White noise gives 0; structure at the scale of particles raises it; a lost or smeared series falls behind its set.
    """
    radius = np.hypot(*_frequencies(power))
    signal, noise = power[_in(radius, SIGNAL_BAND)].mean(), power[_in(radius, NOISE_BAND)].mean()
    return float(np.clip(10 * np.log10(max(signal, 1e-30) / max(noise, 1e-30)), -60, 60))


def streak_index(power: NDArray[np.float64]) -> float:
    """How much the strongest 5-degree sector of the spectrum stands above the median sector (1: isotropic).

    The power is first divided by its radial mean, so that low frequencies don't outweigh the rest.
    """
    fy, fx = _frequencies(power)
    radius = np.hypot(fy, fx)
    shell = np.round(radius * len(power)).astype(int)
    radial = np.bincount(shell.ravel(), power.ravel()) / np.maximum(np.bincount(shell.ravel()), 1)
    white = power / np.maximum(radial[shell], 1e-30)
    band = _in(radius, STREAK_BAND)
    sector = (np.mod(np.arctan2(fy, fx), np.pi) / np.pi * SECTORS).astype(int) % SECTORS
    counts = np.bincount(sector[band], minlength=SECTORS)
    means = np.bincount(sector[band], white[band], minlength=SECTORS)[counts > 0] / counts[counts > 0]
    return float(means.max() / max(float(np.median(means)), 1e-30))


def _frequencies(power: NDArray[np.float64]) -> tuple[Any, Any]:
    axis = np.fft.fftfreq(len(power))
    return np.meshgrid(axis, axis, indexing="ij")


def _in(radius: NDArray[np.float64], band: tuple[float, float]) -> NDArray[np.bool_]:
    return (radius >= band[0]) & (radius <= band[1])
