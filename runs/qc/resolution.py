"""Fourier shell correlation and what is read off it; pure functions on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]

RANDOMISE_BELOW = 0.8  # auto: phases are random from the first shell whose unmasked FSC is below this (as RELION does)
SHELLS_UNTIL_CORRECTION = 2  # the shells next to the seam mix both sides through the mask (as RELION does)
RISE = 0.05  # a curve has risen again when it comes back this far above the threshold


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where a curve first falls below a threshold.

    `frequency` is in the unit of the curve's frequencies; without any crossing it is the last one and `crosses` is
    False. `rises_to` is the highest value after the crossing, None where the curve stays down.
    """

    threshold: float
    frequency: float
    crosses: bool
    rises_to: float | None
    rises_at: float | None

    @property
    def resolution(self) -> float:
        """1 / frequency; infinite where the very first shell is below."""
        return 1 / self.frequency if self.frequency > 0 else float("inf")


def first_crossing(frequency: Curve, fsc: Curve, threshold: float) -> Crossing:
    """The first crossing of a threshold from above, linearly interpolated in frequency between two shells.

    `frequency` (n,) rises; shells whose value isn't finite are left out. A later rise is reported, never taken for the
    resolution: it comes from the mask, from duplicated particles or from correlated noise, not from signal.
    """
    known = np.isfinite(fsc) & np.isfinite(frequency)
    frequency, fsc = frequency[known], fsc[known]
    if frequency.size == 0:
        raise ValueError("an FSC curve without any finite value has no crossing")
    below = np.flatnonzero(fsc < threshold)
    if below.size == 0:
        return Crossing(
            threshold=threshold, frequency=float(frequency[-1]), crosses=False, rises_to=None, rises_at=None
        )
    at = int(below[0])
    where = float(frequency[at]) if at == 0 else _between(frequency, fsc, at, threshold)
    peak = at + int(np.argmax(fsc[at:]))
    risen = bool(fsc[peak] > threshold + RISE)
    return Crossing(
        threshold=threshold,
        frequency=where,
        crosses=True,
        rises_to=float(fsc[peak]) if risen else None,
        rises_at=float(frequency[peak]) if risen else None,
    )


def _between(frequency: Curve, fsc: Curve, at: int, threshold: float) -> float:
    share = (fsc[at - 1] - threshold) / (fsc[at - 1] - fsc[at])
    return float(frequency[at - 1] + share * (frequency[at] - frequency[at - 1]))


def correct(masked: Curve, randomised: Curve, *, randomised_from: int) -> Curve:
    """The masked FSC freed of the mask's own correlation: (masked - random) / (1 - random).

    Chen et al. 2013, Ultramicroscopy 135, 24. Up to two shells past `randomised_from` the masked curve stands. Where
    the random curve reaches 1 nothing can be told and the value is 0.
    """
    corrected = masked.astype(np.float64, copy=True)
    beyond = np.arange(masked.size) >= randomised_from + SHELLS_UNTIL_CORRECTION
    room = 1 - randomised
    tells = beyond & (room > 1e-6)
    corrected[tells] = (masked[tells] - randomised[tells]) / room[tells]
    corrected[beyond & ~tells] = 0.0
    return corrected


def shells(box: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Shell number and weight of each coefficient of a real FFT of a cubic box, shape (box, box, box // 2 + 1).

    Shells are one Fourier pixel wide. The weight is 2 for coefficients whose conjugate isn't stored, else 1.
    """
    full, half = np.fft.fftfreq(box, 1 / box).astype(np.float32), np.arange(box // 2 + 1, dtype=np.float32)
    radius = np.sqrt(full[:, None, None] ** 2 + full[None, :, None] ** 2 + half[None, None, :] ** 2)
    weight = np.full(box // 2 + 1, 2, dtype=np.float32)
    weight[0] = 1
    if box % 2 == 0:
        weight[-1] = 1
    return np.round(radius).astype(np.int32), np.broadcast_to(weight, radius.shape)


def correlate(
    first: NDArray[Any], second: NDArray[Any], shell: NDArray[np.int32], weight: NDArray[np.float32]
) -> Curve:
    """FSC of two transforms by shell, 0 up to box // 2 (Harauz and van Heel 1986); NaN where a shell holds no power.

    Shell 0 is the mean of the maps, which says nothing about resolution: it is 1 by definition.
    """
    last = first.shape[0] // 2
    index = shell.ravel()

    def total(values: NDArray[Any]) -> Curve:
        return np.asarray(np.bincount(index, (values * weight).ravel())[: last + 1], dtype=np.float64)

    cross = total((first * second.conj()).real)
    power = np.sqrt(total(np.abs(first) ** 2) * total(np.abs(second) ** 2))
    curve = np.divide(cross, power, out=np.full(last + 1, np.nan), where=power > 0)
    curve[0] = 1.0
    return np.asarray(curve)


def randomise_phases(
    transform: NDArray[Any], shell: NDArray[np.int32], *, randomised_from: int, generator: np.random.Generator
) -> NDArray[Any]:
    """The transform with its phases replaced by random ones from a shell on; amplitudes stay.

    The phases are those of real white noise, so that the result still belongs to a real volume.
    """
    from scipy import fft

    box = transform.shape[0]
    noise = fft.rfftn(generator.standard_normal((box, box, box), dtype=np.float32))
    noise /= np.maximum(np.abs(noise), 1e-20)
    return np.where(shell >= randomised_from, np.abs(transform) * noise, transform)


def randomisation_shell(unmasked: Curve) -> int:
    """The first shell past 0 whose unmasked FSC is below 0.8; the last shell where none is."""
    below = np.flatnonzero(~(unmasked[1:] >= RANDOMISE_BELOW))
    return int(below[0]) + 1 if below.size else unmasked.size - 1
